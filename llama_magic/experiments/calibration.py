"""Calibration: does what is said to be 80 % sure come out right in 80 of 100 cases?

Expected calibration error as in Guo et al. 2017 (arXiv:1706.04599): over bins of confidence of equal width,
the mean distance of confidence and accuracy, weighted by how many rows a bin has.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from llama_magic.errors import OptionError
from llama_magic.experiments.answers import same
from llama_magic.experiments.axes import counted_together, the_column
from llama_magic.experiments.statistics import Interval, estimate
from llama_magic.model.gaps import is_gap
from llama_magic.words.counting import counted
from llama_magic.words.given import at_least, quoted
from llama_magic.words.shown import Printed

_THRESHOLDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_ENDS = {"right": "mean", "right low": "low", "right high": "high"}


@dataclass(frozen=True)
class CalibrationBin:
    """Rows whose confidence is above `low`, up to `high`: how many, and the means of both; NaN for none."""

    low: float
    high: float
    rows: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Calibration(Printed):
    """How sure decisions were, and how often they were right.

    `ece` is the expected calibration error, `brier` the mean squared distance of confidence and being
    right (0 or 1), `accuracy` and `confidence` are means; `left_out` rows have no label or an error. The
    label of `no_option` rows is none of their options: these count as wrong.
    """

    bins: tuple[CalibrationBin, ...]
    rows: int
    left_out: int
    accuracy: float
    confidence: float
    ece: float
    brier: float
    column: str = ""
    no_option: int = 0
    notes: tuple[str, ...] = ()

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`, a row a bin. Raises: ImportError where pandas is not installed."""
        import pandas

        return pandas.DataFrame([vars(one) for one in self.bins])


@dataclass(frozen=True)
class Threshold:
    """What comes of `abstain_below`: how many are decided, and of these the share that is right."""

    below: float
    decided: int
    right: Interval | None  # over rows; None where none is decided


@dataclass(frozen=True)
class Thresholds(Printed):
    """Thresholds from 0 (all are decided) up, over `rows` decisions whose row has a label."""

    each: tuple[Threshold, ...]
    rows: int
    left_out: int
    column: str = ""
    notes: tuple[str, ...] = ()

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`, a row a threshold. Raises: ImportError where pandas is not there."""
        import pandas

        return pandas.DataFrame(
            {
                "abstain_below": one.below,
                "decided": one.decided,
                "share": one.decided / self.rows,
                **{end: getattr(one.right, field, math.nan) for end, field in _ENDS.items()},
            }
            for one in self.each
        )


def weigh(decisions: Sequence[Any], column: str | None) -> Thresholds:
    """Say what comes of thresholds by what a column says is right; see `Odds.thresholds`."""
    column = the_column(column, decisions)
    pairs = _pairs(decisions, column)
    made = []
    for below in _THRESHOLDS:
        right: dict[Hashable, list[float | bool]] = {}
        for p, found, row in pairs:
            if p >= below:
                right.setdefault(row, []).append(found)
        made.append(Threshold(below, sum(map(len, right.values())), estimate(right)))
    notes = (*counted_together(decisions), *foreign_words(decisions, column))
    return Thresholds(tuple(made), len(pairs), len(decisions) - len(pairs), column, notes)


def _pairs(decisions: Sequence[Any], column: str) -> list[tuple[float, bool, int]]:
    """Return how sure each decision was, whether rightly, and its row, where that says what is right."""
    labelled = _labelled(decisions, column)
    if not labelled:
        raise OptionError(f"No row has both a decision and a value in {column!r}.")
    if len(_foreign(decisions, column)) == len(labelled):
        held, options = labelled[0][1], ", ".join(map(repr, labelled[0][0].logprobs))
        raise OptionError(
            f"No row has one of its options in {column!r}: the first holds {quoted(held)}, its options are "
            f"{options}.",
            remedy="Name the options as the column does: options={'Yes': 'yes', …}, or name another column.",
        )
    return [(one.confidence, same(one.best, wanted), one.row) for one, wanted in labelled]


def _labelled(decisions: Iterable[Any], column: str) -> list[tuple[Any, Any]]:
    """Return decisions and what is right, where that is known."""
    pairs = ((one, one.inputs.get(column)) for one in decisions if one.error is None)
    return [(one, wanted) for one, wanted in pairs if not is_gap(wanted)]


def _foreign(decisions: Iterable[Any], column: str) -> list[Any]:
    """Return the labels that are none of their row's options: whatever is decided there is wrong."""
    return [
        wanted
        for one, wanted in _labelled(decisions, column)
        if not any(same(option, wanted) for option in one.logprobs)
    ]


def foreign_words(decisions: Sequence[Any], column: str) -> tuple[str, ...]:
    """Say how many labels are none of their row's options, and what they are; nothing where none is."""
    found = _foreign(decisions, column)
    if not found:
        return ()
    kinds = list(dict.fromkeys(map(quoted, found)))
    shown = ", ".join(kinds[:3]) + (", …" if len(kinds) > 3 else "")
    many = counted(len(_labelled(decisions, column)), "label")
    verb = "is none of its row's options and counts" if len(found) == 1 else "are no option and count"
    return (
        f"{len(found):,} of {many} in {column!r} {verb} as wrong: {shown}. Are they written as the options?",
    )


def calibrate(decisions: Sequence[Any], column: str | None, bins: int) -> Calibration:
    """Compare confidence with what a column says is right; see `Odds.calibration`."""
    bins, column = at_least(1, "bins", bins), the_column(column, decisions)
    pairs = [(p, right) for p, right, _ in _pairs(decisions, column)]
    edges = [float(edge) for edge in np.linspace(0, 1, bins + 1)]
    sorted_into: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for pair in pairs:  # what lies on an edge belongs to the bin below it
        sorted_into[bisect.bisect_left(edges[1:-1], pair[0])].append(pair)
    made = tuple(
        CalibrationBin(low, high, len(part), _mean(p for p, _ in part), _mean(right for _, right in part))
        for low, high, part in zip(edges[:-1], edges[1:], sorted_into, strict=True)
    )
    ece = sum(one.rows * abs(one.confidence - one.accuracy) for one in made if one.rows) / len(pairs)
    return Calibration(
        made,
        len(pairs),
        len(decisions) - len(pairs),
        _mean(right for _, right in pairs),
        _mean(p for p, _ in pairs),
        ece,
        _mean((p - right) ** 2 for p, right in pairs),
        column,
        len(_foreign(decisions, column)),
        (*counted_together(decisions), *foreign_words(decisions, column)),
    )


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else math.nan
