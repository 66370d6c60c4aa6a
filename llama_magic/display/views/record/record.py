"""How a record looks: a line for each of its last answers."""

from __future__ import annotations

from dataclasses import replace

from llama_magic.display.static.doc import Grid, Head, Node
from llama_magic.display.views.kept import listed
from llama_magic.display.views.view import view
from llama_magic.record.record import Record

_COLUMNS = ("#", "time", "prompt", "answer")


@view.register(Record)
def record(one: Record) -> list[Node]:
    """Show one line for each of the last answers."""
    whole = one.table()
    model = whole.headers.index("model")
    left_out = ["model"] if len({row[model] for row in whole.rows}) == 1 and len(whole) > 1 else []
    head = Head("record", whole.caption)
    return [head, Grid(replace(listed(whole, _COLUMNS, left_out), caption=""))]
