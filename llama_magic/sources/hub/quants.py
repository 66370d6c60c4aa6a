"""Choose which model of a hub repository is meant."""

from __future__ import annotations

from pathlib import PurePosixPath

from llama_magic.doors import verb
from llama_magic.errors import SourceError
from llama_magic.sources.disk.helpers import models_in
from llama_magic.sources.disk.shards import group_shards, quant_of, short_name
from llama_magic.sources.redaction import redact
from llama_magic.sources.types import Fits, Sizes, total
from llama_magic.words import amounts
from llama_magic.words.names import nearest


def choose(repo: str, sizes: Sizes, quant: str | None, fits: Fits | None = None) -> list[str]:
    """Return the shard names of the one model meant. `sizes` maps file names to bytes.

    Raises `SourceError` that lists the models with their sizes, and with what `fits`
    says of each, where none or several are meant.
    """
    groups = group_shards(models_in(sizes))
    if not groups:
        raise no_models(repo, sizes)
    matching = groups if quant is None else _matching(groups, quant)
    if len(matching) == 1:
        return _complete(repo, matching[0], sizes)
    if quant is None:
        said = f"{repo} holds {len(groups)} models and none was named:"
    elif matching:
        said = f"{quant} names {len(matching)} models of {repo}:"
    else:
        said = f"{repo} has no {quant}{_near(groups, quant)}. It has:"
    shown = sorted(matching or groups, key=lambda group: _size(group, sizes) or 0)
    raise SourceError(
        redact(f"{said}\n{_table(shown, sizes, fits)}"), remedy=_advice(repo, shown, sizes, fits)
    )


def no_models(repo: str, sizes: Sizes) -> SourceError:
    """Return the error for a repository without a GGUF model: it says what else is there."""
    return SourceError(
        f"{repo} holds no GGUF model{_other_formats(sizes)}.",
        remedy="Look for a repository of the same model with GGUF in its name.",
    )


def _matching(groups: list[list[str]], quant: str) -> list[list[str]]:
    wanted = quant.upper()
    exact = [group for group in groups if quant_of(group[0]) == wanted]
    return exact or [group for group in groups if short_name(group[0]).upper() == wanted]


def _complete(repo: str, group: list[str], sizes: Sizes) -> list[str]:
    missing = [name for name in group if name not in sizes]
    if missing:
        raise SourceError(
            f"{repo} lacks {len(missing)} of the {len(group)} parts of {short_name(group[0])}: "
            f"{', '.join(missing[:3])}.",
            remedy="Choose another model of the repository, or tell its owner.",
        )
    return group


def _size(group: list[str], sizes: Sizes) -> int | None:
    return total(sizes.get(name) for name in group)


def label_of(group: list[str], groups: list[list[str]]) -> str:
    """Return what to write after `owner/repo:` to mean this group and no other."""
    quant = quant_of(group[0])
    alone = quant is not None and sum(quant_of(other[0]) == quant for other in groups) == 1
    return quant if alone and quant else group[0]


def _table(groups: list[list[str]], sizes: Sizes, fits: Fits | None) -> str:
    rows = []
    for group in groups:
        size = _size(group, sizes)
        verdict = "" if fits is None or size is None else "  fits" if fits(size) else "  does not fit"
        parts = f"  ({len(group)} parts)" if len(group) > 1 else ""
        rows.append((label_of(group, groups), f"{amounts.size(size):>8}{verdict}{parts}"))
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"  {label:<{width}}  {rest}" for label, rest in rows)


def _advice(repo: str, groups: list[list[str]], sizes: Sizes, fits: Fits | None) -> str:
    best = groups[0]
    for group in groups:  # smallest first: the last that fits is the best one
        size = _size(group, sizes)
        if fits is not None and size is not None and fits(size):
            best = group
    preferred = [group for group in groups if quant_of(group[0]) == "Q4_K_M"]
    if fits is None and preferred:
        best = preferred[0]
    repo = repo.removesuffix(" (cached)")
    compared = verb("inspect", f"hf:{repo}")
    return f"Name one, for example hf:{repo}:{label_of(best, groups)}. {compared} compares them."


def _near(groups: list[list[str]], quant: str) -> str:
    names = [name for group in groups if (name := quant_of(group[0]))]
    near = nearest(quant.upper(), names, n=2, cutoff=0.5)
    return f" (near: {', '.join(near)})" if near else ""


def _other_formats(sizes: Sizes) -> str:
    endings = {PurePosixPath(name).suffix.lower() for name in sizes}
    formats = ((".safetensors", "safetensors"), (".bin", "PyTorch"))
    kinds = [kind for ending, kind in formats if ending in endings]
    return f"; its weights are {' and '.join(kinds)}" if kinds else ""
