"""How a comparison looks: the quants of a repository side by side."""

from __future__ import annotations

from typing import Any

from llama_magic.display.static.doc import Code, Fold, Grid, Head, Line, Node
from llama_magic.display.views.view import view
from llama_magic.loading.compare import Comparison, Quant
from llama_magic.words.amounts import size
from llama_magic.words.tables import Table


@view.register(Comparison)
def comparison(found: Comparison) -> list[Node]:
    """Show the quants of a repository, one row each, then which to take and the line to paste."""
    windows = {row.window for row in found.rows if row.window is not None}
    once = len(windows) == 1
    memory = f"memory at {windows.pop():,}" if once else "memory"
    headers = (
        "quant", "file", "size", "bits a weight", memory, "longest window", "fits", "tokens/s, at most",
    )  # fmt: skip
    table = Table(headers, tuple(_row(row, once=once) for row in found.rows))
    out: list[Node] = [Head("quants", f"hf:{found.repo} · {found.machine}"), Grid(table)]
    out.append(Line(found.recommendation))
    if found.recommended is not None:
        out.append(Code(found.recommended.load_line))
    lines = "\n".join(row.load_line for row in found.rows if row.fits is not False)
    if lines and len(found.rows) > 1:
        out.append(Fold("to load each", (Code(lines),)))
    out.extend(Line(str(note), tone="warn") for note in found.notes)
    return out


def _row(row: Quant, *, once: bool) -> tuple[Any, ...]:
    file = row.files[0] + (f" ({len(row.files)} parts)" if len(row.files) > 1 else "")
    memory = None if row.memory is None else size(row.memory)
    if memory is not None and not once:
        memory = f"{memory} at {row.window:,}".replace(" ", "\u00a0")  # on one line
    rate = row.tokens_per_second
    return (
        row.quantisation,
        file + (", here" if row.cached else ""),
        "unknown" if row.size is None else size(row.size),
        None if row.bits is None else f"{row.bits:.2f}",
        memory,
        row.largest_window,
        None if row.fits is None else row.fits,
        None if rate is None else float(f"{rate:.2g}"),
    )
