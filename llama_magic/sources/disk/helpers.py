"""Files that carry .gguf and are no model of their own: projectors, importance matrices, draft heads.

Names tell, for a list of a repository has nothing else: `mmproj-F16.gguf`, `m.imatrix.gguf`,
`mtp-m-Q4_K_M.gguf`, `m-eagle3-Q8_0.gguf`, `MTP/m-Q4_K_M.gguf`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from llama_magic.sources.disk.shards import group_shards, quant_of, short_name
from llama_magic.sources.types import Sizes

_ALWAYS = ((re.compile("mmproj"), "projector"), (re.compile("imatrix"), "importance matrix"))
_HEAD = r"mtp|nextn|dflash|draft|drafter|eagle\d?|medusa|speculator"
_FIRST = re.compile(rf"(?:{_HEAD})[-_.]")  # a name that begins so
_INSIDE = re.compile(rf"[-_.](?:{_HEAD})(?=[-_.]|$)")
_FOLDER = re.compile(rf"(?:{_HEAD})s?")  # its folder's whole name
_SMALL = 0.5  # a head is less than half as large as its model; a whole model with its head built in is not


def models_in(sizes: Sizes) -> list[str]:
    """Return the names of `sizes` (file to bytes) that are models or parts of one."""
    helpers = helpers_in(sizes)
    return [name for name in sizes if _is_gguf(name) and name not in helpers]


def helpers_in(sizes: Sizes) -> dict[str, str]:
    """Return the files that help a model, and what they are: projector, importance matrix, draft head.

    A draft head counts as one beside a model alone: where nothing else is there, it is what is meant.
    """
    found: dict[str, str] = {}
    rest = []
    for name in filter(_is_gguf, sizes):
        stem = short_name(PurePosixPath(name).name).lower()
        kind = next((kind for words, kind in _ALWAYS if words.search(stem)), None)
        if kind is not None:
            found[name] = kind
        else:
            rest.append(name)
    heads = [group for group in group_shards(rest) if _is_head(group, rest, sizes)]
    names = {name for group in heads for name in group}
    if not names.issuperset(rest):
        found |= {name: "draft head" for name in rest if name in names}
    return found


def described(sizes: Sizes) -> str:
    """Return one line about the helper files of a repository, empty where there are none."""
    kinds: dict[str, list[str]] = {}
    for name, kind in sorted(helpers_in(sizes).items()):
        kinds.setdefault(kind, []).append(name)
    words = [f"{kind}: {', '.join(names)}" for kind, names in kinds.items()]
    return f"Not models, but files that help one: {'; '.join(words)}." if words else ""


def projector_of(group: Sequence[str], sizes: Sizes) -> str | None:
    """Return the projector (of images or sound) that belongs to a model, None where there is none.

    Of several the one in the model's folder and of its name, then of its quantisation, then F16.
    """
    candidates = [name for name, kind in helpers_in(sizes).items() if kind == "projector"]
    base = _base(group[0])

    def rank(name: str) -> tuple[bool, bool, bool, bool, str]:
        own = _base(name)
        return (
            PurePosixPath(name).parent != PurePosixPath(group[0]).parent,
            bool(own) and own != base,
            quant_of(name) != quant_of(group[0]),
            quant_of(name) not in ("F16", "FP16"),
            name,
        )

    return min(candidates, key=rank, default=None)


def _is_gguf(name: str) -> bool:
    return name.lower().endswith(".gguf")


def _is_head(group: Sequence[str], rest: Iterable[str], sizes: Sizes) -> bool:
    stem = short_name(PurePosixPath(group[0]).name).lower()
    first, inside = _FIRST.match(stem), _INSIDE.search(stem)
    if not first and not inside and not _FOLDER.fullmatch(PurePosixPath(group[0]).parent.name.lower()):
        return False
    others = [name for name in rest if name not in group]
    beside = any(_related(_base(group[0]), _base(name)) for name in others)
    if first and not stem.startswith("eagle"):
        return True
    if not beside:  # Eagle is a family of models too
        return False
    largest = max((sizes.get(name) or 0 for name in others), default=0)
    own = sum(sizes.get(name) or 0 for name in group)
    return bool(own) and own < _SMALL * largest


def _base(name: str) -> str:
    """Return a model's name without quantisation, head and projector words."""
    stem = short_name(PurePosixPath(name).name).lower()
    quant = (quant_of(name) or "").lower()
    stem = stem.replace(quant, "") if quant else stem
    stem = re.sub(rf"(?:^|[-_.])(?:{_HEAD}|mmproj|model)(?=[-_.]|$)", "", stem)
    return re.sub(r"[-_.]+", "-", stem).strip("-")


def _related(one: str, other: str) -> bool:
    return bool(one) and bool(other) and (one.startswith(other) or other.startswith(one))
