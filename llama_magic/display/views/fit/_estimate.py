"""How a fit estimate looks."""

from __future__ import annotations

from llama_magic.display.static.doc import Grid, Head, Node
from llama_magic.display.views.view import view
from llama_magic.fit import Estimate
from llama_magic.words.amounts import size
from llama_magic.words.tables import Table


@view.register(Estimate)
def fit(estimate: Estimate) -> list[Node]:
    """Show a fit estimate: what takes how many bytes and why, and the sum."""
    return [Head("fit"), table(estimate, "for")]


def table(estimate: Estimate, what_for: str) -> Grid:
    """Return what takes how many bytes and why, and the sum; `what_for` heads the first column."""
    rows = tuple((what, size(amount), why) for what, amount, why in estimate.parts())
    total = ("total", size(estimate.total), "")
    return Grid(Table((what_for, "size", "because"), (*rows, total)))
