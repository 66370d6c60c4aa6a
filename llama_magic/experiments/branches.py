"""Answers with one beginning as a tree: where they part, and how likely each way was."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.experiments.difference import first_difference
from llama_magic.model.results import Completion
from llama_magic.request.events import CUT
from llama_magic.words.given import items_of, quoted
from llama_magic.words.harmless import one_line
from llama_magic.words.shown import Printed
from llama_magic.words.signature import checked
from llama_magic.words.tables import data_frame

_WIDE = 64  # characters of a stretch; of a longer one the beginning and the end are shown
_LINE = 64  # characters that stand beside each other in a window of 1,000 pixels
_LEAST = 0.005  # what is said in whole per cents
_WORD = re.compile(r"\s*\S+|\s+")


@dataclass(frozen=True)
class Tree(Printed):
    """Answers, each before the branches of it, and their picture in characters: a tree for each prompt.

    What they share stands before what they do not: each way on with its probability, and how it ends.
    """

    answers: tuple[Completion[Any], ...]
    drawing: str

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`, a row an answer: what it branches from, where, and how it goes on.

        `branch_of` is the row of that answer, `step` the first token that differs from it (from 0). Raises:
        ImportError where pandas is not installed.
        """
        rows = {id(one): row for row, one in enumerate(self.answers)}
        parents = {id(branch): one for one in self.answers for branch in one.branches}
        records: list[dict[str, Any]] = []
        for one in self.answers:
            parent = parents.get(id(one))
            records.append(
                {
                    "branch_of": None if parent is None else rows[id(parent)],
                    "step": None if parent is None else first_difference(parent.token_ids, one.token_ids),
                    "prompt": _asked(one) if parent is None else records[rows[id(parent)]]["prompt"],
                    "text": one.text,
                    "seed": one.seed,
                    "finish_reason": one.finish_reason,
                    "completion_tokens": one.usage.completion_tokens,
                }
            )
        return data_frame(records)


@checked
def tree(answers: Completion[Any] | Iterable[Completion[Any]]) -> Tree:
    """Draw an answer and all its branches, or several answers: a tree for each prompt.

    Answers that were written in this process part at tokens, others at words; a probability stands where
    it is still known. Raises `OptionError` where there is no answer, `InputTypeError` for what is none.
    """
    answers = getattr(answers, "completion", None) or answers  # of a row, or an entry of the history
    if not isinstance(answers, (Completion, Iterable)):
        raise InputTypeError(f"A tree is of answers; got {quoted(answers)}.")
    given: list[Any] = [answers] if isinstance(answers, Completion) else items_of("The answers", answers)
    given = [getattr(one, "completion", None) or one for one in given]
    for one in given:
        if not isinstance(one, Completion):
            raise InputTypeError(f"A tree is of answers; got {quoted(one)}.")
    if not given:
        raise OptionError("There is no answer to draw.", remedy="Pass an answer, or a list of some.")
    parts = [
        list({id(one): one for answer in group for one in _with_branches(answer)}.values())
        for group in _by_prompt(given)
    ]
    drawing = "\n\n".join("\n".join(_picture(part)) for part in parts)
    return Tree(tuple(one for part in parts for one in part), drawing)


def _asked(one: Completion[Any]) -> str:
    return one.question if one.messages else one.prompt


def _by_prompt(given: Sequence[Completion[Any]]) -> list[list[Completion[Any]]]:
    """Return answers by what was asked; the prompt of a branch begins with that of its answer."""
    roots: list[str] = []
    for prompt in sorted({one.prompt for one in given}, key=len):
        if not any(prompt.startswith(root) for root in roots):
            roots.append(prompt)
    groups: dict[str, list[Completion[Any]]] = {}
    for one in given:
        groups.setdefault(next(root for root in roots if one.prompt.startswith(root)), []).append(one)
    return list(groups.values())


def _picture(answers: Sequence[Completion[Any]]) -> Iterator[str]:
    """Draw answers to one prompt, behind what was asked."""
    by_token = all(one.pieces() is not None for one in answers)
    paths = [_Path.of(one, by_token=by_token) for one in answers]
    first = answers[0]
    yield _shown(first.question if first.messages else f"… {first.prompt[-_WIDE:]}")
    yield from filter(None, _drawn(paths, 0, "", ""))


def _with_branches(answer: Completion[Any]) -> Iterator[Completion[Any]]:
    yield answer
    for branch in answer.branches:
        yield from _with_branches(branch)


@dataclass(frozen=True)
class _Path:
    """An answer as steps: what each is told apart by, and its text."""

    answer: Completion[Any]
    keys: Sequence[Any]
    texts: Sequence[str]

    @classmethod
    def of(cls, answer: Completion[Any], *, by_token: bool) -> _Path:
        pieces = answer.pieces() if by_token else None
        if pieces is not None:
            return cls(answer, answer.token_ids, pieces)
        words = _WORD.findall(answer.text)
        return cls(answer, words, words)

    @property
    def end(self) -> str:
        """How it ends, in words."""
        written = f"{self.answer.usage.completion_tokens:,} written"  # what it was begun with does not count
        how = (f"seed {self.answer.seed}", written, CUT.get(self.answer.finish_reason))
        return " · ".join(filter(None, how))


def _drawn(paths: list[_Path], start: int, lead: str, below: str) -> Iterator[str]:
    """Draw what paths share from a step on, and then each way on; `lead` stands before, `below` under it."""
    first = paths[0]
    end = start
    while all(end < len(p.keys) for p in paths) and len({p.keys[end] for p in paths}) == 1:
        end += 1
    text = _shown("".join(first.texts[start:end]))
    ways: dict[Any, list[_Path]] = {}
    for path in paths:
        ways.setdefault(path.keys[end] if end < len(path.keys) else None, []).append(path)
    if len(ways) == 1:  # all of them are the same to the end
        for path in paths:
            yield from _told(lead, text, f"{below}   ", path.end)
        return
    yield from _told(lead, text, f"{below}│  ")
    for number, (key, group) in enumerate(ways.items()):
        last = number == len(ways) - 1
        mark = f"{below}{'└─' if last else '├─'} "
        under = f"{below}{'   ' if last else '│  '}"
        if key is None:
            yield from (f"{mark}(the end)   {path.end}" for path in group)
            continue
        share = next((s for p in paths if (s := p.answer.share(end, key)) is not None), None)
        token = _shown(group[0].texts[end].strip(" ")) or "·"
        yield from _drawn(group, end + 1, f"{mark}{token}{_percent(share)} ", under)


def _told(lead: str, text: str, below: str, end: str = "") -> Iterator[str]:
    """Yield a stretch and how it `end`s, on lines for a narrow window; `below` stands before all but one."""
    lines = [f"{lead}{text}"]
    if len(lines[0]) > _LINE:
        wrapped = textwrap.TextWrapper(_LINE, initial_indent=lead, subsequent_indent=below)
        lines = wrapped.wrap(text)
    if end and len(lines[-1]) + 3 + len(end) > _LINE and len(lines[-1]) > len(below):
        lines.append(f"{below}{end}")
    elif end:
        lines[-1] = f"{lines[-1]}   {end}"
    yield from lines


def _percent(share: float | None) -> str:
    if share is None:
        return ""
    return f" {share:.0%} " if share >= _LEAST else " <1% "


def _shown(text: str) -> str:
    """Return a stretch on one line, its middle left out where it is long."""
    line = one_line(text)
    return line if len(line) <= _WIDE else f"{line[: _WIDE // 2]} … {line[-_WIDE // 2 :]}"
