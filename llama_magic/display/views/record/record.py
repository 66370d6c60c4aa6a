"""How a record looks: a line for each of its last answers."""

from __future__ import annotations

from llama_magic.display.static.doc import Grid, Node
from llama_magic.display.views.view import view
from llama_magic.record.record import Record


@view.register(Record)
def record(one: Record) -> list[Node]:
    """Show one line for each of the last answers."""
    return [Grid(one.table())]
