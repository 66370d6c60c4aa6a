"""How the tokens of one text in the eyes of several models look."""

from __future__ import annotations

from dataclasses import replace

from llama_magic.display.static.doc import Grid, Head, Node
from llama_magic.display.views.view import view
from llama_magic.microscope.comparing import TokenComparison


@view.register(TokenComparison)
def comparison(found: TokenComparison) -> list[Node]:
    """Show the text cut where all tokenizers cut, a column for each model."""
    table = found.table()
    return [Head("tokens", table.caption), Grid(replace(table, caption=""))]
