"""How the tensors of a file look: those of no block, then each block folded, in the order of numbers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from llama_magic.display.static.doc import Fold, Grid, Node
from llama_magic.gguf import TensorInfo
from llama_magic.words.amounts import size
from llama_magic.words.counting import counted
from llama_magic.words.tables import Table

_BLOCK = re.compile(r"(.*?\bblk)\.(\d+)\.")


def tensors(every: Iterable[TensorInfo]) -> list[Node]:
    """Show tensors: name, shape, type, bytes and place in the file."""
    groups = [(name, list(of)) for name, of in itertools.groupby(sorted(every, key=_order), key=_block)]
    out: list[Node] = []
    for block, members in groups:
        table = Grid(_table(members))
        total = size(sum(t.n_bytes for t in members))
        out.append(Fold(f"{block}: {counted(len(members), 'tensor')}, {total}", (table,)) if block else table)
    return out


def _order(tensor: TensorInfo) -> tuple[str, int]:
    """Return what to sort by: no block first, then blocks by their numbers; else the file's order stays."""
    found = _BLOCK.match(tensor.name)
    return (found[1], int(found[2])) if found else ("", 0)


def _block(tensor: TensorInfo) -> str:
    found = _BLOCK.match(tensor.name)
    return f"{found[1]}.{found[2]}" if found else ""


def _table(members: Iterable[TensorInfo]) -> Table:
    rows = tuple((t.name, " × ".join(map(str, t.shape)), t.type, t.n_bytes, t.offset) for t in members)
    return Table(("tensor", "shape", "type", "bytes", "offset"), rows)
