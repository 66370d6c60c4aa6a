"""How a generation that was kept looks, and a list of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from llama_magic.display.static.doc import Grid, Head, Node, Pages
from llama_magic.display.views.kept import listed
from llama_magic.display.views.model.results import completion
from llama_magic.display.views.view import together, view
from llama_magic.session.history import History, HistoryEntry, table
from llama_magic.words.counting import counted

_PAGE = 50  # generations
# What is said once where all have the same, else with time and speed in one column: texts need the width.
_ONCE = {"mode": "all {}", "ended": "all {}"}
_ENDED = {
    "stop": "ended by themselves",
    "length": "cut at max_tokens",
    "interrupted": "stopped before their end",
    "timeout": "stopped when the time was up",
}


_COLUMNS = ("#", "prompt", "answer")


@view.register(HistoryEntry)
def entry(one: HistoryEntry) -> list[Node]:
    """Show the answer of a generation."""
    return completion(one.completion)


@together.register(HistoryEntry)
def entries(_first: HistoryEntry, every: Sequence[HistoryEntry]) -> list[Node]:
    """Show one line for each generation, as they were given."""
    return [_pages(every)]


@view.register(History)
def history(every: History) -> list[Node]:
    """Show one line for each generation, the newest first, page by page."""
    newest = list(reversed(every))
    if not newest:
        return [Grid(every.table())]
    said = {
        name: words.format(_ENDED.get(value, value))
        for name, words in _ONCE.items()
        if (value := _alike(newest, name))
    }
    words = [f"{counted(len(newest), 'generation')}, the newest first", *said.values()]
    return [Head("history", " · ".join(words)), _pages(newest, said)]


def _alike(every: Sequence[HistoryEntry], name: str) -> str:
    """Return what all of several generations have in a column, "" where they differ."""
    whole = table(every)
    values = {row[whole.headers.index(name)] for row in whole.rows}
    return str(values.pop()) if len(values) == 1 and len(every) > 1 else ""


def _pages(every: Sequence[HistoryEntry], said: Collection[str] = ()) -> Pages:
    """Return the table in pages, without what is said, or a model that wrote all of them."""
    starts = range(0, len(every), _PAGE)
    one_model = len({entry.completion.model for entry in every}) == 1
    left_out = {*said, "model"} if one_model and len(every) > 1 else set(said)
    shown = listed(table(every), _COLUMNS, left_out)
    pages = []
    for start in starts:
        part = every[start : start + _PAGE]
        name = f"{part[0].number:,} to {part[-1].number:,}"
        pages.append((name, replace(shown, rows=shown.rows[start : start + _PAGE])))
    rest = f"{_PAGE} of {len(every):,}: %llama history N shows the last N, history.to_pandas() has all."
    return Pages(tuple(pages), rest * (len(every) > _PAGE))
