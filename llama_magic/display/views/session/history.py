"""How a generation that was kept looks, and a list of them."""

from __future__ import annotations

from collections.abc import Sequence

from llama_magic.display.static.doc import Grid, Node
from llama_magic.display.views.model.results import completion
from llama_magic.display.views.view import together, view
from llama_magic.session.history import History, HistoryEntry, table


@view.register(HistoryEntry)
def entry(one: HistoryEntry) -> list[Node]:
    """Show the answer of a generation."""
    return completion(one.completion)


@together.register(HistoryEntry)
def entries(_first: HistoryEntry, every: Sequence[HistoryEntry]) -> list[Node]:
    """Show one line for each generation."""
    return [Grid(table(every))]


@view.register(History)
def history(every: History) -> list[Node]:
    """Show one line for each generation."""
    return [Grid(every.table())]
