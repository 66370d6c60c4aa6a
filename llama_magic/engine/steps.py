"""The logits of the latest steps, kept so that a draw can be looked at again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class StepStore:
    """The last rows of logits of a model, whichever answer they belong to, within `budget` bytes.

    A ring: the oldest row is overwritten. Written by the compute thread, read by any. The
    memory is taken page by page as rows are first written, so short answers cost little.
    """

    def __init__(self, n_vocab: int, budget: int) -> None:
        # The oldest row is never read: it may be the one that is being written.
        self.capacity = max(2, budget // (4 * n_vocab))
        self._shape = (self.capacity, n_vocab)
        self._rows: NDArray[np.float32] | None = None
        self._masks: dict[int, NDArray[np.uint8]] = {}
        self._count = 0
        self._closed = False

    def put(self, logits: NDArray[np.float32]) -> int:
        """Keep a row (n_vocab,); returns the number to ask for it with."""
        if self._rows is None:
            self._rows = np.empty(self._shape, np.float32)
        place = self._count % self.capacity
        self._rows[place] = logits
        if self._masks:
            self._masks.pop(place, None)
        self._count += 1
        return self._count - 1

    def put_mask(self, number: int, bits: NDArray[np.uint8]) -> None:
        """Keep which tokens a constraint left of row `number`, one bit a token, the lowest first."""
        self._masks[number % self.capacity] = bits

    def get(self, number: int) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None] | None:
        """Return a copy of a row and what a constraint left of it; None where it was overwritten."""
        rows = self._rows
        if rows is None or not self.kept(number):
            return None
        row = rows[number % self.capacity].copy()
        bits = self._masks.get(number % self.capacity)
        if not self.kept(number):  # the engine went on meanwhile
            return None
        allowed = (
            None if bits is None else np.unpackbits(bits, count=len(row), bitorder="little").astype(bool)
        )
        return row, allowed

    def kept(self, number: int) -> bool:
        """Whether a row is still there."""
        return not self._closed and number > self._count - self.capacity

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the rows take."""
        return 0 if self._rows is None else self._rows.nbytes

    def close(self) -> None:
        """Free the rows."""
        self._closed = True
        self._rows = None
        self._masks.clear()


@dataclass(frozen=True)
class Step:
    """One step of an answer: the logits before any sampler, and which tokens a constraint allowed.

    `logits` is None where the row is no longer kept, and where the constraint forced the token
    without a draw (`forced`).
    """

    logits: NDArray[np.float32] | None
    allowed: NDArray[np.bool_] | None = None
    forced: bool = False


class StepTape:
    """Where the steps of one sample are kept, in order."""

    def __init__(self, store: StepStore) -> None:
        self._store = store
        self._numbers: list[int | None] = []  # None: forced

    def draw(self, logits: NDArray[np.float32]) -> None:
        """Note a step that begins with these logits."""
        self._numbers.append(self._store.put(logits))

    def mask(self, bits: NDArray[np.uint8]) -> None:
        """Note which tokens a constraint allowed at the last step, one bit a token."""
        number = self._numbers[-1]
        assert number is not None
        self._store.put_mask(number, bits)

    def force(self) -> None:
        """Note a token that was not drawn."""
        self._numbers.append(None)

    def __len__(self) -> int:
        return len(self._numbers)

    def draws(self, end: int) -> int:
        """Return how many of the first `end` steps were draws."""
        return sum(number is not None for number in self._numbers[:end])

    def holds(self, end: int) -> bool:
        """Whether the logits of all draws before step `end` are still kept."""
        return all(number is None or self._store.kept(number) for number in self._numbers[:end])

    def step(self, index: int) -> Step:
        """Return what is known of a step."""
        number = self._numbers[index]
        if number is None:
            return Step(None, forced=True)
        kept = self._store.get(number)
        return Step(None) if kept is None else Step(*kept)
