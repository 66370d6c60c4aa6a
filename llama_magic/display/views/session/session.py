"""How the history of a kernel looks."""

from __future__ import annotations

from llama_magic.display.static.doc import Grid, Node
from llama_magic.display.views.view import view
from llama_magic.session.session import History


@view.register(History)
def history(every: History) -> list[Node]:
    """Show one line for each generation."""
    return [Grid(every.table())]
