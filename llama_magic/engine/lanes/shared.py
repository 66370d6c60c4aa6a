"""Continuous batching: every job decoded together, any prefix reused."""

from __future__ import annotations

from collections.abc import Callable

from llama_magic.engine.ahead import Ahead
from llama_magic.engine.job import Job
from llama_magic.engine.kv.reuse import take_longest
from llama_magic.engine.kv.slots import Slot
from llama_magic.engine.kv.store import common_prefix
from llama_magic.engine.lanes.composing import still_read
from llama_magic.engine.lanes.lane import Lane
from llama_magic.engine.lanes.prompt_reader import PromptReader
from llama_magic.engine.lanes.running import Running
from llama_magic.engine.native import Context


class SharedLane(Lane):
    """Decode all unseeded jobs in one unified KV cache.

    Idle sequences are parked in host memory when another job starts: attention runs over
    all used cells, so idle ones would slow every token, and a copy back costs some
    microseconds a token where reading it again costs milliseconds.

    `apart`: what is written and what is read take turns where both are many rows. On a processor attention
    goes by 64 of them, and looks at all cells that any of them looks at; with the rows of seven answers
    among those of a prompt, a step took a fifth longer than two of them. `make_reader`, given there, makes
    a small context in which prompts are read while many cells are used.
    """

    def __init__(
        self,
        context: Context,
        store_budget: int,
        ahead: Ahead,
        make_reader: Callable[[], Context] | None = None,
    ) -> None:
        super().__init__(context, store_budget, ahead)
        self.apart = make_reader is not None
        self.reader = PromptReader(make_reader)

    def cancel(self, job: Job) -> None:
        super().cancel(job)
        self.reader.cancel(job)

    def halt(self) -> None:
        super().halt()
        self.reader.halt()

    def fail(self, error: BaseException) -> None:
        super().fail(error)
        self.reader.retire()

    def _retire(self) -> None:
        super()._retire()
        self.reader.retire()

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.reader.close()

    def _go_on(self, quiet: Callable[[], bool]) -> None:
        """Read a prompt apart where that is its turn and worth it; else as every lane."""
        who = self.reader.next(self) if self.apart and len(self.running) > 1 else None
        if who is None or (self.read_last and not all(map(still_read, self.running))):
            super()._go_on(quiet)
        else:
            self.read_last = True
            self.reader.read(self, who)

    def begins(self, running: Running) -> bool:
        return not (self.apart and self.reader.takes(self, running))

    def may_guess(self, running: Running) -> bool:
        # What is certain and comes to the shared lane is of weights whose rows differ (`Core.accept`).
        return self.together or not running.certain

    def _admit(self) -> None:
        held_back: list[Running] = []
        while self.waiting:
            running = self.waiting.popleft()
            first = not self.running
            waits = self._is_being_read(running)
            if (first or (not waits and self.fits(running))) and self._place(running):
                continue
            held_back.append(running)
            if not waits:
                break  # first come, first served: do not let short requests starve a long one
        self.waiting.extendleft(reversed(held_back))

    def _is_being_read(self, running: Running) -> bool:
        """Whether others are reading what it can share in a moment: its prompt, or a good part of that."""
        if not running.request.reuse:
            return False
        limit = len(running.tokens) - 1
        for other in self.running:
            if other.reading:
                shared = min(common_prefix(other.tokens, running.tokens), limit)
                if self.weights.recurrent:
                    shared = max((end for end in other.checkpoints if end <= shared), default=0)
                if 4 * (shared - other.n_past) >= len(running.tokens) - other.n_past:
                    return True
        return False

    def _place(self, running: Running) -> bool:
        """Give a sample a slot, with the longest prefix that is held anywhere."""
        limit = len(running.tokens) - 1  # the last token is decoded in any case: its logits are needed
        slot: Slot | None = None
        running.look(self.kv)
        if running.request.reuse:
            slot = take_longest(self.kv, running.tokens, limit)
        if slot is None:
            slot = self.kv.free_slot()
        if slot is None:
            return False
        self._start(running, slot, len(slot.tokens))
        self.kv.park_idle()
        return True
