"""Sequences moved out of the KV cache into host memory, found again by their tokens."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

State = bytes | NDArray[np.uint8]  # read from a file, or saved of a context


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many leading tokens two sequences share."""
    limit = min(len(a), len(b))
    if limit == 0:
        return 0
    differs = np.asarray(a[:limit], dtype=np.int32) != np.asarray(b[:limit], dtype=np.int32)
    first = int(differs.argmax())
    return first if differs[first] else limit


def usable_prefix(held: Sequence[int], tokens: Sequence[int], limit: int, *, recurrent: bool) -> int:
    """Return how many leading tokens of `held` a prompt of `tokens` can go on from, `limit` at most.

    All of them or none of a `recurrent` model, whose state cannot be cut back.
    """
    shared = common_prefix(held, tokens)
    if recurrent:
        return shared if shared == len(held) <= limit else 0
    return min(shared, limit)


@dataclass(frozen=True)
class Stretch:
    """The saved state of the cells at positions `start` to `end` (exclusive)."""

    start: int
    end: int
    state: State


@dataclass
class StoredPrefix:
    """The saved state of the cells of `tokens`, in one or more stretches.

    The first `n_read` tokens were read as a prompt. `names` are those of forks.
    """

    tokens: list[int]
    stretches: list[Stretch]
    n_read: int = 0
    names: list[str] = field(default_factory=list)
    last_used: float = 0.0

    @property
    def size(self) -> int:
        return sum(len(stretch.state) for stretch in self.stretches)


class PrefixStore:
    """Keep saved sequences within `budget` bytes; the least recently used goes first.

    Of a `recurrent` model none stands for its beginnings.
    """

    def __init__(self, budget: int, *, recurrent: bool = False) -> None:
        self.budget = budget
        self.recurrent = recurrent
        self.bytes_used = 0
        self.entries: list[StoredPrefix] = []

    def put(
        self, tokens: list[int], stretches: list[Stretch], n_read: int = 0, names: Sequence[str] = ()
    ) -> None:
        """Keep a sequence, in place of any that it stands for; one larger than the budget is not kept.

        What has names (forks) stays what it is: nothing longer takes its place.
        """
        new = StoredPrefix(tokens, stretches, n_read, list(names))
        if new.size > self.budget:
            return
        for entry in list(self.entries):
            shared = common_prefix(entry.tokens, tokens)
            equal = shared == len(tokens) == len(entry.tokens)
            if equal or (shared == len(tokens) and not names and not self.recurrent):
                entry.names += names
                entry.last_used = time.monotonic()
                return
            if shared == len(entry.tokens) and not entry.names and not self.recurrent:
                self._drop(entry)
        new.last_used = time.monotonic()
        self.entries.append(new)
        self.bytes_used += new.size
        while self.bytes_used > self.budget:
            self._drop(min(self.entries, key=lambda entry: entry.last_used))

    def best(self, tokens: Sequence[int], limit: int) -> tuple[StoredPrefix | None, int]:
        """Return the entry that `tokens` can go on from furthest, and how far: `limit` at most."""
        best, length = None, 0
        for entry in self.entries:
            usable = usable_prefix(entry.tokens, tokens, limit, recurrent=self.recurrent)
            if usable > length:
                best, length = entry, usable
        if best is not None:
            best.last_used = time.monotonic()
        return best, length

    def leading(self, tokens: Sequence[int]) -> list[Stretch]:
        """Return the saved stretches that `tokens` begin with, most of them; none of states as a whole."""
        most: list[Stretch] = []
        for entry in () if self.recurrent else self.entries:
            shared = common_prefix(entry.tokens, tokens)
            if not most or shared > most[-1].end:
                held = [stretch for stretch in entry.stretches if stretch.end <= shared]
                most = max(most, held, key=lambda some: some[-1].end if some else 0)
        return most

    def clear(self) -> None:
        self.entries.clear()
        self.bytes_used = 0

    def _drop(self, entry: StoredPrefix) -> None:
        self.entries.remove(entry)
        self.bytes_used -= entry.size
