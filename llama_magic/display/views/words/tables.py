"""How a table looks: as a table."""

from __future__ import annotations

from llama_magic.display.static.doc import Grid, Node
from llama_magic.display.views.view import view
from llama_magic.words.tables import Table


@view.register(Table)
def table(t: Table) -> list[Node]:
    """Show a table."""
    return [Grid(t)]
