"""Names of GGUF files: shards of one model, and the quantisation a name tells."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath, PurePosixPath

from llama_magic.errors import SourceError

_SHARD = re.compile(r"^(?P<stem>.+)-(?P<index>\d{5})-of-(?P<total>\d{5})(?P<ext>\.gguf)$", re.IGNORECASE)
_QUANT = re.compile(
    r"(?:^|[-._/])((?:UD-)?(?:I?Q\d(?:_[A-Z0-9]+)+|I?Q\d(?=$)|TQ\d(?:_\d)?|MXFP4(?:_MOE)?|NVFP4|BF16|F16|F32|FP16|FP32))(?=$|[-._/])",
    re.IGNORECASE,
)
_MAX_SHARDS = 10_000


def shard_names(name: str) -> list[str]:
    """Return the names of all shards of the model that `name` belongs to, in order.

    A name that is no shard is returned alone. llama.cpp's scheme: `…-00001-of-00003.gguf`.
    """
    match = _SHARD.match(name)
    if match is None:
        return [name]
    index, total = int(match["index"]), int(match["total"])
    if not 1 <= index <= total or total > _MAX_SHARDS:
        raise SourceError(
            f"{PurePath(name).name} calls itself part {index} of {total}, which cannot be.",
            remedy="Use the names that came with the model: …-00001-of-00003.gguf.",
        )
    return [f"{match['stem']}-{i:05d}-of-{total:05d}{match['ext']}" for i in range(1, total + 1)]


def is_shard(name: str) -> bool:
    """Return whether `name` is one of several shards by its form."""
    return _SHARD.match(name) is not None


def group_shards(names: Iterable[str]) -> list[list[str]]:
    """Return models as lists of shard names; sets with a shard missing are kept, complete with its name."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        try:
            shards = shard_names(name)
        except SourceError:
            continue  # "part 4 of 3" is no model; naming it directly says why
        groups.setdefault(shards[0], shards)
    return list(groups.values())


def short_name(path: PurePath | str) -> str:
    """Return the stem of a file's name without its shard number."""
    name = PurePath(path).name
    if match := _SHARD.match(name):
        return match["stem"]
    return name[:-5] if name.lower().endswith(".gguf") else name


def quant_of(name: str) -> str | None:
    """Return the quantisation that a file's name, or else its folder's, tells (`Q4_K_M`, `UD-IQ2_XXS`)."""
    path = PurePosixPath(name)
    for text in (short_name(path.name), path.parent.name):
        found: list[str] = _QUANT.findall(text)
        if found:
            return found[-1].upper()
    return None
