"""How the answers of an experiment look: a table, a row an answer, page by page."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from llama_magic.display.static.doc import Fold, Grid, Head, Line, Node, Pages
from llama_magic.display.views.experiments.grids import grid
from llama_magic.display.views.find import find
from llama_magic.display.views.model.results import completion
from llama_magic.display.views.view import view
from llama_magic.experiments.comparing import failed_scores
from llama_magic.experiments.odds import Decision
from llama_magic.experiments.results import Results
from llama_magic.experiments.runs import Run, Runs, notes_of
from llama_magic.model.gaps import is_gap
from llama_magic.model.results import Completion
from llama_magic.words.counting import counted
from llama_magic.words.plain import plain, said
from llama_magic.words.tables import Figure, Table, brief

PAGE = 50  # rows
# That a saved notebook keeps, about 1 kB a row; below a grid, which sums them up, one. Whoever wants more has
# the values.
_PAGES = 6
_LATEST = 8  # results of the table that fills
_COLUMNS = 3  # of a row, and
_FIELDS = 6  # of an answer, that have a column of the table
_LONG = 300  # characters of an answer


@view.register(Runs)
def runs(r: Runs) -> list[Node]:
    """Show answers: how many, the grid of settings if there are some, all page by page, what is missing."""
    errors = len(r.failures)
    said = [counted(len(r), r.noun), *([counted(errors, "error")] if errors else [])]
    out: list[Node] = [Head("runs", " · ".join([*said, *axes_words(r.axes)]))]
    if len(r) and r.axes:
        if errors and len({one.row for one in r}) > 1:  # the grid shows one row, most often another
            failed = r.failures[0]
            words = f"{counted(errors, 'answer')} failed. Row {failed.row:,}: {error_words(failed.error)}"
            out.append(Line(words, tone="bad"))
        every = pages(columns(r), list(r), most=1)
        out += [*grid(r), Fold("every answer", (every,))]
    elif len(r):
        out.append(pages(columns(r), list(r)))
        out += [Line(words, tone="warn") for words in failed_scores(r)]
    out += [Line(note, tone="warn") for note in (*r.notes, *notes_of(r))]
    if r.missing:
        out.append(Line(f"{r.missing:,} of {r.total:,} are missing; .resume() goes on.", tone="warn"))
    return out


@view.register(Run)
def run(r: Run) -> list[Node]:
    """Show one answer: its row, its settings, and the answer as any other; or the error."""
    out: list[Node] = [Head("run", f"row {r.row}"), *inputs_table(r)]
    if r.completion is not None:
        return [*out, *completion(r.completion)]
    written = getattr(r.error, "completion", None)  # what there was of it by then
    return [*out, *error_lines(r.error), *(completion(written) if isinstance(written, Completion) else [])]


def inputs_table(r: Run | Decision) -> list[Node]:
    """Show the columns of a row, and its settings."""
    rows = tuple((name, cell(value)) for name, value in {**r.inputs, **r.settings}.items())
    return [Grid(Table(("column", "value"), rows))] if rows else []


def latest(results: Results[Any]) -> list[Node]:
    """Show the results that came last."""
    find(type(results))
    return [Grid(columns(results).table(results.newest(_LATEST)))] if len(results) else []


def pages(table: Columns, results: Sequence[Any], most: int = _PAGES) -> Pages:
    """Show the first pages of results, and the errors that are not on them; say how many there are."""
    named = []
    for start in range(0, len(results), PAGE)[:most]:
        part = results[start : start + PAGE]
        named.append((f"{start + 1:,} to {start + len(part):,}", table.table(part)))
    if failed := [result for result in results[most * PAGE :] if result.error is not None]:
        named.append((f"{counted(len(failed), 'error')} further on", table.table(failed[:PAGE])))
    rest = f"{len(results):,} in all; .to_pandas() has every one." * (len(results) > PAGE)
    return Pages(tuple(named), rest)


@functools.singledispatch
def columns(results: Results[Any]) -> Columns:
    """Return the columns of a table of results, by their kind."""
    return Columns(results)


class Columns:
    """The columns of a table of results: of the row (a sweep without rows has none), its settings, the
    answer, the scores.
    """

    answers: tuple[str, ...] = ("answer",)

    def __init__(self, results: Results[Any]) -> None:
        self._inputs = results.columns[:_COLUMNS]
        self._axes = list(results.axes)
        # A table of pandas that was filtered or sorted calls its rows otherwise than by their place.
        self._index, labels = results.labels or ("", None)
        self._labels: Sequence[Any] | None = None if self._index in self._inputs else labels
        self._rows = bool(self._inputs) or labels is not None or any(result.row for result in results)
        self._samples = any(result.sample for result in results)
        self._scores = list(dict.fromkeys(name for result in results for name in result.scores))
        answers = (plain(getattr(result, "parsed", None)) for result in results)
        fields = next((tuple(a) for a in answers if isinstance(a, dict) and len(a) <= _FIELDS), ())
        self._fields: tuple[str, ...] = fields

    @property
    def headers(self) -> tuple[str, ...]:
        row = ["row"] if self._rows else []
        samples = ["sample"] if self._samples else []
        answer = self._fields or self.answers
        index = [] if self._labels is None else [self._index]
        return (*row, *index, *samples, *self._inputs, *self._axes, *answer, *self._scores)

    def table(self, results: Sequence[Any]) -> Table:
        """Return the table of some of the results."""
        together = 0 if self._samples else self._rows + (self._labels is not None) + len(self._inputs)
        return Table(self.headers, tuple(map(self._row, results)), together=together)

    def _row(self, r: Any) -> tuple[Any, ...]:
        row = [r.row] if self._rows else []
        samples = [r.sample] if self._samples else []
        inputs = [cell(r.inputs.get(name)) for name in self._inputs]
        settings = [cell(r.settings.get(name)) for name in self._axes]
        scores = [_score(r.scores.get(name)) for name in self._scores]
        label = [] if self._labels is None else [cell(self._labels[r.row])]
        return (*row, *label, *samples, *inputs, *settings, *self._answer(r), *scores)

    def _answer(self, r: Any) -> Sequence[Any]:
        width = max(1, len(self._fields))
        if r.error is not None:
            return [brief(f"error: {error_words(r.error)}"), *[None] * (width - 1)]
        if not self._fields:
            return [cell(r.answer(), _LONG)]
        data = plain(r.parsed)
        return [cell(data.get(name)) if isinstance(data, dict) else None for name in self._fields]


def axes_words(axes: Mapping[str, Any]) -> list[str]:
    """Name the axes, with how many values each has."""
    return [" × ".join(f"{name} ({len(values)})" for name, values in axes.items())] if axes else []


def error_words(error: Exception | None) -> str:
    """Say an error without its remedy."""
    return str(getattr(error, "message", None) or error)


def error_lines(error: Exception | None) -> list[Line]:
    """Say an error, and what to do."""
    remedy = getattr(error, "remedy", None)
    return [Line(error_words(error), tone="bad"), *([Line(remedy, dim=True)] if remedy else [])]


def _score(value: Any) -> Any:
    return "failed" if isinstance(value, Exception) else value


def cell(value: Any, most: int = 0) -> Any:
    """Return a value as it stands in a cell: a number with all its digits (1913 is a year), a text cut."""
    value = plain(value)
    if is_gap(value) or isinstance(value, bool):
        return None if is_gap(value) else value
    if isinstance(value, (int, float)):
        return Figure(said(value))
    held = isinstance(value, (dict, list))  # a date, say, has words of its own
    text = json.dumps(value, ensure_ascii=False, default=said) if held else said(value)
    return f"{text[: most - 1]}…" if most and len(text) > most else text if most else brief(text)
