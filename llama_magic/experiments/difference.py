"""Two answers side by side: the first token that differs, what was likely there, what was asked otherwise."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.experiments.changes import Changes, changes
from llama_magic.experiments.results import Results
from llama_magic.model.again import receipt_of
from llama_magic.model.branching import Alternative
from llama_magic.model.results import Completion
from llama_magic.model.shapes import Receipt
from llama_magic.words.given import quoted
from llama_magic.words.shown import Printed
from llama_magic.words.signature import checked

Step = tuple[Any, str]
_WORD = re.compile(r"\s*\S+|\s+")
_K = 5  # alternatives at the place
# What a receipt says of what came out; all else says what was asked, and of what.
_CAME_OUT = {
    "version", "request", "finish_reason", "stop", "usage", "text", "thinking", "token_ids", "messages",
    "notes", "budget", "thinking_choice", "sample", "earlier", "prompt_sha256", "begun",
}  # fmt: skip


@dataclass(frozen=True)
class Side:
    """One of two answers at the place where they part: the text of its token there, and what follows.

    `there` is "" where the answer has ended. `likely` are the likeliest tokens there, none where that is not
    known any more.
    """

    name: str
    tokens: int
    there: str
    rest: str
    likely: tuple[Alternative, ...] = ()


@dataclass(frozen=True)
class Difference(Printed):
    """Where two answers part. `step` is the first token that differs (from 0), None where they are equal.

    Answers without a vocabulary at hand are compared word by word.

    `shared` is the text before it. `settings` is what differs of what was asked, of file and of engine:
    (name, of the one, of the other).
    """

    step: int | None
    shared: str
    sides: tuple[Side, Side]
    settings: tuple[tuple[str, Any, Any], ...] = ()

    @property
    def equal(self) -> bool:
        """Whether both have the same tokens."""
        return self.step is None


@overload
def diff(
    one: Results[Any], other: Results[Any], *, names: tuple[str, str] = ("A", "B"), on: Any = None
) -> Changes: ...
@overload
def diff(one: Any, other: Any, *, names: tuple[str, str] = ("A", "B"), on: None = None) -> Difference: ...
@checked
def diff(one: Any, other: Any, *, names: tuple[str, str] = ("A", "B"), on: Any = None) -> Any:
    """Compare two answers token by token: completions, receipts, or entries of the history.

    What was likely at the place is known of answers of this process, and of those that were asked with
    `logprobs`.

    Or compare two runs of `map`, `sweep` or `decide` row by row, a `Changes`: which answers are others now,
    and how the scores moved. A row is the same where all columns are that both runs have, wherever it stands;
    `on` names the columns to go by instead (`on="id"`).

    Raises `InputTypeError` for what is neither.
    """
    runs = [isinstance(side, Results) for side in (one, other)]
    if all(runs):
        return _of_runs(one, other, names, on)
    if any(runs):
        odd = other if runs[0] else one
        raise InputTypeError(
            f"One is {type(one if runs[0] else other).__name__} of many rows, the other is {quoted(odd)}.",
            remedy="Give two answers, or the results of two calls. Those of a record come back by the same "
            "call with record=, and nothing is asked again.",
        )
    if on is not None:
        raise OptionError("on= says by which columns rows are the same; these are answers.")
    return _of_answers(one, other, names)


def _of_runs(one: Results[Any], other: Results[Any], names: tuple[str, str], on: Any) -> Changes:
    made = changes(one, other, names, on)
    answered = [pair for pair in made.both if all(getattr(r, "completion", None) for r in pair)]
    if not answered:
        return made
    # A row that moved has another seed, as every place has.
    sides = next((pair for pair in answered if pair[0].row == pair[1].row), answered[0])
    differing = _settings(*(receipt_of(side.completion)[0] for side in sides))
    return replace(made, settings=tuple(differing))


def _of_answers(one: Any, other: Any, names: tuple[str, str]) -> Difference:
    made = [getattr(answer, "completion", answer) for answer in (one, other)]
    receipts = [receipt_of(answer)[0] for answer in made]
    keys, texts = zip(*_steps(made, receipts), strict=True)
    step = first_difference(*keys)
    place = len(keys[0]) if step is None else step
    sides = [
        Side(
            name,
            len(receipt["token_ids"]),
            "".join(text[place : place + 1]),
            "".join(text[place + 1 :]),
            _likely(answer, place, keys=key),
        )
        for name, receipt, key, text, answer in zip(names, receipts, keys, texts, made, strict=True)
    ]
    return Difference(step, "".join(texts[0][:place]), (sides[0], sides[1]), tuple(_settings(*receipts)))


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Return the place of the first token that differs, or that only one has; None where they are equal."""
    pairs = itertools.zip_longest(one, other)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), None)


def _steps(made: Sequence[Any], receipts: Sequence[Receipt]) -> list[tuple[Sequence[Any], Sequence[str]]]:
    """Return what the steps of each answer are told apart by, and their texts.

    Token ids, where both answers have them of one vocabulary; else the texts of tokens, or words.
    """
    sources = [a for a in made if isinstance(a, Completion) and a.pieces() is not None]
    if sources and receipts[0].get("file") == receipts[1].get("file") and "file" in receipts[0]:
        ids = [receipt["token_ids"] for receipt in receipts]
        return [(tokens, sources[0].pieces(tokens) or ()) for tokens in ids]
    cut = [
        (a.pieces() if len(sources) == len(made) else None) or _WORD.findall(receipt["text"])
        for a, receipt in zip(made, receipts, strict=True)
    ]
    return [(texts, texts) for texts in cut]


def steps_of(receipt: Receipt, again: Completion[Any]) -> tuple[list[Step], list[Step]]:
    """Return the steps of an answer and of one that was written again: what they are told apart by, and text.

    Tokens, where those of the receipt are of this vocabulary; else words. They are if they make its text, and
    if the file is the same: then texts alone that are equal say nothing of tokens that are not.
    """
    try:
        pieces = again.pieces(receipt["token_ids"])
    except OptionError:  # this vocabulary is smaller
        pieces = None
    alike = receipt["text"] == again.text and _file(receipt) == _file(again.made_with) != ""
    if pieces is not None and (alike or receipt["text"] in "".join(pieces)):
        now = again.pieces() or ()
        return list(zip(receipt["token_ids"], pieces, strict=True)), list(
            zip(again.token_ids, now, strict=True)
        )
    then, words = _WORD.findall(receipt["text"]), _WORD.findall(again.text)
    return list(zip(then, then, strict=True)), list(zip(words, words, strict=True))


def _file(made_with: Mapping[str, Any]) -> str:
    return str(made_with.get("file", {}).get("fingerprint", ""))


def _likely(answer: Any, place: int, keys: Sequence[Any]) -> tuple[Alternative, ...]:
    if not isinstance(answer, Completion) or not place < len(answer.token_ids) == len(keys):
        return ()
    try:
        return answer.alternatives(place, k=_K)
    except OptionError:
        return ()


def _settings(one: Receipt, other: Receipt) -> Iterator[tuple[str, Any, Any]]:
    """Yield what differs of two receipts, apart from what came out."""
    sides = [dict(_flat("", {k: v for k, v in side.items() if k not in _CAME_OUT})) for side in (one, other)]
    limits = [side["budget"]["max_tokens"] for side in (one, other)]
    sides[0]["max_tokens"], sides[1]["max_tokens"] = limits
    for name in dict.fromkeys((*sides[0], *sides[1])):
        if sides[0].get(name) != sides[1].get(name):
            yield name, sides[0].get(name), sides[1].get(name)


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(f"{name} {key}".strip(), item)
    else:
        yield name, value
