"""A KV cache in memory, for tests of what is done with one: the cells of llama.cpp without llama.cpp."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import dataclass, field
from typing import Any

from llama_magic.engine.kv.cells import Cells
from llama_magic.engine.kv.slots import Slot
from llama_magic.engine.kv.store import PrefixStore


@dataclass
class Cell:
    """One cell: which token lies in it, at which position, and which sequences hold it."""

    position: int = -1
    token: int = -1
    sequences: set[int] = field(default_factory=set)


class FakeMemory:
    """As `llama_memory` with a unified cache, of `size` cells.

    New tokens go into the first free cells behind the last write, or from the first that was freed since;
    after a restore or a clear they are looked for from the start. With a `window`, a cell of one sequence
    that its next token no longer reaches counts as free, and a saved state leaves out what its last token
    no longer reaches.
    """

    def __init__(self, size: int, window: int = 0) -> None:
        self.cells = [Cell() for _ in range(size)]
        self.window = window
        self.head = 0

    def held(self, sequence: int) -> list[tuple[int, int]]:
        """Return what a sequence holds as (position, token), by position."""
        return sorted((c.position, c.token) for c in self.cells if sequence in c.sequences)

    def places(self, sequence: int) -> list[int]:
        """Return in which cells a sequence lies, by position."""
        order = [(c.position, i) for i, c in enumerate(self.cells) if sequence in c.sequences]
        return [i for _, i in sorted(order)]

    def used(self) -> int:
        """Return how many cells are held."""
        return sum(bool(cell.sequences) for cell in self.cells)

    def write(self, sequence: int, start: int, tokens: list[int]) -> bool:
        """Decode tokens from a position on; False (and nothing is written) where no cells are found."""
        taken: list[int] = []
        begin, end = self.head % len(self.cells), len(self.cells)
        for index in itertools.chain(range(begin, end), range(begin)):
            if len(taken) == len(tokens):
                break
            if self._free(self.cells[index], sequence, start):
                taken.append(index)
        if len(taken) < len(tokens):
            return False
        if not tokens:
            return True
        for place, (index, token) in enumerate(zip(taken, tokens, strict=True)):
            self.cells[index] = Cell(start + place, token, {sequence})
        self.head = taken[-1] + 1
        return True

    def _free(self, cell: Cell, sequence: int, start: int) -> bool:
        if not cell.sequences:
            return True
        return bool(self.window) and cell.sequences == {sequence} and cell.position <= start - self.window

    def remove(self, sequence: int, start: int) -> bool:
        for place, cell in enumerate(self.cells):
            if sequence in cell.sequences and start <= cell.position:
                cell.sequences.discard(sequence)
                if not cell.sequences:
                    self.head = min(self.head, place)
        return True

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        for cell in self.cells:
            if source in cell.sequences and start <= cell.position and (end < 0 or cell.position < end):
                cell.sequences.add(target)

    def span(self, sequence: int) -> tuple[int, int]:
        held = [cell.position for cell in self.cells if sequence in cell.sequences]
        return (min(held), max(held)) if held else (-1, -1)

    def clear(self, *, data: bool = False) -> None:
        self.cells = [Cell() for _ in self.cells]
        self.head = 0

    def save_sequence(self, sequence: int) -> bytes:
        held = self.held(sequence)
        last = held[-1][0] if held else 0
        kept = [pair for pair in held if not self.window or pair[0] > last - self.window]
        return pickle.dumps(kept)

    def restore_sequence(self, sequence: int, state: bytes) -> bool:
        self.remove(sequence, -1)
        held: list[tuple[int, int]] = pickle.loads(state)
        free = [index for index, cell in enumerate(self.cells) if not cell.sequences]
        if len(free) < len(held):
            return False
        for index, (position, token) in zip(free, held, strict=False):
            self.cells[index] = Cell(position, token, {sequence})
        self.head = 0
        return True


class FakeState(FakeMemory):
    """As `llama_memory` of a recurrent model: one state a sequence, which cannot be cut back."""

    def remove(self, sequence: int, start: int) -> bool:
        last = self.span(sequence)[1]
        if 0 < start <= last:
            return False
        return super().remove(sequence, start)

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        assert start <= 0 and (end < 0 or end > self.span(source)[1]), "a state is copied as a whole"  # noqa: PT018 - one fact
        super().copy(source, target, start, end)


def cells_over(memory: FakeMemory, sequences: int = 4, budget: int = 10**6, **options: Any) -> Cells:
    """Return cells of so many sequences, and two for the helpers."""
    store = PrefixStore(budget, recurrent=isinstance(memory, FakeState))
    return Cells(memory, sequences + 2, store, window=memory.window, **options)


def decode(cells: Cells, slot: Slot, tokens: list[int], n_prompt: int | None = None) -> None:
    """Do what a lane does for one sample: write tokens behind those of a slot, then unpin.

    `n_prompt` is the length of the prompt, where some of the tokens are written and not read.
    """
    memory = cells.memory
    assert isinstance(memory, FakeMemory)
    assert memory.write(slot.sequence, len(slot.tokens), tokens)
    cells.unpin()
    slot.extend(tokens, len(slot.tokens) + len(tokens) if n_prompt is None else n_prompt)
