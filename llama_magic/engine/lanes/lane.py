"""A lane: one llama.cpp context and the sequences that are decoded in it, a batch a step.

Two kinds share this mechanism. `SharedLane` decodes every request together and reuses
whatever prefix it holds. `ExactLane` serves one request at a time and reuses only what a
cold read would have written bit for bit (design.md §2), so a seed means the same tokens.
"""

from __future__ import annotations

import ctypes
import time
from collections import deque
from collections.abc import Iterable

from llama_magic.engine.ahead import Ahead
from llama_magic.engine.job import Job
from llama_magic.engine.kv.store import PrefixStore, StoredPrefix, Stretch
from llama_magic.engine.lanes.running import Running, Slot, cells_used
from llama_magic.engine.native import Context, ContextOptions, DecodeStatus, Weights
from llama_magic.errors import BackendError
from llama_magic.request.matcher import Matcher

# Prompt tokens read in one step while other streams are being written, so that these go on.
BUSY_CHUNK = 128
# And otherwise. Larger chunks are hardly faster (256 against 512: 0 to 3 %), and progress shows between them.
READ_CHUNK = 256
# Sequence ids that no request uses: one to save and restore through, one to pin cells.
HELPER_SEQUENCES = 2


class Flight:
    """The requests that are decoded together, and the flag that stops their decode.

    A flag is never cleared: once it is set one of these requests is cancelled, and the next batch is
    another flight. So one that is set late, by a thread that slept, stops nobody else.
    """

    def __init__(self, requests: frozenset[Job]) -> None:
        self.requests = requests
        self.flag = ctypes.create_string_buffer(2)  # b"\0": go on, b"\1\0": stop

    def abort(self) -> None:
        self.flag[0] = b"\x01"


class Lane:
    """Decode requests in one context. Called by the compute thread only, but for `cancel()` and `halt()`."""

    def __init__(self, weights: Weights, options: ContextOptions, store_budget: int, ahead: Ahead) -> None:
        self.weights = weights
        self.context = Context(weights, options)
        self.cells = self.context.n_ctx
        self.slots = [Slot(i) for i in range(options.sequences - HELPER_SEQUENCES)]
        self._scratch, self._pin = range(len(self.slots), options.sequences)
        self._pinned = False
        self._crowded = False  # a sample was sent back for want of cells, and none has ended since
        # Cells further back than this may be given away by llama.cpp; 0: none are.
        self._reach = 0 if weights.recurrent else weights.n_swa
        self.store = PrefixStore(store_budget)
        self._ahead = ahead
        self.waiting: deque[Running] = deque()
        self.running: list[Running] = []
        self.company = False  # whether another model is at work, too
        self.last: Job | None = None  # the last request that ended
        self.read_tokens, self.read_s = 0, 0.0  # prompt tokens read since the start, and the time it took
        self._flight = Flight(frozenset())
        self._halted = False

    # --- what the engine asks -------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.running)

    def submit(self, request: Job) -> None:
        """Queue the samples of a request."""
        for index in range(request.n):
            self.waiting.append(Running(request, index, self.weights))

    def cancel(self, request: Job) -> None:
        """Stop a request: at the next step, or now if it is being decoded. Any thread."""
        request.cancelled = True
        flight = self._flight
        if request in flight.requests:
            flight.abort()

    def halt(self) -> None:
        """Stop what is being decoded, for good. Any thread."""
        self._halted = True
        self._flight.abort()

    def step(self) -> None:
        """Admit what fits, decode one batch, draw a token for each sequence that is through its prompt."""
        self.reap_cancelled()
        # Who was sent back waits until another has ended: admitted at once it would be sent back at once.
        if not (self._crowded and self.running):
            self._admit()
            self._retire()  # a constraint may have failed to open
        if not self.running:
            return
        batch = self._compose()
        status = self._decode(batch)
        if status is DecodeStatus.DONE:
            self._harvest(batch)
        elif status is DecodeStatus.NO_CELLS:
            self._make_room()
        self.reap_cancelled()
        self._retire()

    def fail(self, error: BaseException) -> None:
        """End every request with `error` and forget the cache, whose state is unknown."""
        requests = {r.request for r in (*self.running, *self.waiting)}
        for running in (*self.running, *self.waiting):
            running.drop()
        self.running.clear()
        self.waiting.clear()
        self._crowded = False
        self.forget()
        for request in requests:
            request.finish(error)

    def forget(self) -> None:
        """Drop every idle sequence, in cells and in host memory."""
        if not self.running:
            self.context.clear()
            for slot in self.slots:
                slot.cut(0)
                slot.owner = None
        self.store.clear()

    def close(self) -> None:
        """End every request as interrupted, and free the context."""
        for running in (*self.running, *self.waiting):
            running.request.cancelled = True
        try:
            self.reap_cancelled()
        finally:
            self.context.close()

    # --- one step -------------------------------------------------------------------------

    def _compose(self) -> list[tuple[Running, list[int]]]:
        """Choose what goes into the next batch: first a token for each stream, then prompts in order."""
        room = self.context.n_batch
        batch: list[tuple[Running, list[int]]] = []
        for running in self.running:
            if not running.reading and room:
                tokens = list(running.pending(room))
                batch.append((running, tokens))
                room -= len(tokens)
        if batch or self.company:
            room = min(room, BUSY_CHUNK)
        for running in self.running:
            if running.reading and room:
                tokens = list(running.pending(min(room, self._chunk(running))))
                batch.append((running, tokens))
                room -= len(tokens)
        return batch

    def _chunk(self, running: Running) -> int:
        """Return how many tokens of a prompt to read next."""
        return min(self.context.n_batch, READ_CHUNK)

    def _decode(self, batch: list[tuple[Running, list[int]]]) -> DecodeStatus:
        tokens: list[int] = []
        positions: list[int] = []
        sequences: list[int] = []
        outputs: list[int] = []
        matchers: list[Matcher] = []  # of the sequences that a token is drawn for after this batch
        for running, part in batch:
            assert running.slot is not None
            past = running.n_past
            tokens += part
            positions += range(past, past + len(part))
            sequences += [running.slot.sequence] * len(part)
            if past + len(part) == len(running.tokens):
                outputs.append(len(tokens) - 1)
                if running.matcher is not None:
                    matchers.append(running.matcher)
        self._take_off(frozenset(running.request for running, _ in batch))
        self._ahead.start(matchers)
        try:
            status = self.context.decode(tokens, positions, sequences, outputs)
        finally:
            self._ahead.wait()
            self._unpin()
        if status is DecodeStatus.ABORTED:
            # Whole ubatches may have been written: go back to what was known before. (Where no
            # cells were found nothing was written: llama.cpp looks for all of them first.)
            for running, _ in batch:
                self._roll_back(running)
        return status

    def _take_off(self, requests: frozenset[Job]) -> None:
        """Say which requests are about to be decoded, so that `cancel()` can stop them.

        It takes no lock: either it finds the new flight, or its flag is seen here.
        """
        if requests != self._flight.requests:
            self._flight = Flight(requests)
            self.context.watch(self._flight.flag)
        if self._halted or any(request.cancelled for request in requests):
            self._flight.abort()

    def _harvest(self, batch: list[tuple[Running, list[int]]]) -> None:
        index = -1
        for running, part in batch:
            slot = running.slot
            assert slot is not None
            index += len(part)
            was_reading = running.reading
            if slot.n_read == len(slot.tokens):
                slot.n_read = min(len(slot.tokens) + len(part), running.n_prompt)
            slot.tokens += part
            if was_reading:
                running.report_prompt()
                if not running.reading:
                    self._prompt_done(running)
            if len(slot.tokens) == len(running.tokens) and not running.request.cancelled:
                try:
                    running.advance(self.context, index)
                except Exception as error:
                    # A constraint or the logits failed: this request ends, the others go on.
                    self._fail_request(running.request, error)

    def _prompt_done(self, running: Running) -> None:
        if running.index == 0:
            stats = running.request.stats
            stats.prompt_done = time.perf_counter()
            self.read_tokens += running.n_prompt - stats.cached_tokens
            self.read_s += stats.prompt_done - stats.started

    def _roll_back(self, running: Running) -> None:
        slot = running.slot
        assert slot is not None
        if not self.context.remove(slot.sequence, len(slot.tokens)) or self.weights.recurrent:
            self._empty(slot)

    def _fail_request(self, request: Job, error: BaseException) -> None:
        for running in (*self.running, *self.waiting):
            if running.request is request:
                running.drop()
        self.waiting = deque(r for r in self.waiting if r.request is not request)
        request.finish(error)

    # --- requests that end ----------------------------------------------------------------

    def reap_cancelled(self) -> None:
        """End what was cancelled."""
        for running in (*self.running, *self.waiting):
            if running.request.cancelled and not running.done:
                running.finish("interrupted")
        if any(r.done for r in self.waiting):
            gone = [r for r in self.waiting if r.done]
            self.waiting = deque(r for r in self.waiting if not r.done)
            for running in gone:
                self._close_if_last(running.request)
        self._retire()

    def _retire(self) -> None:
        for running in [r for r in self.running if r.done]:
            self._crowded = False
            self.running.remove(running)
            slot = running.slot
            assert slot is not None
            slot.owner = None
            slot.last_used = time.monotonic()
            self._close_if_last(running.request)

    def _close_if_last(self, request: Job) -> None:
        if not any(r.request is request for r in (*self.running, *self.waiting)):
            self.last = request
            request.finish()

    # --- cells ----------------------------------------------------------------------------

    def _admit(self) -> None:
        raise NotImplementedError

    def _fits(self, running: Running) -> bool:
        """Whether a sample has its cells to the end beside those that run, which have theirs."""
        if not self.weights.attends:
            return True  # a recurrent state for each sequence, and no cells
        held = cells_used(r.slot for r in self.running if r.slot is not None)
        to_come = sum(self._length(r) - r.n_past for r in self.running)
        shared = running.n_prompt - 1 if self._shares_prompt(running) else 0
        return held + to_come + self._length(running) - shared <= self.cells

    @staticmethod
    def _length(running: Running) -> int:
        return running.n_prompt + running.request.max_tokens + 1

    def _shares_prompt(self, running: Running) -> bool:
        """Whether a running sample of the same request lends its cells of the prompt.

        A recurrent state cannot be lent up to a position: there each sample reads for itself.
        """
        return not self.weights.recurrent and any(not o.reading for o in siblings(running, self.running))

    def _free_slot(self) -> Slot | None:
        """Return an unowned slot, an empty one first, else the least recently used, emptied."""
        idle = [slot for slot in self.slots if slot.owner is None]
        if not idle:
            return None
        slot = min(idle, key=lambda s: (bool(s.tokens), s.last_used))
        self._park(slot)
        return slot

    def _start(self, running: Running, slot: Slot, cached: int) -> None:
        slot.owner = running
        slot.name = ""
        running.slot = slot
        self.running.append(running)
        stats = running.request.stats
        if not stats.started:
            stats.started = time.perf_counter()
        try:
            running.open()
        except Exception as error:
            self._fail_request(running.request, error)
            return
        running.report_prompt(cached)

    def _trim(self, slot: Slot, length: int) -> bool:
        """Cut a slot to its first `length` tokens; False (and empty) where that cannot be done exactly."""
        if length < len(slot.tokens) and not self.context.remove(slot.sequence, length):
            self._empty(slot)
            return False
        if self._pinned:
            # What is cut off must leave its cells, or the next ones would lie behind it.
            self.context.remove(self._pin, length)
        slot.cut(length)
        lowest, _ = self.context.span(slot.sequence)
        # A sliding-window cache may have given old cells away; what is left must cover the window.
        if self._reach and length and lowest > max(0, length - self._reach):
            self._empty(slot)
            return False
        return True

    def _empty(self, slot: Slot) -> None:
        self._unpin()
        self.context.remove(slot.sequence, -1)
        slot.cut(0)

    def _park(self, slot: Slot) -> None:
        """Move an idle slot's sequence to host memory and free its cells."""
        keep = self._worth_keeping(slot)
        if slot.name or (keep >= 32 and self._trim(slot, keep)):
            self._keep_copy(slot)
        self._empty(slot)

    def _worth_keeping(self, slot: Slot) -> int:
        """Return how many leading tokens of a slot another request may reuse."""
        return len(slot.tokens)

    def _keep_copy(self, slot: Slot) -> None:
        """Copy a slot's sequence to host memory."""
        if slot.tokens:
            names = (slot.name,) if slot.name else ()
            self.store.put(list(slot.tokens), self.states(slot), slot.n_read, names)

    def states(self, slot: Slot, cut: int = 0) -> list[Stretch]:
        """Copy the cells of a slot to host memory, in order.

        llama.cpp leaves out what a sliding window no longer reaches from the last position.
        So the sequence is saved in stretches no longer than the window, each of them whole.
        One stretch ends at `cut`, so that the tokens before it can be restored alone.
        """
        length = len(slot.tokens)
        starts = sorted({*range(0, length, self._reach or length or 1), cut} - {length})
        out = []
        for start, end in zip(starts, [*starts[1:], length], strict=True):
            self.context.copy(slot.sequence, self._scratch, start, end)
            out.append(Stretch(start, end, self.context.save_sequence(self._scratch)))
            self.context.remove(self._scratch, -1)
        return out

    def takes(self, stretch: Stretch) -> bool:
        """Whether llama.cpp takes a saved stretch as what it says it is; leaves no trace of it."""
        taken = self.context.restore_sequence(self._scratch, stretch.state)
        first, last = self.context.span(self._scratch)
        # Where a state is of another position than the cells (a hybrid's), it begins behind their end.
        fits = taken and first <= last == stretch.end - 1
        self.context.remove(self._scratch, -1)
        return fits

    def park_idle(self) -> None:
        """Move every idle sequence to host memory."""
        for slot in self.slots:
            if slot.owner is None and slot.tokens:
                self._park(slot)

    def drop_idle(self) -> None:
        """Forget every sequence that no request is using, in cells and in host memory."""
        if not self.running:
            self.forget()
            return
        for slot in self.slots:
            if slot.owner is None and slot.tokens:
                self._empty(slot)
        self.store.clear()

    def exact_length(self, slot: Slot) -> int:
        """Return how many leading tokens of a slot a seeded request may reuse."""
        return 0

    def fork(self, slot: Slot, name: str) -> None:
        """Give a second, idle slot the cells of `slot`; where no slot is free, keep a copy in host memory."""
        target = next((s for s in self.slots if s.owner is None and not s.tokens), None)
        if target is None:
            self.store.put(list(slot.tokens), self.states(slot), slot.n_read, (name,))
            return
        self.context.copy(slot.sequence, target.sequence, 0, len(slot.tokens))
        target.share(slot, len(slot.tokens))
        target.last_used = time.monotonic()
        target.name = name

    def _restore(self, slot: Slot, stored: StoredPrefix) -> bool:
        """Bring a parked sequence back into an empty slot, cells in order; False without room for it.

        The cells stay pinned (shared with a sequence that no request uses) until the next
        batch is in place. llama.cpp looks for free cells from the start of the cache after a
        restore, and takes those of a single sequence that its window no longer reaches; a cold
        read would go on behind them. With pinned cells the order of cells, and with it every
        bit of the sums over them, is that of a cold read.
        """
        for stretch in stored.stretches:
            if not self.context.restore_sequence(self._scratch, stretch.state):
                self._unpin()
                self._empty(slot)
                return False
            for target in (slot.sequence, self._pin):
                self.context.copy(self._scratch, target, -1, -1)
            self._pinned = True
            self.context.remove(self._scratch, -1)
        slot.tokens = list(stored.tokens)
        return True

    def _unpin(self) -> None:
        if self._pinned:
            self.context.remove(self._pin, -1)
            self._pinned = False

    def _make_room(self) -> None:
        """Free cells after llama.cpp found none: idle sequences first, then the youngest running one."""
        idle = [slot for slot in self.slots if slot.owner is None and slot.tokens]
        if idle:
            self._park(min(idle, key=lambda slot: slot.last_used))
            return
        if len(self.running) == 1:
            raise BackendError(
                f"The KV cache ({self.cells:,} cells) is full, though the guard let the request pass."
            )
        youngest = self.running.pop()
        assert youngest.slot is not None
        self._empty(youngest.slot)
        youngest.slot.owner, youngest.slot = None, None
        self.waiting.appendleft(youngest)
        self._crowded = True


def siblings(running: Running, others: Iterable[Running]) -> list[Running]:
    """Return the other samples of the same request."""
    return [o for o in others if o is not running and o.request is running.request]
