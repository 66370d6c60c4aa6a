"""The cells of one context: trim, park, restore, fork and pin sequences. The lanes decide which, and when."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Protocol

from llama_magic.engine.kv.slots import Slot, cells_used
from llama_magic.engine.kv.store import PrefixStore, State, StoredPrefix, Stretch

# Sequences that no request uses: one to save and restore through, one to pin cells.
HELPER_SEQUENCES = 2
PARKED_FROM = 32  # tokens: a shorter sequence is read again sooner than copied back


class Memory(Protocol):
    """What is asked of a context (`native.Context`) here; positions from 0, ends exclusive, -1: all."""

    def remove(self, sequence: int, start: int) -> bool: ...
    def copy(self, source: int, target: int, start: int, end: int) -> None: ...
    def span(self, sequence: int) -> tuple[int, int]: ...
    def clear(self, *, data: bool = False) -> None: ...
    def save_sequence(self, sequence: int) -> State: ...
    def restore_sequence(self, sequence: int, state: State) -> bool: ...


class Cells:
    """What lies in the sequences of a context, and what was moved from them to host memory (`store`).

    `sequences` is how many the context has, helpers included; `store` knows whether its states can be cut
    back. A sliding `window` is how many tokens back it looks at most (0: at all).
    With a `cut`, only what was read as a prompt may be reused, in multiples of so many tokens; with 0, all.
    """

    def __init__(
        self,
        memory: Memory,
        sequences: int,
        store: PrefixStore,
        *,
        window: int = 0,
        cut: int = 0,
    ) -> None:
        self.memory = memory
        self.slots = [Slot(i) for i in range(sequences - HELPER_SEQUENCES)]
        self.store = store
        self.cut = cut
        self.helpers = range(len(self.slots), sequences)  # sequences that no request uses
        self._scratch, self._pin = self.helpers
        self.pinned = False  # whether cells are held in their places
        # Cells further back than this may be given away by llama.cpp; 0: none are.
        self._reach = 0 if store.recurrent else window

    # --- what is there --------------------------------------------------------------------

    @property
    def recurrent(self) -> bool:
        """Whether a state cannot be cut back."""
        return self.store.recurrent

    @property
    def used(self) -> int:
        """How many cells are used."""
        return cells_used(self.slots)

    @property
    def idle(self) -> list[Slot]:
        """The slots that hold tokens and are not in use."""
        return [slot for slot in self.slots if slot.tokens and not slot.in_use]

    def reusable(self, slot: Slot) -> int:
        """Return how many leading tokens of a slot another request may reuse."""
        length = self.last_cut(slot.n_read) if self.cut else len(slot.tokens)
        return 0 if self.recurrent and length != len(slot.tokens) else length

    def exact_length(self, slot: Slot) -> int:
        """Return how many leading tokens of a slot a seeded request may reuse."""
        return self.reusable(slot) if self.cut else 0

    def last_cut(self, length: int) -> int:
        """Return where the last cut lies within `length` tokens."""
        return length // self.cut * self.cut if self.cut else length

    def unused_slot(self) -> Slot | None:
        """Return a slot that is empty and not in use."""
        return next((slot for slot in self.slots if not slot.in_use and not slot.tokens), None)

    def free_slot(self) -> Slot | None:
        """Return a slot that is not in use, an empty one first, else the least recently used, parked."""
        free = [slot for slot in self.slots if not slot.in_use]
        if not free:
            return None
        slot = min(free, key=lambda s: (bool(s.tokens), s.last_used))
        self.park(slot)
        return slot

    def lay(self, count: int) -> bool:
        """See to it that the next `count` cells may come; False where there is no room."""
        return True  # llama.cpp says so

    # --- cutting --------------------------------------------------------------------------

    def trim(self, slot: Slot, length: int) -> bool:
        """Cut a slot to its first `length` tokens; False (and empty) where that cannot be done exactly."""
        if length < len(slot.tokens) and not self._let_go(slot, length):
            self.empty(slot)
            return False
        if self.pinned:
            # What is cut off must leave its cells, or the next ones would lie behind it.
            self.memory.remove(self._pin, length)
        slot.cut(length)
        lowest, _ = self.memory.span(slot.sequence)
        # A sliding-window cache may have given old cells away; what is left must cover the window.
        if self._reach and length and lowest > max(0, length - self._reach):
            self.empty(slot)
            return False
        return True

    def empty(self, slot: Slot) -> None:
        """Take everything out of a slot."""
        self.unpin()
        self._let_go(slot, -1)
        slot.cut(0)

    def _let_go(self, slot: Slot, start: int) -> bool:
        return self.memory.remove(slot.sequence, start)

    def roll_back(self, slot: Slot) -> None:
        """Take out what a decode that was stopped wrote behind the tokens of a slot."""
        if not self.memory.remove(slot.sequence, len(slot.tokens)) or self.recurrent:
            self.empty(slot)

    def take_back(self, slot: Slot, count: int, *, last: bool) -> None:
        """Take out `count` guesses behind the tokens of a slot; `last`: no other cells lie behind them."""
        self.roll_back(slot)

    # --- out to host memory ---------------------------------------------------------------

    def park(self, slot: Slot) -> None:
        """Move an idle slot's sequence to host memory and free its cells."""
        keep = self.reusable(slot)
        if slot.name or (keep >= PARKED_FROM and self.trim(slot, keep)):
            self.keep_copy(slot)
        self.empty(slot)

    def park_idle(self) -> None:
        """Move every idle sequence to host memory."""
        for slot in self.idle:
            self.park(slot)

    def evict(self) -> bool:
        """Park the least recently used of the idle sequences; False where there is none."""
        idle = self.idle
        if idle:
            self.park(min(idle, key=lambda slot: slot.last_used))
        return bool(idle)

    def keep_copy(self, slot: Slot) -> None:
        """Copy a slot's sequence to host memory, unless nobody will ask for it again."""
        if slot.tokens and (slot.kept or slot.name):
            names = (slot.name,) if slot.name else ()
            self.store.put(list(slot.tokens), self._copies(slot), slot.n_read, names)

    def _copies(self, slot: Slot) -> list[Stretch]:
        """Return the stretches of a slot: those that host memory has, and copies of what came behind them.

        A chat that comes back, goes on and makes room again is copied from where it was before. Stretches
        no longer than what is new are copied with it, so that there are few of them, however many turns.
        """
        kept, length = self.store.leading(slot.tokens), len(slot.tokens)
        while kept:
            last = kept[-1].end - kept[-1].start
            if last == self._reach or last > length - kept[-1].end:
                break
            kept = kept[:-1]
        return [*kept, *self.states(slot, start=kept[-1].end if kept else 0)]

    def states(self, slot: Slot, cut: int = 0, start: int = 0) -> list[Stretch]:
        """Copy the cells of a slot, from position `start` on, to host memory, in order.

        llama.cpp leaves out what a sliding window no longer reaches from the last position.
        So the sequence is saved in stretches no longer than the window, each of them whole.
        One stretch ends at `cut`, so that the tokens before it can be restored alone.
        """
        length = len(slot.tokens)
        bounds = sorted({*range(start, length, self._reach or length or 1), max(start, cut), length})
        return [self._copied(slot, a, b) for a, b in itertools.pairwise(bounds)]

    def _copied(self, slot: Slot, start: int, end: int) -> Stretch:
        self.memory.copy(slot.sequence, self._scratch, start, end)
        stretch = Stretch(start, end, self.memory.save_sequence(self._scratch))
        self.memory.remove(self._scratch, -1)
        return stretch

    # --- back from host memory ------------------------------------------------------------

    def restore(self, slot: Slot, stored: StoredPrefix) -> bool:
        """Bring a parked sequence back into an empty slot, cells in order; False without room for it.

        The cells stay pinned (shared with a sequence that no request uses) until the next
        batch is in place. llama.cpp looks for free cells from the start of the cache after a
        restore, and takes those of a single sequence that its window no longer reaches; a cold
        read would go on behind them. With pinned cells the order of cells, and with it every
        bit of the sums over them, is that of a cold read.
        """
        for stretch in stored.stretches:
            if not self.memory.restore_sequence(self._scratch, stretch.state):
                self.unpin()
                self.empty(slot)
                return False
            for target in (slot.sequence, self._pin):
                self.memory.copy(self._scratch, target, -1, -1)
            self.pinned = True
            self.memory.remove(self._scratch, -1)
        slot.tokens = list(stored.tokens)
        slot.n_read = stored.n_read
        return True

    def unpin(self) -> None:
        """Let go of the cells that were held in their places."""
        if self.pinned:
            self.memory.remove(self._pin, -1)
            self.pinned = False

    def takes(self, stretch: Stretch, look: Callable[[int], bool] = lambda sequence: True) -> bool:
        """Whether llama.cpp takes a saved stretch as what it says it is; leaves no trace of it.

        `look` is asked of the sequence that it lies in meanwhile.
        """
        taken = self.memory.restore_sequence(self._scratch, stretch.state)
        first, last = self.memory.span(self._scratch)
        if self._reach and last < 0:  # its cells were given away, for the window had gone on
            fits = taken
        else:  # where a state is of another position than the cells (a hybrid's), it begins behind their end
            fits = taken and first <= last == stretch.end - 1 and look(self._scratch)
        self.memory.remove(self._scratch, -1)
        return fits

    # --- sharing --------------------------------------------------------------------------

    def share(self, holder: Slot, slot: Slot, length: int) -> None:
        """Give an empty slot the first `length` cells of another, which costs nothing."""
        self.memory.copy(holder.sequence, slot.sequence, 0, length)
        slot.share(holder, length)

    def fork(self, slot: Slot, name: str) -> None:
        """Keep the tokens of a slot under a name: in a second slot that shares the cells.

        In host memory where no slot is free, or where there is a `cut`, for then no other cells may be
        in use while a request runs.
        """
        length = self.reusable(slot)
        target = None if self.cut else self.unused_slot()
        if target is None:
            kept = [stretch for stretch in self.states(slot, length) if stretch.end <= length]
            self.store.put(list(slot.tokens[:length]), kept, min(slot.n_read, length), (name,))
            return
        self.share(slot, target, length)
        target.last_used = time.monotonic()
        target.name = name

    # --- forgetting -----------------------------------------------------------------------

    def forget(self) -> None:
        """Drop every idle sequence, in cells and in host memory."""
        if not any(slot.in_use for slot in self.slots):
            self.reset()
            return
        for slot in self.idle:
            self.empty(slot)
        self.store.clear()

    def reset(self) -> None:
        """Drop everything: nothing runs, or what the cells hold is unknown."""
        self._clear()
        for slot in self.slots:
            slot.in_use = False
        self.store.clear()

    def clear(self) -> None:
        """Take everything out of the cells, what idle sequences hold to host memory; nothing runs."""
        self.park_idle()
        self._clear()

    def _clear(self) -> None:
        self.pinned = False
        self.memory.clear(data=True)  # a NaN in a cell is NaN for who does not look at it, too
        for slot in self.slots:
            slot.cut(0)
