"""The grid of a sweep: a setting a line, its answer to one row, what differs marked, and its scores."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

from llama_magic.display.static.doc import Grid, Line, Node
from llama_magic.display.views.experiments.comparing import score_cells, sentence
from llama_magic.experiments.results import Results
from llama_magic.words.plain import alike, plain
from llama_magic.words.tables import Marked, Table, brief

_LINES = 50  # settings of a grid
_WORDS = 400  # of an answer that are compared
_LONG = 300  # characters of an answer in the grid


def grid(r: Results[Any]) -> list[Node]:
    """Show the settings beside each other: their answers to one row, and how they scored on all of them."""
    summary = r.summary()
    row = _telling_row(r)
    samples = 1 + max(result.sample for result in r)
    rows = len({result.row for result in r})
    several = samples > 1 and rows == 1
    lines: list[tuple[Any, ...]] = []
    first: str | None = None
    for group in summary.groups[:_LINES]:
        answers = [one for one in r if one.row == row and _of(group, one)]
        values = [plain(value) for value in group.settings.values()]
        for one in answers if several else answers[:1]:
            text = answer_text(one)
            if one.error is None:
                first = text if first is None else first
            told = marked(text, first) if first is not None and one.error is None else text
            sample = (one.sample,) if several else ()
            lines.append((*values, *sample, told, *score_cells(group, summary.scores)))
    heads = [head for name in summary.scores for head in (name, "95% interval")]
    shown = "answer" if rows == 1 else f"answer to row {row:,}"
    headers = (*summary.by, *(["sample"] if several else []), shown, *heads)
    out: list[Node] = [Grid(Table(headers, tuple(lines)))]
    if len(summary.groups) > _LINES:
        out.append(Line(f"The first {_LINES} of {len(summary.groups):,} settings.", dim=True))
    key = ["marked is what differs from the first line"] * any(
        _differs(told) for line in lines for told in line
    )
    key += ["rows count from 0"] * (rows > 1)
    if key:
        said = "; ".join(key)
        out.append(Line(f"{said[0].upper()}{said[1:]}.", dim=True))
    out += [Line(words) for words in _compared(r, summary.scores)]
    return [*out, *(Line(note, tone="warn") for note in summary.notes)]


def _of(group: Any, one: Any) -> bool:
    return all(alike(one.settings.get(name), value) for name, value in group.settings.items())


def _differs(value: Any) -> bool:
    """Return whether part of a cell is marked."""
    return isinstance(value, Marked) and any(marked for _, marked in value.pieces)


def answer_text(result: Any) -> str:
    """Return an answer as it stands in a grid."""
    if result.error is not None:
        return brief(f"error: {getattr(result.error, 'message', None) or result.error}")
    if getattr(result, "abstained", False):
        return "abstained"
    text = str(getattr(result, "text", None) or result.answer() or "").strip()
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"


def _telling_row(r: Results[Any]) -> int:
    """Return the row whose answers differ most, the first of such; errors are no answers."""
    answers: dict[int, set[str]] = {}
    for result in r:
        answers.setdefault(result.row, set()).update(
            () if result.error is not None else (answer_text(result),)
        )
    return max(answers, key=lambda row: len(answers[row]))


def _compared(r: Results[Any], scores: Sequence[str]) -> list[str]:
    """Say how the two values of an axis compare, where there is one score and such an axis."""
    if len(scores) != 1 or len({result.row for result in r}) < 2:
        return []
    axes = [axis for axis, values in r.axes.items() if len(values) == 2]
    return [sentence(r.pairs(axis)[0], axis) for axis in axes]


def marked(text: str, base: str) -> Marked:
    """Mark the words of a text that another does not have there."""
    words, others = _words(text), _words(base)
    matcher = difflib.SequenceMatcher(
        None, [w.strip() for w in others], [w.strip() for w in words], autojunk=False
    )
    pieces: list[tuple[str, bool]] = []
    for kind, _, _, start, end in matcher.get_opcodes():
        part = "".join(words[start:end])
        core = part.rstrip()
        if kind == "equal" or not core:
            pieces.append((part, False))
        else:
            pieces += [(core, True), (part[len(core) :], False)]
    return Marked(tuple(piece for piece in pieces if piece[0]) or ((text, False),))


def _words(text: str) -> list[str]:
    words = re.findall(r"\s*\S+\s*", text)
    return [*words[:_WORDS], "".join(words[_WORDS:])] if len(words) > _WORDS else words
