"""Views of a choice: how a model would be loaded here, a dry run, the quants of a repository side by side."""

from __future__ import annotations

from typing import Any

from llama_magic.display.static.doc import Code, Fold, Grid, Head, Line, Node
from llama_magic.words.amounts import size
from llama_magic.words.tables import Table


def plan(found: Any) -> list[Node]:
    """Show how a model would be loaded: window, memory, speed, and the line to paste; or why it would not."""
    if not found.fits:
        return [Line(found.why, tone="warn")]
    rows = [
        ("fits here", f"{size(found.memory)} with a window of {found.window:,} tokens"),
        ("longest window", f"{found.largest_window:,} tokens fit"),
        ("speed", str(found.speed or "")),
        ("with a full window", found.slowed()),
    ]
    table = Table(("", ""), tuple(row for row in rows if row[1]))
    return [Grid(table), Code(found.load_line)]


def dry_run(report: Any) -> list[Node]:
    """Show what a load would do: the file, what takes how much memory, the speed, and what is against it."""
    out: list[Node] = [Head("dry run", f"{report.origin} · nothing was loaded")]
    info, estimate = report.info, report.estimate
    rows: list[tuple[str, str]] = [("file size", size(report.size))] if report.size is not None else []
    if info is not None:
        trained = f", trained on {info.context_length:,} tokens" if info.context_length else ""
        rows.append(("model", f"{info.architecture} {info.quantisation}{trained}"))
    if report.window is not None:
        rows.append(("window", f"{report.window:,} tokens"))
    if report.speed is not None:
        rows.append(("speed", str(report.speed)))
    out.append(Grid(Table(("", ""), tuple(rows))))
    if estimate is not None:
        parts = tuple((what, size(amount), why) for what, amount, why in estimate.parts())
        out.append(
            Grid(Table(("memory for", "size", "because"), (*parts, ("total", size(estimate.total), ""))))
        )
        out.append(Line(f"{size(report.seeded_bytes)} more from the first answer with a seed on", dim=True))
    out.append(Line(" · ".join(f"{name} {value}" for name, value in report.options.items()), dim=True))
    out.extend(Line(str(note), tone="warn") for note in report.notes)
    return out


def comparison(found: Any) -> list[Node]:
    """Show the quants of a repository, one row each, then which to take and the line to paste."""
    headers = (
        "quant", "file", "size", "bits a weight", "memory", "longest window", "fits", "tokens/s, at most",
    )  # fmt: skip
    table = Table(headers, tuple(_row(row) for row in found.rows))
    out: list[Node] = [Head("quants", f"hf:{found.repo} · {found.machine}"), Grid(table)]
    out.append(Line(found.recommendation))
    if found.recommended is not None:
        out.append(Code(found.recommended.load_line))
    lines = "\n".join(row.load_line for row in found.rows if row.fits is not False)
    if lines and len(found.rows) > 1:
        out.append(Fold("to load each", (Code(lines),)))
    out.extend(Line(str(note), tone="warn") for note in found.notes)
    return out


def _row(row: Any) -> tuple[Any, ...]:
    file = row.files[0] + (f" ({len(row.files)} parts)" if len(row.files) > 1 else "")
    memory = None if row.memory is None else f"{size(row.memory)} at {row.window:,}"
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
