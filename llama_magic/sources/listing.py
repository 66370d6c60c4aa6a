"""Which models a hub repository holds: names, sizes, and what of them lies on this disk already."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llama_magic.doors import verb
from llama_magic.errors import SourceError
from llama_magic.sources.disk.helpers import described, models_in, projector_of
from llama_magic.sources.disk.shards import group_shards, quant_of, short_name
from llama_magic.sources.faults import plain_errors
from llama_magic.sources.hub.cache import cached_files, is_offline
from llama_magic.sources.hub.quants import label_of, no_models
from llama_magic.sources.resolver import parsed_source
from llama_magic.sources.types import ParsedSource, Sizes, total


@dataclass(frozen=True)
class HubModel:
    """One model of a repository. `label` is what to write after `owner/repo:` to mean it.

    `files` are all its shards in order, `size` their bytes (None where the server does not say);
    `parts` are the same files on this disk, empty where they are not all here.
    """

    label: str
    files: tuple[str, ...]
    size: int | None
    quant: str | None
    parts: tuple[Path, ...] = ()
    projector: str | None = None  # the file that makes images or sound readable to this model

    @property
    def name(self) -> str:
        return short_name(self.files[0])


@dataclass(frozen=True)
class HubModels:
    """The models of a repository, the smallest first. `revision` is the one asked for, None for the usual."""

    repo: str
    revision: str | None
    models: tuple[HubModel, ...]
    offline: bool = False
    notes: tuple[str, ...] = ()

    def source(self, model: HubModel) -> str:
        """Return what to write to load one of them."""
        at = f"@{self.revision}" if self.revision else ""
        return f"hf:{self.repo}:{model.label}{at}"


@plain_errors()
def hub_models(source: Any, *, revision: str | None = None, offline: bool | None = None) -> HubModels:
    """Return the models of a hub repository; a quantisation or file that `source` names is left out.

    Costs one request (its file list), and one without a body for each file whose size the list lacks.
    Offline, or where the hub cannot be reached, the models of the cache are listed and a note says so.
    Raises `SourceError` where the repository is not there or holds no GGUF model, or `source` is no hub name.
    """
    from llama_magic.sources.http.client import UnreachableError
    from llama_magic.sources.hub import hub as _hub

    parsed = parsed_source(source, None, None, revision)
    if parsed.kind != "hub" or parsed.repo is None:
        raise SourceError(
            f"{parsed.text} is no hub repository: there is nothing to choose from.",
            remedy=f"Look at it alone: {verb('inspect', 'SOURCE')}.",
        )
    wanted = revision or parsed.revision
    why = "offline mode is on"
    if not is_offline(offline):
        hub = _hub.Hub(parsed, revision)
        try:
            sizes = hub.sizes()
            here = cached_files(parsed, hub.commit or wanted)
            return HubModels(
                parsed.repo, wanted, _grouped(parsed, sizes, here), notes=_notes(sizes, *hub.notes)
            )
        except UnreachableError as err:
            why = str(err)
    here = cached_files(parsed, wanted)
    if not here:
        raise SourceError(
            f"Nothing of {parsed.repo} is in the cache, and {why}.",
            remedy="Look again while the hub can be reached.",
        )
    found = {name: path.stat().st_size for name, path in here.items()}
    note = f"Only what is in the cache is listed: {why}."
    return HubModels(parsed.repo, wanted, _grouped(parsed, found, here), True, _notes(found, note))


def _notes(sizes: Sizes, *notes: str) -> tuple[str, ...]:
    """Return the notes, with one that names the files that are no models."""
    helpers = described(sizes)
    return (*notes, helpers) if helpers else notes


def _grouped(parsed: ParsedSource, sizes: Sizes, here: dict[str, Path]) -> tuple[HubModel, ...]:
    groups = group_shards(models_in(sizes))
    whole = [group for group in groups if all(name in sizes for name in group)]
    if not whole:
        raise no_models(str(parsed.repo), sizes)
    models = []
    for group in whole:
        size = total(sizes[name] for name in group)
        parts = tuple(here[name] for name in group if name in here)
        label, quant = label_of(group, whole), quant_of(group[0])
        here_too = parts if len(parts) == len(group) else ()
        models.append(HubModel(label, tuple(group), size, quant, here_too, projector_of(group, sizes)))
    return tuple(sorted(models, key=lambda model: (model.size is None, model.size, model.label)))
