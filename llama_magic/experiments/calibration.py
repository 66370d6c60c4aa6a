"""Calibration: does what is said to be 80 % sure come out right in 80 of 100 cases?

Expected calibration error as in Guo et al. 2017 (arXiv:1706.04599): over bins of confidence of equal width,
the mean distance of confidence and accuracy, weighted by how many rows a bin has.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from llama_magic.errors import OptionError
from llama_magic.experiments.answers import same
from llama_magic.model.evaluate import is_gap
from llama_magic.words.given import at_least
from llama_magic.words.names import meant
from llama_magic.words.shown import Printed


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
    right (0 or 1), `accuracy` and `confidence` are means; `left_out` rows have no label or an error.
    """

    bins: tuple[CalibrationBin, ...]
    rows: int
    left_out: int
    accuracy: float
    confidence: float
    ece: float
    brier: float
    column: str = ""

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`, a row a bin. Raises: ImportError where pandas is not installed."""
        import pandas

        return pandas.DataFrame([vars(one) for one in self.bins])


def calibrate(decisions: Sequence[Any], column: str, bins: int) -> Calibration:
    """Compare confidence with what a column says is right; see `Odds.calibration`."""
    bins = at_least(1, "bins", bins)
    columns = {name for one in decisions for name in one.inputs}
    if column not in columns:
        raise OptionError(f"No row has a column {column!r}. {meant(column, columns)}")
    pairs = [
        (one.confidence, same(one.best, wanted))
        for one in decisions
        if one.error is None and not is_gap(wanted := one.inputs.get(column))
    ]
    if not pairs:
        raise OptionError(f"No row has both a decision and a value in {column!r}.")
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
    )


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else math.nan
