"""Statistics of experiments: intervals, paired tests, agreement. Each says what it assumes.

No library beneath them: a share's interval is Wilson's (1927, doi:10.2307/2276774), a mean's a bootstrap
over rows (Efron 1979), a paired difference is tested by its signs, which for right and wrong is McNemar's
exact test (1947), several of them by Holm's method (1979), agreement is Cohen's kappa (1960).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

LEVEL = 0.95
_RESAMPLES = 5_000
_AT_ONCE = 1_000_000  # draws of it that are held at a time
_SEED = 20_260_101  # of the bootstrap: the same scores have the same interval


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval (`low` to `high`) over `rows` rows; `kind` "share" is of yes or no.

    The interval speaks of rows like these: several answers to one row count as one, by their mean.
    """

    kind: Literal["share", "mean"]
    mean: float
    low: float
    high: float
    rows: int
    answers: int


def wilson(successes: float, total: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the Wilson interval of a share, within 0 to 1; (0, 1) of nothing."""
    if total == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + level) / 2)
    share = successes / total
    spread = 1 + z * z / total
    middle = (share + z * z / (2 * total)) / spread
    half = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / spread
    return max(0.0, middle - half), min(1.0, middle + half)


def bootstrap(values: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """Return the percentile interval of the mean of independent values; NaN of fewer than two."""
    if len(values) < 2:
        return math.nan, math.nan
    import numpy as np  # for weight

    data = np.asarray(values, np.float64)
    chance, together = np.random.default_rng(_SEED), max(1, _AT_ONCE // len(data))
    means = np.empty(_RESAMPLES)
    for start in range(0, _RESAMPLES, together):
        some = means[start : start + together]
        some[:] = data[chance.integers(0, len(data), (len(some), len(data)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def estimate(scores: dict[Hashable, list[float | bool]]) -> Interval | None:
    """Return the mean of scores, which are given by row; None where there are none."""
    values = [value for row in scores.values() for value in row]
    if not values:
        return None
    by_row = [math.fsum(row) / len(row) for row in scores.values() if row]
    mean = math.fsum(by_row) / len(by_row)
    share = all(isinstance(value, bool) for value in values)
    low, high = wilson(math.fsum(by_row), len(by_row)) if share else bootstrap(by_row)
    return Interval("share" if share else "mean", mean, low, high, len(by_row), len(values))


def sign_test(better: int, worse: int) -> float:
    """Return the two-sided p of so many differences up and down, were both as likely."""
    total, fewer = better + worse, min(better, worse)
    if total == 0:
        return 1.0
    tail = sum(math.comb(total, k) for k in range(fewer + 1))
    return min(1.0, float(2 * tail / 2**total))


def holm(ps: Sequence[float]) -> list[float]:
    """Return p values corrected for being several: a step-down, none below the one before it."""
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    made, least = [0.0] * len(ps), 0.0
    for place, i in enumerate(order):
        least = max(least, min(1.0, (len(ps) - place) * ps[i]))
        made[i] = least
    return made


def kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float:
    """Return Cohen's kappa of two raters' labels: agreement beyond what their habits give by chance.

    1 is full agreement, 0 that of chance. NaN where there is nothing to tell: no pair, or one label alone.
    """
    total = len(pairs)
    if not total:
        return math.nan
    agreed = sum(a == b for a, b in pairs) / total
    ones, others = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    chance = sum(ones[label] * others[label] for label in ones) / total**2
    return math.nan if chance == 1 else (agreed - chance) / (1 - chance)
