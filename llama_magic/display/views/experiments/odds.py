"""How decisions look: the options of every row with their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_magic.display.static.doc import Fold, Grid, Head, Line, Node
from llama_magic.display.views.experiments.grids import grid
from llama_magic.display.views.experiments.runs import (
    Columns,
    axes_words,
    columns,
    error_lines,
    error_words,
    inputs_table,
    pages,
)
from llama_magic.display.views.view import view
from llama_magic.experiments.odds import Decision, Odds
from llama_magic.words.counting import counted
from llama_magic.words.tables import Share, Table, percent

_OPTIONS = 8  # that have a column of the table


@view.register(Odds)
def odds(o: Odds) -> list[Node]:
    """Show decisions: how many, the first page of them, what abstained, what is to be known."""
    errors, abstained = len(o.failures), sum(one.abstained for one in o)
    said = [counted(len(o), o.noun), *([f"{abstained:,} abstained"] if abstained else [])]
    said += [counted(errors, "error")] if errors else []
    out: list[Node] = [Head("odds", " · ".join([*said, *axes_words(o.axes)]))]
    if len(o) and o.axes:
        out += [*grid(o), Fold("every decision", (pages(columns(o), list(o), most=1),))]
    elif len(o):
        out.append(pages(columns(o), list(o)))
    if o.missing:
        out.append(Line(f"{o.missing:,} of {o.total:,} are missing; .resume() goes on.", tone="warn"))
    out.extend(Line(note, tone="warn") for note in (*o.notes, *o.foreign, *([o.rare] if o.rare else [])))
    return out


@view.register(Decision)
def decision(d: Decision) -> list[Node]:
    """Show one decision: its row, each option with both of its probabilities, margin and mass."""
    out: list[Node] = [Head("decision", f"row {d.row}"), *inputs_table(d)]
    if d.error is not None:
        return [*out, *error_lines(d.error)]
    rows = tuple((option, (Share("", p),), percent(d.raw[option])) for option, p in d.probabilities.items())
    heads = ("option", "among the options", "of all texts")
    out.append(Grid(Table(heads, rows, caption="how likely each option is")))  # words part it from the row
    chosen = "abstained" if d.choice is None else f"choice {d.choice}"
    words = f"{chosen} · margin {d.margin:.0%} · together the options have {percent(d.mass)}"
    return [*out, Line(words, dim=True)]


class _OddsColumns(Columns):
    """A table of decisions: the choice, how far it is before the next, and the share of each option."""

    def __init__(self, results: Odds) -> None:
        super().__init__(results)
        self._own = any(one.by_row for one in results)
        first = () if self._own else next((tuple(one.logprobs) for one in results if one.logprobs), ())
        self._options = first[:_OPTIONS]
        self.answers = ("choice", "confidence" if self._own else "margin", *self._options)

    def _answer(self, r: Any) -> Sequence[Any]:
        if r.error is not None:
            return (f"error: {error_words(r.error)}", None, *[None] * len(self._options))
        shares = r.probabilities
        sure = r.confidence if self._own else r.margin
        return (r.choice or "abstained", f"{sure:.0%}", *((Share("", shares[o]),) for o in self._options))


@columns.register(Odds)
def _columns(results: Odds) -> Columns:
    return _OddsColumns(results)
