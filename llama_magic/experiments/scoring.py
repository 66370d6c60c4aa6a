"""Scores of results: a function, a column to equal, or several of these by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.experiments.answers import same
from llama_magic.model.gaps import is_gap
from llama_magic.words.given import quoted
from llama_magic.words.names import meant

Score = Callable[[Any], Any]
Scores = dict[str, Score]
RIGHT = "right"  # what equality with a column is called


class _Unlabelled(Exception):  # noqa: N818 - a row that is left out is no error
    """The column holds nothing for this row, so no answer is right or wrong."""


def read_scores(given: Any) -> Scores:
    """Return the scores by name: a function by its own, a column as "right"."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(name): _score(one) for name, one in given.items()}
    if isinstance(given, str):
        return {RIGHT: _score(given)}
    name = getattr(given, "__name__", "score")
    return {"score" if name == "<lambda>" else name: _score(given)}


def _score(given: Any) -> Score:
    if isinstance(given, str):
        return Equals(given)
    if callable(given):
        return given
    raise InputTypeError(
        f"A score is a {type(given).__name__}; expected a function of a run, the name of a column that the "
        "answer is to equal, or a dict of names to such."
    )


def check_columns(given: Any, rows: Iterable[Mapping[str, Any]]) -> None:
    """Raise where scores name a column to equal that no row has."""
    known = [row.keys() for row in rows]
    columns = set[str]().union(*known)
    for column in given.values() if isinstance(given, Mapping) else [given]:
        if isinstance(column, str) and known and column not in columns:
            raise OptionError(f"No row has a column {column!r} to equal. {meant(column, columns)}")


@dataclass(frozen=True)
class Equals:
    """The score that a column gives: whether the answer is what it holds."""

    column: str

    def __call__(self, run: Any) -> bool:
        column = self.column
        if column not in run.inputs:
            raise KeyError(f"this row has no column {column!r}")
        answer, wanted = run.answer(column), run.inputs[column]
        if is_gap(wanted):
            raise _Unlabelled
        if isinstance(answer, dict) and not isinstance(wanted, (dict, str)):
            raise KeyError(
                f"the answer has fields {', '.join(answer)}, and none is {column!r}: name the column as its "
                "field, or give a function of run.parsed"
            )
        return same(answer, wanted)


def scores_of(result: Any, scores: Scores) -> dict[str, Any]:
    """Return the scores of a result; one that fails is its exception, and costs neither row nor answer.

    A result with an error has none: it is counted as an error. Nor has one by a column that holds nothing for
    its row (None, NaN): `confusion` and `calibration` leave these out, too.
    """
    found: dict[str, Any] = {}
    for name, score in scores.items() if result.error is None else ():
        try:
            value = score(result)
        except _Unlabelled:
            continue
        except Exception as error:  # of the user's own function
            found[name] = error
            continue
        if hasattr(value, "item") and getattr(value, "size", 1) == 1:  # of NumPy or pandas
            value = value.item()
        if not isinstance(value, (bool, int, float)):
            found[name] = InputTypeError(
                f"The score {name!r} gave a {type(value).__name__}; expected a bool or a number."
            )
            continue
        if not _is_double(value):  # it would be the mean of all others, too
            found[name] = InputTypeError(
                f"The score {name!r} gave {quoted(value)}; expected a bool or a number."
            )
            continue
        found[name] = value
    return found


def _is_double(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no double reaches
        return False
