"""Prompts read beside others' answers, in a small context of their own, and carried over when read.

Attention looks at the mask of every cell that is used, whoever it belongs to: a prompt that is read where
fifteen answers lie costs a quarter more than where it lies alone, and what is carried over microseconds a
token. So many cells are used only where many ask at once; the context is made then, if there is memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from llama_magic.engine.job import Job
from llama_magic.engine.kv.cells import Cells
from llama_magic.engine.kv.reuse import restored
from llama_magic.engine.kv.slots import cells_used
from llama_magic.engine.kv.store import PrefixStore, StoredPrefix
from llama_magic.engine.lanes.composing import TILE, busy_chunk, still_read
from llama_magic.engine.lanes.flight import Flights
from llama_magic.engine.lanes.running import Running
from llama_magic.engine.native import Context, DecodeStatus
from llama_magic.errors import BackendError, FitError

# Cells of others from which on it is worth it: 128 tokens then cost a twentieth more among them.
WORTH_FROM = 1024


class Sharing(Protocol):
    """A lane, as far as prompts are read for it."""

    kv: Cells
    running: list[Running]


class PromptReader:
    """Reads one prompt at a time, up to its last token, which the lane decodes with what it writes.

    `make` makes the context, and raises where there is no memory for it. `cancel` and `halt` come from any
    thread, all else from the one that computes.
    """

    def __init__(self, make: Callable[[], Context] | None) -> None:
        self._make = make
        self.context: Context | None = None
        self._flights: Flights | None = None
        self._halted = False
        self._who: Running | None = None  # whose prompt is in the context
        self._refused: Running | None = None  # whose prompt could not be carried over

    def next(self, lane: Sharing) -> Running | None:
        """Return whose prompt is to be read here; None where the lane is to read what there is."""
        who = next((running for running in lane.running if still_read(running)), None)
        return who if who is not None and self.takes(lane, who) else None

    def takes(self, lane: Sharing, running: Running) -> bool:
        """Whether the prompt of a sample is to be read here, when its turn comes."""
        if running.n_past or running is self._refused or running.job.cancelled:
            return False
        if running is self._who:
            return True
        if running.weights.recurrent or running.n_prompt <= TILE:
            return False
        others = (other.slot for other in lane.running if other.slot is not None)
        return cells_used(others) >= WORTH_FROM and self._open()

    def read(self, lane: Sharing, who: Running | None) -> None:
        """Read on, as many tokens as are read in a turn, of one prompt after the other."""
        room = busy_chunk(sum(map(still_read, lane.running)))
        while room >= TILE and who is not None and not any(other.job.cancelled for other in lane.running):
            slot = self._cells.slots[0]
            if who is not self._who:
                self._cells.empty(slot)
                self._who = who
            past, end = len(slot.tokens), min(who.n_prompt - 1, self._cells_most)
            size = min(room, self._at_once - TILE)
            # What is less than a tile goes with the tokens before it: alone it would cost a third more.
            part = who.tokens[past : end if end - past < size + TILE else past + size]
            if not self._decode(who.job, part, past):
                return
            slot.extend(part, who.n_prompt)
            room -= len(part)
            if past + len(part) == end:
                self._carry(lane, who)
            who.report_prompt(done=past + len(part))
            who = self.next(lane)

    def _decode(self, job: Job, part: list[int], past: int) -> bool:
        assert self.context is not None
        assert self._flights is not None
        self._flights.take_off({job})
        places = range(past, past + len(part))
        status = self.context.decode(part, places, [0] * len(part), ())
        if status is not DecodeStatus.DONE:
            self._who = None  # what was read is let go
        return status is DecodeStatus.DONE

    def _carry(self, lane: Sharing, who: Running) -> None:
        """Bring what was read into the cells of the lane."""
        slot = self._cells.slots[0]
        read = StoredPrefix(list(slot.tokens), self._cells.states(slot), slot.n_read)
        assert who.slot is not None
        lane.kv.unpin()
        if not restored(lane.kv, who.slot, read):
            self._refused = who
        lane.kv.unpin()
        self._cells.empty(slot)
        self._who = None

    def _open(self) -> bool:
        """Make the context at its first use; False where it could not be made, then or before."""
        if self.context is None and self._make is not None:
            make, self._make = self._make, None
            try:
                self.context = context = make()
            except (BackendError, FitError):
                return False
            self._cells_most, self._at_once = context.n_ctx, context.n_batch
            sequences, window = context.options.sequences, context.weights.n_swa
            self._cells = Cells(context, sequences, PrefixStore(0), window=window)
            self._flights = Flights(context)
            if self._halted:  # meanwhile
                self._flights.halt()
        return self.context is not None

    # --- what happens to the lane -----------------------------------------------------------

    def cancel(self, job: Job) -> None:
        """Stop what is decoded here, if `job` is in it. Any thread."""
        if (flights := self._flights) is not None:
            flights.cancel(job)

    def halt(self) -> None:
        """Stop what is decoded here, for good. Any thread."""
        self._halted = True
        if (flights := self._flights) is not None:
            flights.halt()

    def retire(self) -> None:
        """Let go of whoever is done."""
        self._who = None if self._who is None or self._who.done else self._who
        self._refused = None if self._refused is None or self._refused.done else self._refused

    def close(self) -> None:
        """Free the context."""
        self._who = self._refused = None
        self._make = None
        if self.context is not None:
            self.context.close()
