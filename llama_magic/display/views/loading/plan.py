"""How a plan looks: how a model would be loaded here."""

from __future__ import annotations

from llama_magic.display.static.doc import Code, Grid, Line, Node
from llama_magic.display.views.view import view
from llama_magic.loading.plan import Plan
from llama_magic.words.amounts import size
from llama_magic.words.tables import Table


@view.register(Plan)
def plan(found: Plan) -> list[Node]:
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
