"""What is read off a row of logits: its peak, its normaliser, its likeliest tokens."""

from __future__ import annotations

import math
import threading
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from llama_magic.errors import BackendError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_kept = threading.local()
_CLOSE, _MANY = 7.0, 256  # nats from the largest, and how many tokens so near are put in order at most
_EACH = 64  # tokens of which the largest is looked for at once


class LogitRow:
    """A row of logits as it is now, looked through as seldom as may be: 49,152 of them are 5 us a time."""

    def __init__(self, logits: NDArray[np.float32]) -> None:
        self.logits = logits

    @cached_property
    def _peaks(self) -> NDArray[np.float32]:
        """The largest of 64 tokens each; those left over at the end are their own."""
        columns = len(self.logits) // _EACH
        even = _EACH * columns
        peaks = self.logits[:even].reshape(_EACH, columns).max(axis=0) if columns else self.logits[:0]
        return peaks if even == len(self.logits) else np.concatenate((peaks, self.logits[even:]))

    @cached_property
    def peak(self) -> float:
        """The largest; NaN where there is one."""
        peak: float = self.logits.item(self.logits.argmax())
        return peak

    @cached_property
    @np.errstate(over="ignore")  # of numbers far apart; under `-W error` NumPy's warning ended the answer
    def normaliser(self) -> float:
        """The logarithm of the sum of exponentials; NaN and infinity as they are."""
        if not math.isfinite(self.peak):
            return self.peak
        # Memory of so many bytes, asked for anew each time, comes from the system page by page.
        parts = _scratch(len(self.logits))
        np.subtract(self.logits, np.float32(self.peak), out=parts)
        np.exp(parts, out=parts)
        return self.peak + math.log(float(parts.sum()))

    def near(self, k: int) -> NDArray[np.intp]:
        """Return the ids of the `k` largest logits and of some more, in order of ids.

        The k-th largest of the peaks is no larger than the k-th largest of all; a few dozen tokens reach it.
        """
        close = (self.logits >= self.peak - _CLOSE).nonzero()[0]
        if 0 < k <= len(close) <= _MANY:  # of 5, at four draws in five, and the peaks are not needed
            return close
        peaks = self._peaks
        if k > len(peaks):
            return np.arange(len(self.logits))
        return np.flatnonzero(self.logits >= np.partition(peaks, len(peaks) - k)[len(peaks) - k])

    def top(self, k: int) -> tuple[tuple[int, float], ...]:
        """Return the `k` likeliest tokens with their log-probabilities, likeliest first."""
        near = self.near(min(k, len(self.logits)))
        values = self.logits[near]
        best = np.lexsort((near, -values))[:k]
        pairs = zip(near[best].tolist(), values[best].tolist(), strict=True)
        return tuple((token, value - self.normaliser) for token, value in pairs)


def _scratch(size: int) -> NDArray[np.float32]:
    """Return memory for so many numbers, the same for each row on this thread."""
    known: NDArray[np.float32] | None = getattr(_kept, "parts", None)
    if known is None or len(known) != size:
        known = _kept.parts = np.empty(size, np.float32)
    return known


class NoLogitsError(BackendError):
    """What was decoded gave no numbers: by the weights, or by cells that later answers would read as well."""


def unusable(total: float) -> BackendError:
    """Return the error for logits that are no numbers, by the logarithm of their sum."""
    return BackendError(
        f"The model gave no usable logits (the logarithm of their sum is {total}).",
        remedy="The weights hold NaN or infinite values; download the file again.",
    )
