"""How a dry run looks: what a load would do."""

from __future__ import annotations

from llama_magic.display.static.doc import Grid, Head, Line, Node
from llama_magic.display.views.fit._estimate import table as estimate_table
from llama_magic.display.views.view import view
from llama_magic.loading.dry import DryRun
from llama_magic.words.amounts import size
from llama_magic.words.tables import Table


@view.register(DryRun)
def dry_run(report: DryRun) -> list[Node]:
    """Show what a load would do: the file, what takes how much memory, the speed, and what is against it."""
    out: list[Node] = [Head("dry run", f"{report.origin} · nothing was loaded")]
    info, estimate = report.info, report.estimate
    rows: list[tuple[str, str]] = [("file size", size(report.size))] if report.size is not None else []
    if info is not None:
        trained = f", trained for {info.context_length:,} tokens" if info.context_length else ""
        rows.append(("model", f"{info.architecture} {info.quantisation}{trained}"))
    if report.window is not None:
        rows.append(("window", f"{report.window:,} tokens"))
    if report.speed is not None:
        rows.append(("speed", str(report.speed)))
    out.append(Grid(Table(("", ""), tuple(rows))))
    if estimate is not None:
        out.append(estimate_table(estimate, "memory for"))
        more = size(report.seeded_bytes)
        out.append(Line(f"{more} more from the first answer with a seed or at temperature 0 on", dim=True))
    given = (f"{name} {value}" for name, value in report.options.items() if value is not None and value != [])
    out.append(Line(" · ".join(given), dim=True))
    out.extend(Line(str(note), tone="warn") for note in report.notes)
    return out
