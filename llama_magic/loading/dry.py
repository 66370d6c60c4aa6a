"""A load that loads nothing: what would be done, and what it would take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from llama_magic import fit, gguf, sources
from llama_magic.errors import FitError
from llama_magic.loading import draft
from llama_magic.loading.checks import gpu_available
from llama_magic.loading.inspect import header
from llama_magic.loading.options import LoadOptions
from llama_magic.words import amounts
from llama_magic.words.shown import Shown

if TYPE_CHECKING:
    from llama_magic.fit import Estimate, Speed
    from llama_magic.gguf import GGUFInfo


@dataclass(frozen=True)
class DryRun(Shown):
    """What `load` would do: the file, the options as they would be taken, the memory it would need."""

    origin: str
    size: int | None
    info: GGUFInfo | None
    window: int | None
    estimate: Estimate | None
    options: dict[str, Any]
    notes: tuple[str, ...] = ()
    speed: Speed | None = None
    seeded_bytes: int = 0  # what the first answer with a seed adds

    def __str__(self) -> str:
        lines = [f"{self.origin} ({amounts.size(self.size)}); nothing was loaded."]
        if self.info is not None:
            lines.append(
                f"{self.info.architecture} {self.info.quantisation}, trained for "
                f"{self.info.context_length:,} tokens"
            )
        if self.estimate is not None and self.window is not None:
            lines.append(f"a window of {self.window:,} tokens: {self.estimate.explained()}")
            lines.append(f"{amounts.size(self.seeded_bytes)} more from the first answer with a seed on")
        if self.speed is not None:
            lines.append(str(self.speed))
        lines += [f"{name}: {value}" for name, value in self.options.items()]
        return "\n".join((*lines, *self.notes))


def dry_run(source: Any, wanted: LoadOptions, revision: str | None, offline: bool | None) -> DryRun:
    """Return what `load` would do with a source and options."""
    located, info = header(source, revision, offline)
    machine = fit.machine()
    gguf.validate(info)
    if wanted.draft is not None:
        meant, _ = sources.meaning(wanted.draft)
        there, of_draft = header(meant, None, offline)
        found = draft.Draft(there.origin, there.origin, (), "", None, of_draft)
        wanted = replace(wanted, draft=draft.judged(found))
    settings = wanted.settle(info, machine, gpu=gpu_available(wanted)).held(info, machine)
    estimate = settings.estimate(info)
    notes = [*located.notes, *settings.notes]
    try:
        notes += fit.check(estimate, machine)
    except FitError as error:
        notes.append(str(error))
    return DryRun(
        located.origin,
        located.size,
        info,
        settings.window,
        estimate,
        settings.shown(),
        tuple(notes),
        settings.speed(info, machine),
        settings.seeded_bytes(info),
    )
