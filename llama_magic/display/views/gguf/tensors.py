"""How the tensors of a file look: those of no block, then the blocks folded, in the order of numbers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from llama_magic.display.static.doc import Fold, Grid, Node
from llama_magic.gguf import TensorInfo
from llama_magic.words.amounts import size
from llama_magic.words.counting import counted
from llama_magic.words.tables import Table

_BLOCK = re.compile(r"(.*?\bblk)\.(\d+)\.")


def tensors(every: Iterable[TensorInfo]) -> list[Node]:
    """Show every tensor: name, shape, type, bytes and place in the file."""
    return [_shown(block, members) for block, members in _blocks(every)]


def kinds(every: Iterable[TensorInfo]) -> list[Node]:
    """Show tensors for who reads a header: blocks that are built alike are shown once."""
    alike: dict[tuple[Any, ...], list[tuple[str, list[TensorInfo]]]] = {}
    for block, members in _blocks(every):
        built = (block.rpartition(".")[0], *((_tail(t), t.shape, t.type) for t in members))
        alike.setdefault(built if block else (), []).append((block, members))
    return [_shown(*same[0]) if len(same) == 1 else _many(same) for same in alike.values()]


def _blocks(every: Iterable[TensorInfo]) -> list[tuple[str, list[TensorInfo]]]:
    return [(name, list(of)) for name, of in itertools.groupby(sorted(every, key=_order), key=_block)]


def _shown(block: str, members: Sequence[TensorInfo]) -> Node:
    table = Grid(_table(members))
    total = size(sum(t.n_bytes for t in members))
    return Fold(f"{block}: {counted(len(members), 'tensor')}, {total}", (table,)) if block else table


def _many(same: Sequence[tuple[str, list[TensorInfo]]]) -> Node:
    """Return blocks that are alike: their numbers, and the tensors that each of them has."""
    prefix = same[0][0].rpartition(".")[0]
    total = size(sum(t.n_bytes for _, members in same for t in members))
    numbers = _ranges(int(block.rpartition(".")[2]) for block, _ in same)
    each = counted(len(same[0][1]), "tensor")
    rows = tuple((f"{prefix}.*.{_tail(t)}", _shape(t), t.type, t.n_bytes) for t in same[0][1])
    table = Table(("tensor of each block", "shape", "type", "bytes"), rows)
    return Fold(f"{prefix}.{numbers}: {len(same)} blocks alike, {each} each, {total}", (Grid(table),))


def _ranges(numbers: Iterable[int]) -> str:
    """Say numbers in their order: `0 to 2, 5`."""
    runs = itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    ends = [[number for _, number in run] for _, run in runs]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in ends)


def _tail(tensor: TensorInfo) -> str:
    return _BLOCK.sub("", tensor.name, count=1)


def _order(tensor: TensorInfo) -> tuple[str, int]:
    """Return what to sort by: no block first, then blocks by their numbers; else the file's order stays."""
    found = _BLOCK.match(tensor.name)
    return (found[1], int(found[2])) if found else ("", 0)


def _block(tensor: TensorInfo) -> str:
    found = _BLOCK.match(tensor.name)
    return f"{found[1]}.{found[2]}" if found else ""


def _table(members: Iterable[TensorInfo]) -> Table:
    rows = tuple((t.name, _shape(t), t.type, t.n_bytes, t.offset) for t in members)
    return Table(("tensor", "shape", "type", "bytes", "offset"), rows)


def _shape(tensor: TensorInfo) -> str:
    return " × ".join(map(str, tensor.shape))
