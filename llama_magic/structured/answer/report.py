"""How hard the model was held: per field, the mass that it wanted elsewhere, and its confidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from llama_magic.structured.answer.strictjson import skip, string_at
from llama_magic.structured.schema.tree import pointer


@dataclass(frozen=True)
class FieldReport:
    """One value of an answer.

    `start` and `end` are its characters in the text, `tokens` those that overlap it.
    `pressure` (0 to 1) is the mean probability mass that the model wanted outside the grammar
    over these tokens, `peak` the largest. `confidence` (0 to 1) is the product of the tokens'
    probabilities before any mask.
    """

    pointer: str
    start: int
    end: int
    tokens: int
    pressure: float
    peak: float
    confidence: float


def field_report(
    text: str,
    offsets: Sequence[tuple[int, int]],
    outside: Sequence[float],
    logprobs: Sequence[float],
) -> dict[str, FieldReport]:
    """Return a report for each leaf of a JSON answer, whole or cut, by JSON pointer, in order.

    `offsets` are the (start, end) characters of each token in `text`, `outside` the mass outside
    the grammar at its step, `logprobs` its natural-log probability; all of one length. Forced
    tokens that were never scored have NaN and count for nothing. A text that is no JSON has one
    field, "".
    """
    if not len(offsets) == len(outside) == len(logprobs):
        raise ValueError(
            f"{len(offsets)} offsets, {len(outside)} masses and {len(logprobs)} logprobs; "
            "expected one of each for every token"
        )
    report: dict[str, FieldReport] = {}
    for where, start, end in leaves(text):
        hits = [i for i, (low, high) in enumerate(offsets) if low < end and high > start]
        masses = [outside[i] for i in hits if not math.isnan(outside[i])]
        probabilities = [logprobs[i] for i in hits if not math.isnan(logprobs[i])]
        report[where] = FieldReport(
            where,
            start,
            end,
            len(hits),
            pressure=math.fsum(masses) / len(masses) if masses else 0.0,
            peak=max(masses, default=0.0),
            confidence=math.exp(math.fsum(probabilities)),
        )
    return report


def leaves(text: str) -> list[tuple[str, int, int]]:
    """Return (JSON pointer, start, end) of each text, number, literal and empty container."""
    found: list[tuple[str, int, int]] = []
    _walk(text, 0, (), found)
    return found or ([("", 0, len(text))] if text else [])


def _walk(text: str, at: int, path: tuple[str, ...], found: list[tuple[str, int, int]]) -> int:
    """Note the leaves of the value at this place; return the index after it, -1 if it is cut."""
    at = skip(text, at)
    mark = text[at : at + 1]
    if mark == '"':
        _, end, complete = string_at(text, at)
        found.append((pointer(path), at, end))
        return end if complete else -1
    if mark and mark in "{[":
        return _container(text, at, path, found, "}" if mark == "{" else "]")
    end = at
    while end < len(text) and text[end] not in ",]} \t\r\n":
        end += 1
    if end > at:
        found.append((pointer(path), at, end))
    return end if 0 < end < len(text) or not path else -1


def _container(
    text: str, at: int, path: tuple[str, ...], found: list[tuple[str, int, int]], close: str
) -> int:
    start, index = at, 0
    at = skip(text, at + 1)
    if text[at : at + 1] == close:
        found.append((pointer(path), start, at + 1))
        return at + 1
    while True:
        key = str(index)
        if close == "}":
            at = skip(text, at)
            if text[at : at + 1] != '"':
                return -1
            key, at, complete = string_at(text, at)
            at = skip(text, at)
            if not complete or text[at : at + 1] != ":":
                return -1
            at += 1
        at = _walk(text, at, (*path, key), found)
        if at < 0:
            return -1
        at = skip(text, at)
        if text[at : at + 1] == close:
            return at + 1
        if text[at : at + 1] != ",":
            return -1
        at += 1
        index += 1
