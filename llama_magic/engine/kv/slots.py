"""What lies in the sequences of a KV cache, and which of them share cells."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence

_lineages = itertools.count(1)


class Slot:
    """One llama.cpp sequence: `tokens` have their cells in it, `n_read` of them were read as prompt.

    Slots can share cells. `runs` says which: cells of the same lineage and position are one.
    """

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.tokens: list[int] = []
        self.n_read = 0
        self.in_use = False  # by a sample that runs
        self.last_used = 0.0  # as time.monotonic() says
        self.name = ""  # of a fork
        self.kept = True  # in host memory, when it has to make room
        self._shared: list[tuple[int, int]] = []  # (lineage, end) of leading cells that others may hold
        self._lineage = next(_lineages)

    def leave(self) -> None:
        """Say that the sample which used it has ended."""
        self.in_use, self.last_used = False, time.monotonic()

    def extend(self, tokens: Sequence[int], n_prompt: int) -> None:
        """Add tokens that were decoded behind the others; those before `n_prompt` were read as a prompt.

        What was read after something was written does not count as read.
        """
        if self.n_read == len(self.tokens):
            self.n_read = min(len(self.tokens) + len(tokens), n_prompt)
        self.tokens += tokens

    def cut(self, length: int) -> None:
        """Forget all tokens from `length` on."""
        self._shared = [run[:1] + run[2:] for run in self.runs() if run[1] < length]
        if self._shared:
            lineage, end = self._shared[-1]
            self._shared[-1] = lineage, min(end, length)
        self._lineage = next(_lineages)
        del self.tokens[length:]
        self.n_read = min(self.n_read, length)
        if not length:
            self.name = ""

    def share(self, holder: Slot, length: int) -> None:
        """Take over the first `length` cells of another slot."""
        self.cut(0)
        self.tokens = list(holder.tokens[:length])
        self.n_read = min(holder.n_read, length)
        runs = holder.runs()
        self._shared = [(lineage, min(end, length)) for lineage, start, end in runs if start < length]

    def runs(self) -> list[tuple[int, int, int]]:
        """Return the cells as (lineage, start, end) stretches of positions."""
        ends = [*self._shared, (self._lineage, len(self.tokens))]
        starts = [0, *(end for _, end in self._shared)]
        return [
            (lineage, start, end) for (lineage, end), start in zip(ends, starts, strict=True) if start < end
        ]


def cells_used(slots: Iterable[Slot]) -> int:
    """Count the cells of slots once, however many share them."""
    longest: dict[int, int] = {}
    lowest: dict[int, int] = {}
    for slot in slots:
        for lineage, start, end in slot.runs():
            # Stretches of a lineage that are held start at the same position.
            longest[lineage] = max(longest.get(lineage, 0), end)
            lowest[lineage] = start
    return sum(end - lowest[lineage] for lineage, end in longest.items())
