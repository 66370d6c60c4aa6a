"""A lane: one llama.cpp context and the samples that are decoded in it, a batch a step.

Three kinds share this mechanism. `SharedLane` decodes every job together and reuses whatever prefix it
holds. `ExactLane` serves one job at a time, `TogetherLane` many where rows are alike; both reuse only what
is bit for bit that of a cold read (CONTRIBUTING).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from llama_magic.engine.ahead import Ahead
from llama_magic.engine.job import Job
from llama_magic.engine.kv.cells import Cells
from llama_magic.engine.kv.reuse import checkpoints
from llama_magic.engine.kv.slots import Slot, cells_used
from llama_magic.engine.kv.store import PrefixStore
from llama_magic.engine.lanes import drafting
from llama_magic.engine.lanes.batch import Batch
from llama_magic.engine.lanes.composing import compose, following
from llama_magic.engine.lanes.draft_model import DraftModel
from llama_magic.engine.lanes.flight import Flights
from llama_magic.engine.lanes.logits import NoLogitsError
from llama_magic.engine.lanes.running import Running, siblings
from llama_magic.engine.native import Context, DecodeStatus
from llama_magic.errors import BackendError
from llama_magic.threads import gathered

# Prompt tokens read in one step. 512 are 0 to 3 % faster, and progress shows between steps.
READ_CHUNK = 256


class Lane:
    """Decode jobs in one context. Called by the compute thread only, but for `cancel()` and `halt()`.

    `kv` acts on the cells; admission, the order of work and what is given up are decided here.
    """

    cut = 0  # see `Cells`
    apart = read_last = False  # see `Composing`
    together = False  # whether seeded jobs are decoded together: their cells are then of other bits

    def __init__(self, context: Context, store_budget: int, ahead: Ahead) -> None:
        self.context, self.weights, self.cells = context, context.weights, context.n_ctx
        self.kv = self._made_cells(PrefixStore(store_budget, recurrent=self.weights.recurrent))
        self._crowded = False  # a sample was sent back for want of cells, and none has ended since
        self._spoiled = False  # cells may hold what is no number: who runs ends, then all is forgotten
        self._ahead = ahead
        self.waiting: deque[Running] = deque()
        self.running: list[Running] = []
        self.rows = drafting.rows(context)  # of a batch with guesses, at most
        self.draft_model: DraftModel | None = None
        self.company = False  # whether another model is at work, too
        self.last: Job | None = None  # the last job that ended
        self.read_tokens, self.read_s = 0, 0.0  # prompt tokens read since the start, and the time it took
        self._flights = Flights(context)

    def _made_cells(self, store: PrefixStore) -> Cells:
        sequences = self.context.options.sequences
        return Cells(self.context, sequences, store, window=self.weights.n_swa, cut=self.cut)

    # --- what the engine asks -------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.running)

    @property
    def samples(self) -> list[Running]:
        """The samples that run and those that wait."""
        return [*self.running, *self.waiting]

    def has(self, job: Job) -> bool:
        """Whether a sample of `job` runs or waits here."""
        return any(running.job is job for running in self.samples)

    def submit(self, job: Job) -> None:
        """Queue the samples of a job."""
        for index in range(job.request.n):
            self.waiting.append(Running(job, index, self.weights))

    def cancel(self, job: Job) -> None:
        """Stop a job: at the next step, or now if it is being decoded. Any thread."""
        job.cancelled = True
        self._flights.cancel(job)

    def halt(self) -> None:
        """Stop what is being decoded, for good. Any thread."""
        self._flights.halt()

    def step(self, quiet: Callable[[], bool] = bool) -> None:
        """Admit what fits, decode a batch, draw a token for each sequence that is through its prompt.

        While it is `quiet` and nobody ends, go on: each batch is then the one before, a token further.
        """
        self.reap_cancelled()
        # Who was sent back waits until another has ended: admitted at once it would be sent back at once.
        if self._spoiled and not self.running:
            self.kv.reset()
            self._spoiled = False
        if self.waiting and not ((self._crowded or self._spoiled) and self.running):
            self._admit()
            self._retire()  # a constraint may have failed to open
        if self.running:
            self._go_on(quiet)
            self.reap_cancelled()

    def _go_on(self, quiet: Callable[[], bool]) -> None:
        batch = compose(self)
        self._flights.take_off(batch.jobs)
        while (status := self._decode(batch)) is DecodeStatus.DONE:
            with gathered:
                self._harvest(batch)
            follows = following(self, batch) if quiet() else None
            if follows is None:
                return
            batch = follows
        if status is DecodeStatus.NO_CELLS:
            self._make_room()

    def fail(self, error: BaseException) -> None:
        """End every job with `error` and forget the cache, whose state is unknown."""
        jobs = {running.job for running in self.samples}
        for running in self.samples:
            running.drop()
        self.running.clear()
        self.waiting.clear()
        self._crowded = False
        self.kv.reset()
        for job in jobs:
            job.finish(error)

    def forget(self) -> None:
        """Drop every sequence that no job is using, in cells and in host memory."""
        self.kv.forget()

    def close(self) -> None:
        """End every job as interrupted, and free the context."""
        for running in self.samples:
            running.job.cancelled = True
        try:
            self.reap_cancelled()
        finally:
            self.context.close()

    # --- one step -------------------------------------------------------------------------

    def may_guess(self, running: Running) -> bool:
        """Whether its tokens are those of plain decoding, or need not be, where some are guessed ahead."""
        return self.together

    def chunk(self, running: Running) -> int:
        """Return how many tokens of a prompt to read next."""
        return int(min(self.context.n_batch, READ_CHUNK, running.to_checkpoint))

    def begins(self, running: Running) -> bool:
        return True  # whatever else is in a batch

    def _decode(self, batch: Batch) -> DecodeStatus:
        if not self.kv.lay(len(batch.tokens)):
            return DecodeStatus.NO_CELLS
        if batch.matchers:
            self._ahead.start(batch.matchers)
        try:
            status = self.context.decode(batch.tokens, batch.positions, batch.sequences, batch.outputs)
        finally:
            if batch.matchers:
                self._ahead.wait()
            if self.kv.pinned:
                self.kv.unpin()
        if status is DecodeStatus.ABORTED:
            # Whole ubatches may have been written: go back to what was known before. (Where no
            # cells were found nothing was written: llama.cpp looks for all of them first.)
            for running, *_ in batch.parts:
                assert running.slot is not None
                self.kv.roll_back(running.slot)
        return status

    def _harvest(self, batch: Batch) -> None:
        index = -1
        for running, part, guesses in batch.parts:
            slot = running.slot
            assert slot is not None
            index += len(part)
            if len(slot.tokens) < running.n_prompt:
                batch.read = True
                self._note_read(running, slot, part)
            else:
                slot.tokens += part
            if len(slot.tokens) == len(running.tokens) and not running.job.cancelled:
                try:
                    running.advance(self.context, index)
                    if guesses:
                        drafting.verify(self, running, guesses, index)
                except Exception as error:  # a constraint or the logits failed: the others go on
                    self._spoiled = self._spoiled or isinstance(error, NoLogitsError)
                    self._fail_job(running.job, error)
            index += len(guesses)

    def _note_read(self, running: Running, slot: Slot, part: list[int]) -> None:
        slot.extend(part, running.n_prompt)
        if len(slot.tokens) in running.checkpoints:
            self.kv.keep_copy(slot)
        running.report_prompt()
        if not running.reading and running.index == 0:
            stats = running.job.stats
            stats.prompt_done = time.perf_counter()
            self.read_tokens += running.n_prompt - stats.cached_tokens
            self.read_s += stats.prompt_done - stats.started

    def _fail_job(self, job: Job, error: BaseException) -> None:
        for running in self.samples:
            if running.job is job:
                running.drop()
        self.waiting = deque(r for r in self.waiting if r.job is not job)
        job.finish(error)

    # --- jobs that end --------------------------------------------------------------------

    def reap_cancelled(self) -> None:
        """End what was cancelled, and let go of what is done."""
        ended = False
        for running in self.running:
            if running.job.cancelled and not running.done:
                running.finish("interrupted")
            ended = ended or running.done
        if self.waiting:
            self._reap_waiting()
        if ended:
            self._retire()

    def _reap_waiting(self) -> None:
        for running in self.waiting:
            if running.job.cancelled and not running.done:
                running.finish("interrupted")
        if gone := [r for r in self.waiting if r.done]:
            self.waiting = deque(r for r in self.waiting if not r.done)
            for running in gone:
                self._close_if_last(running.job)

    def _retire(self) -> None:
        for running in [r for r in self.running if r.done]:
            self._crowded = False
            self.running.remove(running)
            slot = running.slot
            assert slot is not None
            slot.leave()
            self._close_if_last(running.job)

    def _close_if_last(self, job: Job) -> None:
        if not self.has(job):
            self.last = job
            job.finish()

    # --- who comes in, and who must go ----------------------------------------------------

    def _admit(self) -> None:
        raise NotImplementedError

    def _start(self, running: Running, slot: Slot, cached: int) -> None:
        slot.in_use, slot.kept = True, running.request.keep
        running.slot = slot
        if self.weights.recurrent and running.request.reuse:
            others = (other.request.prompt for other in self.waiting if other.job is not running.job)
            running.checkpoints = checkpoints(running.request.prompt, running.job.common, others)
        self.running.append(running)
        stats = running.job.stats
        stats.started = stats.started or time.perf_counter()
        try:
            running.open()
        except Exception as error:
            self._fail_job(running.job, error)
            return
        running.report_prompt(cached)

    def fits(self, running: Running) -> bool:
        """Whether a sample has its cells to the end beside those that run, which have theirs."""
        if not self.weights.attends:
            return True  # a recurrent state for each sequence, and no cells
        held = cells_used(r.slot for r in self.running if r.slot is not None)
        held += sum(r.n_most - r.n_past for r in self.running)  # are to come
        # A running sample of the job lends its cells of the prompt; a recurrent state none.
        lent = not self.weights.recurrent and (self.cut or running.request.reuse)
        shared = lent and any(not other.reading for other in siblings(running, self.running))
        return held + running.n_most - (running.n_prompt - 1 if shared else 0) <= self.cells

    def _make_room(self) -> None:
        """Free cells after llama.cpp found none: idle sequences first, then the youngest running one."""
        if self.kv.evict():
            return
        if len(self.running) == 1:
            raise BackendError(f"The KV cache ({self.cells:,} cells) is full, though the guard let it pass.")
        youngest = self.running.pop()
        assert youngest.slot is not None
        self.kv.empty(youngest.slot)
        youngest.slot.in_use, youngest.slot = False, None
        self.waiting.appendleft(youngest)
        self._crowded = True
