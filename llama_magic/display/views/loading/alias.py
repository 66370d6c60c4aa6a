"""How an alias looks."""

from __future__ import annotations

from llama_magic.display.static.doc import Head, Line, Node
from llama_magic.display.views.view import view
from llama_magic.loading.alias import Alias


@view.register(Alias)
def alias(made: Alias) -> list[Node]:
    """Show what a name stands for, and what stands in its way."""
    options = f", {made.words}" if made.options else ""
    return [
        Head(made.name, f"stands for {made.source}{options}"),
        *(Line(n, tone="warn") for n in made.notes),
    ]
