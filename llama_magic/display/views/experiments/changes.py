"""How two runs side by side look: how many answers changed, how the scores moved, the rows that changed."""

from __future__ import annotations

from typing import Any

from llama_magic.display.static.doc import Head, Line, Node, Pages
from llama_magic.display.views.experiments.comparing import sentence
from llama_magic.display.views.experiments.difference import settings_table
from llama_magic.display.views.experiments.runs import PAGE, cell, error_words
from llama_magic.display.views.view import view
from llama_magic.experiments.changes import Changes
from llama_magic.words.counting import counted
from llama_magic.words.tables import Table, brief

_PAGES = 6
_COLUMNS = 3  # of a row


@view.register(Changes)
def changes(c: Changes) -> list[Node]:
    """Show how many answers changed, what that did to each score, and the rows page by page."""
    first, second = c.names
    changed = c.changed
    words = f"{len(changed):,} of {counted(len(c.both), 'answer')} changed"
    out: list[Node] = [Head("diff", f"{first} and {second}: {words}")]
    for moved in c.scores:
        out += [Line(f"{moved.score}: {sentence(pair, moved.axis)}") for pair in moved.pairs]
    for name, other, count in ((first, second, c.only[0]), (second, first, c.only[1])):
        if count:
            out.append(Line(f"{name} has {counted(count, 'answer')} that {other} has not.", tone="warn"))
    notes = dict.fromkeys(note for moved in c.scores for note in moved.notes)
    out += [Line(note, tone="warn") for note in notes]
    if changed:
        rows = [_row(c, one, other) for one, other in changed]
        parts = [rows[start : start + PAGE] for start in range(0, len(rows), PAGE)][:_PAGES]
        pages = tuple(
            (f"{n * PAGE + 1:,} to {n * PAGE + len(part):,}", Table(_headers(c), tuple(part)))
            for n, part in enumerate(parts)
        )
        rest = f"{len(rows):,} in all; .changed has every one." * (len(rows) > PAGE)
        out.append(Pages(pages, rest))
    if c.settings:
        out.append(settings_table(c.settings, c.names))
    return out


def _headers(c: Changes) -> tuple[str, ...]:
    index = [] if c.labels is None else [c.labels[0]]
    scores = (p.score for p in c.scores)
    return ("row", *index, *c.columns[:_COLUMNS], *c.axes, *c.names, *scores)


def _row(c: Changes, one: Any, other: Any) -> tuple[Any, ...]:
    label = [] if c.labels is None else [cell(c.labels[1][other.row])]
    return (
        other.row,
        *label,
        *(cell(other.inputs.get(name)) for name in c.columns[:_COLUMNS]),
        *(cell(other.settings[axis]) for axis in c.axes),
        _answer(one),
        _answer(other),
        *(_score(one.scores.get(p.score), other.scores.get(p.score)) for p in c.scores),
    )


def _answer(result: Any) -> Any:
    if result.error is not None:
        return brief(f"error: {error_words(result.error)}")
    return cell(result.answer())


def _score(one: Any, other: Any) -> str:
    """Say how a score moved."""
    words = [_said(value) for value in (one, other)]
    return words[1] if words[0] == words[1] else f"{words[0]} → {words[1]}"


def _said(score: Any) -> str:
    if score is None or isinstance(score, Exception):
        return "–" if score is None else "failed"
    return ("yes" if score else "no") if isinstance(score, bool) else f"{score:.3g}"
