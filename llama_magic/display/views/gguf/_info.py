"""How a GGUF header looks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llama_magic.display.static.doc import Code, Fold, Grid, Head, Line, Node
from llama_magic.display.views.find import nodes
from llama_magic.display.views.gguf.tensors import kinds
from llama_magic.display.views.view import view
from llama_magic.gguf import GGUFInfo
from llama_magic.words.amounts import count, size
from llama_magic.words.counting import counted
from llama_magic.words.tables import Table

_MAX_ROWS = 2000  # of metadata; more are counted


@view.register(GGUFInfo)
def gguf_info(info: GGUFInfo) -> list[Node]:
    """Show a GGUF header: what the file holds, what is odd about it, its metadata, tensors and template."""
    trained = info.context_length
    rows = (
        ("adapter", info.adapter),
        ("architecture", info.architecture),
        ("parameters", count(info.n_params)),
        ("quantisation", info.quantisation),
        ("file size", size(info.file_size)),
        ("context, trained", f"{trained:,} tokens" if trained else ""),
        ("tensors", len(info.tensors) or ""),
        ("chat template", "in the file" if info.chat_template else "none"),
    )
    known = tuple(row for row in rows if row[1] != "")
    planned = tuple(nodes(info.plan)) if info.plan is not None else ()
    if planned and isinstance(planned[0], Grid):  # two tables would have columns of their own
        known, planned = known + planned[0].table.rows, planned[1:]
    out: list[Node] = [Head("GGUF", info.name), Grid(Table(("", ""), known))]
    out.extend(Line(f"{finding.level}: {finding}", tone="warn") for finding in info.findings)
    return [*out, *planned, *_folds(info)]


def _folds(info: GGUFInfo) -> Iterable[Node]:
    if info.metadata:
        table = Grid(_metadata_table(info.metadata))
        yield Fold(f"metadata ({counted(len(info.metadata), 'key')})", (table,), brief=True)
    if info.tensors:
        built = kinds(info.tensors.values())
        rest = Line("info.tensors has the place of each; %llama inspect --tensors lists them.", dim=True)
        yield Fold(f"tensors ({len(info.tensors):,})", (*built, rest), brief=True)
    if info.chat_template:
        yield Fold("chat template", (Code(info.chat_template, template=True),), brief=True)


def _metadata_table(metadata: Mapping[str, Any]) -> Table:
    rows = tuple((key, _short(value)) for key, value in list(metadata.items())[:_MAX_ROWS])
    return Table(("key", "value"), rows, caption=_cut(len(metadata)))


def _short(value: Any) -> str:
    """Return a value's words; arrays are read no further than their first items (they may be lazy)."""
    if isinstance(value, (str, int, float, bool)):
        text = str(value)
        return text if len(text) <= 120 else f"{text[:120]}… ({len(text):,} characters)"
    try:
        length = len(value)
    except TypeError:
        return str(value)[:120]
    head = ", ".join(repr(value[i]) for i in range(min(4, length)))
    return f"[{head}{', …' if length > 4 else ''}] ({counted(length, 'item')})"


def _cut(length: int) -> str:
    return f"the first {_MAX_ROWS:,} of {length:,}" if length > _MAX_ROWS else ""
