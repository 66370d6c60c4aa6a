"""Cells of sequences that come and go side by side, each in the order of its positions."""

from __future__ import annotations

from llama_magic.engine.kv.cells import Cells, Memory
from llama_magic.engine.kv.slots import Slot
from llama_magic.engine.kv.store import PrefixStore, StoredPrefix, Stretch
from llama_magic.errors import BackendError

# Cells that nobody holds, beside as many as are held, before all are laid anew: each is looked at for
# every row that is decoded.
SLACK = 512


class OrderedCells(Cells):
    """Cells in which every sequence lies in the order of its positions, whatever runs beside it.

    Attention sums over the cells of a sequence in the order in which they lie, so the order decides the last
    bits. llama.cpp puts a new cell into the first hole that it finds, which may lie before older cells of
    its sequence. So there are no holes: what is let go is pinned where it lies. When room is short, `lay`
    copies what is held to host memory and back to the start of the cache, without the rest.
    """

    def __init__(
        self, memory: Memory, sequences: int, store: PrefixStore, *, size: int, window: int = 0
    ) -> None:
        super().__init__(memory, sequences, store, window=window)
        self.size = size
        self._laid = 0  # cells that are held or pinned, or were before the last batch was stopped
        self._held = 0  # of these were held at least when last counted, and none let go since; 0: unknown

    def lay(self, count: int) -> bool:
        """See to it that the next `count` cells come behind all others; False where there is no room."""
        # To count them takes longer than all else that is done for a token.
        enough = self._laid + count <= self.size and self._laid <= 2 * self._held + SLACK
        if not self._held or not enough:
            while self.used + count > self.size:
                if not self.evict():
                    return False
            if not self.used:
                self._forget_places()
            elif self._laid + count > self.size or self._laid > 2 * self.used + SLACK:
                self._lay_anew()
            self._held = self.used
        self._laid += count
        return True

    def take_back(self, slot: Slot, count: int, *, last: bool) -> None:
        if last:
            self.roll_back(slot)
            self._laid -= count
        else:  # other sequences have cells behind them, which later ones must not lie before
            self._let_go(slot, len(slot.tokens))

    def exact_length(self, slot: Slot) -> int:
        return len(slot.tokens)

    def restore(self, slot: Slot, stored: StoredPrefix) -> bool:
        restored = self.lay(len(stored.tokens)) and super().restore(slot, stored)
        self.pinned = False  # so that neither `unpin` nor `trim` lets go of what is pinned
        return restored

    def reset(self) -> None:
        super().reset()
        self._laid = self._held = 0

    def _let_go(self, slot: Slot, start: int) -> bool:
        self._held = 0
        self.memory.copy(slot.sequence, self._pin, max(start, 0), -1)
        return self.memory.remove(slot.sequence, start)

    def _forget_places(self) -> None:
        self.memory.clear()
        self._laid = 0

    def _lay_anew(self) -> None:
        """Bring all that slots hold to the start of the cache, what lies at lower positions first."""
        longest: dict[int, tuple[int, int, Slot]] = {}  # by lineage: start, end, and who holds all of that
        for slot in self.slots:
            for lineage, start, end in slot.runs():
                if lineage not in longest or longest[lineage][1] < end:
                    longest[lineage] = start, end, slot
        saved: list[tuple[int, Stretch]] = []
        for lineage, (start, end, slot) in longest.items():
            step = self._reach or end - start
            saved += [(lineage, self._copied(slot, i, min(i + step, end))) for i in range(start, end, step)]
        self._forget_places()
        for lineage, stretch in sorted(saved, key=lambda pair: pair[1].start):
            if not self.memory.restore_sequence(self._scratch, stretch.state):
                raise BackendError("llama.cpp did not take cells back that it held before.")
            # Pinned for the sake of sliding windows: llama.cpp gives away what they no longer reach.
            self.memory.copy(self._scratch, self._pin, -1, -1)
            for slot in self.slots:
                ends = [end for held, _, end in slot.runs() if held == lineage]
                if ends and ends[0] > stretch.start:
                    self.memory.copy(self._scratch, slot.sequence, stretch.start, min(stretch.end, ends[0]))
            self.memory.remove(self._scratch, -1)
            self._laid += stretch.end - stretch.start
