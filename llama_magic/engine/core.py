"""What the compute thread works on for one engine: its lanes, its side contexts, what it is asked."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from llama_magic.engine import compute
from llama_magic.engine.ahead import Ahead
from llama_magic.engine.contexts import Contexts
from llama_magic.engine.job import Job
from llama_magic.engine.lanes.draft_model import DraftModel, DraftOptions
from llama_magic.engine.lanes.exact import ExactLane
from llama_magic.engine.lanes.lane import Lane
from llama_magic.engine.lanes.lanes import Lanes
from llama_magic.engine.lanes.shared import SharedLane
from llama_magic.engine.lanes.together import TogetherLane
from llama_magic.engine.native import Context, ContextOptions, Weights, rows_alike
from llama_magic.engine.row_trials import RowTrials
from llama_magic.engine.steps import StepStore, StepTape
from llama_magic.errors import BackendError, FitError, ModelClosedError
from llama_magic.request.events import FinishEvent
from llama_magic.threads import Latch, at_fork

live: set[Core] = set()  # those that are not closed yet
at_fork(live.clear)


@dataclass(frozen=True)
class EngineOptions:
    """`context` describes a context of the full window; budgets are bytes of host memory.

    The contexts that an engine makes are derived from it (`contexts`).

    What is in `before` is called before the context of that name is made, and may raise to refuse it.
    `store_budget` is for parked sequences, `steps_budget` for the logits of the latest steps. `draft` is a
    model that guesses tokens. `trials` knows what was found before of whether rows are alike.
    """

    context: ContextOptions
    store_budget: int = 512 * 2**20
    steps_budget: int = 64 * 2**20
    before: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    draft: DraftOptions | None = None
    trials: RowTrials = field(default_factory=RowTrials)

    @property
    def contexts(self) -> Contexts:
        """The parameters of every context that an engine with these options makes."""
        return Contexts(self.context)


class Core:
    """What the compute thread works on, a turn at a time.

    One thread at a time works on the lanes: the compute thread for a turn, or whoever closes the
    model or ends a cancelled request meanwhile. Nobody waits for that: a thread that finds another
    at work leaves word (`stopping`, the inbox), and who is at work looks again before it goes.

    Finalizers call `cancel` and `stop`, on any thread at any moment: they append to a deque, set flags
    and ring a bell, and take no lock.
    """

    def __init__(self, weights: Weights, options: EngineOptions) -> None:
        self.weights = weights
        self.options = options
        self.lanes = Lanes()
        self.side: dict[str, Context] = {}  # contexts for other work than generation, by purpose
        self.steps = StepStore(weights.vocab.n_tokens, options.steps_budget)
        self.ended = Latch()
        self._ahead = Ahead()
        self._inbox: deque[tuple[Callable[[Core], None], Callable[[], None] | None]] = deque()
        self._at_work = threading.Lock()
        self._worker = 0  # the thread that holds it
        self.stopping = False
        self._alike: bool | None = None
        self._no_room = False  # for the exact lane's context
        self.draft_model: DraftModel | None = None

    # --- any thread -----------------------------------------------------------------------

    def post(self, job: Callable[[Core], None], on_drop: Callable[[], None] | None = None) -> None:
        """Queue a job; `on_drop` is called where the model is closed before it is run."""
        if self.stopping:
            raise ModelClosedError("The model was unloaded; load it again to use it.")
        self._inbox.append((job, on_drop))
        if self.ended.is_set():  # closed since the first look
            self._drop_jobs()
        compute.shared().wake()

    def cancel(self, job: Job) -> None:
        job.cancelled = True
        for lane in self.lanes:
            lane.cancel(job)
        compute.shared().wake()

    def settle(self, job: Job) -> None:
        """End a cancelled job here, unless somebody is at work, who will."""
        if not self._enter():
            return
        try:
            if self._has(job):
                for lane in self.lanes:
                    lane.reap_cancelled()
            elif not job.closed:  # it is still in the inbox
                for index in range(job.request.n):
                    job.sink(FinishEvent(index, "interrupted"))
                job.finish()
        finally:
            self._leave()

    def stop(self) -> None:
        """Ask for the end; `close` or the next turn brings it."""
        self.stopping = True
        for lane in self.lanes:
            lane.halt()
        for context in list(self.side.values()):
            context.abort()
        draft_model = self.draft_model  # who closes takes it away meanwhile
        if draft_model is not None:
            draft_model.abort()
        compute.shared().wake()

    def close(self) -> None:
        """End now, or as soon as the thread at work looks up; idempotent, waits for nobody."""
        self.stopping = True
        if self._enter():
            self._leave()

    @property
    def mine(self) -> bool:
        """Whether the calling thread is the one at work here."""
        return self._worker == threading.get_ident()

    # --- whoever is at work ---------------------------------------------------------------

    def turn(self) -> bool:
        """Do what was asked, then one step in each lane, or several; say whether there is more to do."""
        if not self._enter():
            return False  # who is at work rings when done
        more = False
        try:
            if not self.stopping:
                self._work()
                more = bool(self._inbox) or self._busy()  # not later: others may close the lanes then
        except BaseException as error:
            # Whatever it is, the other models go on.
            self._fail(error)
        finally:
            self._leave()
        return more

    def _enter(self) -> bool:
        """Begin to work on the lanes; False where somebody else does."""
        if not self._at_work.acquire(blocking=False):
            return False
        self._worker = threading.get_ident()
        return True

    def _leave(self) -> None:
        while True:
            if self.stopping and not self.ended.is_set():
                self._close()
            self._worker = 0
            self._at_work.release()
            # Asked to stop between the look and the release? Then nobody else closes.
            if not self.stopping or self.ended.is_set() or not self._enter():
                break
        if not compute.shared().here:
            compute.shared().wake()  # the compute thread may have found the door closed

    def _work(self) -> None:
        while self._inbox and not self.stopping:
            job, _ = self._inbox.popleft()
            with contextlib.suppress(Exception):  # of `later`: nobody waits for it
                job(self)
        shared = compute.shared()
        company = shared.busy_beside(self)
        busy = [lane for lane in self.lanes if lane.busy]
        for lane in busy:
            lane.company = company
            self._step(lane)
        # A lane that has no other beside it goes on until somebody asks for something, who rings.
        while len(busy) == 1 and shared.may_go_on(self) and busy[0].busy and not self.stopping:
            self._step(busy[0], shared.quiet)

    def _busy(self) -> bool:
        return any(lane.busy for lane in self.lanes)

    def _has(self, job: Job) -> bool:
        return any(lane.has(job) for lane in self.lanes)

    def _step(self, lane: Lane, quiet: Callable[[], bool] = bool) -> None:
        try:
            lane.step(quiet)
        except BaseException as error:
            lane.fail(error)

    def _fail(self, error: BaseException) -> None:
        """End every request after an error that belongs to none."""
        for lane in self.lanes:
            with contextlib.suppress(BaseException):
                lane.fail(error)
            lane.running.clear()
            lane.waiting.clear()

    def accept(self, job: Job) -> None:
        """Queue a job in its lane."""
        if job.closed:
            return  # cancelled, and ended, before it came here
        job.tapes = tuple(StepTape(self.steps) for _ in range(job.request.n))
        try:
            self.lane(exact=job.request.exact or (job.request.certain and self._settles())).submit(job)
        except BaseException as error:
            job.finish(error)

    def lane(self, *, exact: bool) -> Lane:
        """Return the lane for exact or shared jobs, made on first use."""
        return self._exact() if exact else self._shared()

    def _settles(self) -> bool:
        """Whether jobs at temperature 0 go to the exact lane: rows are alike, and there is memory for it.

        Of other weights they would be decoded one at a time, and what they wrote be read again.
        """
        if self._no_room or not self.alike():
            return False
        try:
            self._exact()
        except (BackendError, FitError):
            self._no_room = True
        return not self._no_room

    def _shared(self) -> SharedLane:
        if self.lanes.shared is None:
            self.weights.must_generate()
            # Before the context, which may fail: a close frees it in any case.
            if self.options.draft is not None and self.draft_model is None:
                self.draft_model = DraftModel(self.options.draft, self.weights.size_bytes)
            context = Context(self.weights, self.options.contexts.shared)
            reader = None if self.weights.options.gpu_layers else lambda: self._made("prompt_reader")
            self.lanes.shared = SharedLane(context, self.options.store_budget, self._ahead, reader)
            self.lanes.shared.draft_model = self.draft_model
        return self.lanes.shared

    def _made(self, name: str) -> Context:
        self.options.before.get(name, lambda: None)()
        return Context(self.weights, getattr(self.options.contexts, name))

    def alike(self) -> bool:
        """Whether a row has the same bits beside any others, computed row by row; tried once."""
        if self.lanes.exact is not None:
            return self.lanes.exact.together
        if self._alike is None:
            options = self.options.contexts.trial
            self._alike = self.options.trials.tried(
                options, lambda: Context(self.weights, options), rows_alike
            )
        return self._alike

    def _exact(self) -> Lane:
        if self.lanes.exact is None:
            self.weights.must_generate()
            context = self._made("exact")
            try:
                alike = self.options.trials.alike(context, self.options.contexts.trial, rows_alike)
                kind = TogetherLane if alike else ExactLane
            except BaseException:
                context.close()
                raise
            self.lanes.exact = kind(context, self.options.store_budget, self._ahead)
            self.lanes.exact.draft_model = self.draft_model
        return self.lanes.exact

    def _close(self) -> None:
        """Free everything. Whatever fails, the rest is freed and the end is told: others wait for it."""
        lanes, side = tuple(self.lanes), tuple(self.side.values())
        closing: tuple[Any, ...] = (*lanes, *side, self.draft_model, self._ahead, self.steps)
        for part in filter(None, closing):
            with contextlib.suppress(BaseException):
                part.close()
        self.lanes.clear()
        self.side.clear()
        self.draft_model = None
        compute.shared().remove(self)
        live.discard(self)
        self.ended.set()
        self._drop_jobs()

    def _drop_jobs(self) -> None:
        while self._inbox:
            with contextlib.suppress(IndexError):  # another thread drops them, too
                _, on_drop = self._inbox.popleft()
                if on_drop is not None:
                    with contextlib.suppress(Exception):  # the sink of a request that never began
                        on_drop()
