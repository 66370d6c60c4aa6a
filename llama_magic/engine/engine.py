"""The engine of a model: its llama.cpp contexts, worked on by the one thread that computes."""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from llama_magic.engine import compute
from llama_magic.engine.ahead import Ahead
from llama_magic.engine.job import Job
from llama_magic.engine.lanes.exact import CUT, ExactLane
from llama_magic.engine.lanes.lane import HELPER_SEQUENCES, Lane
from llama_magic.engine.lanes.shared import SharedLane
from llama_magic.engine.native import Context, ContextOptions, Weights, release_pool
from llama_magic.engine.steps import StepStore, StepTape
from llama_magic.engine.vocabulary import Vocabulary
from llama_magic.errors import BackendError, ModelClosedError
from llama_magic.request.backend import Capabilities
from llama_magic.request.events import Event, FinishEvent
from llama_magic.request.request import Request
from llama_magic.threads import Latch, may_wait

T = TypeVar("T")
SHARED_SEQUENCES = 16  # requests decoded together
EXACT_SEQUENCES = 8  # samples of one request decoded together


@dataclass(frozen=True)
class EngineOptions:
    """`context` describes a context of the full window; budgets are bytes of host memory.

    `before_exact` is called before the exact lane's context is made, and may raise to refuse it.
    `store_budget` is for parked sequences, `steps_budget` for the logits of the latest steps.
    """

    context: ContextOptions
    store_budget: int = 512 * 2**20
    steps_budget: int = 64 * 2**20
    shared_sequences: int = SHARED_SEQUENCES
    before_exact: Callable[[], None] | None = None


class Engine:
    """llama.cpp in this process, as a `Backend`. Takes requests from any thread; `close()` is idempotent."""

    capabilities = Capabilities()

    def __init__(self, weights: Weights, options: EngineOptions, tokenizer: Vocabulary) -> None:
        self.tokenizer = tokenizer
        self._side_lock = threading.Lock()
        self._side_thread = 0  # that holds it
        self._core = Core(weights, options)
        self._pid = os.getpid()
        # Only a safety net: it holds the core, not the engine, and runs on any thread, so it must not wait.
        weakref.finalize(self, self._core.stop).atexit = False
        _live.add(self._core)
        try:
            compute.shared().add(self._core)
            if weights.generates:
                self.call(lambda core: core.lane(exact=False))
        except BaseException:
            self.close()
            raise

    @property
    def closed(self) -> bool:
        return self._core.stopping

    @property
    def weights(self) -> Weights:
        return self._core.weights

    @property
    def options(self) -> EngineOptions:
        return self._core.options

    @property
    def local(self) -> Engine:
        """The engine itself: what only llama.cpp in this process can do is asked of it."""
        return self

    def submit(self, request: Request, sink: Callable[[Event], None]) -> None:
        """Queue a request; its events go to `sink`, which the engine thread calls and must not block."""
        self._check()
        release_pool()  # of the caller, who waits now: while it is there, nobody may spin
        job = request.handle = Job.of(request, sink)
        refusal = ModelClosedError("The model was closed meanwhile.")
        self._core.post(lambda core: core.accept(job), on_drop=lambda: job.finish(refusal))

    def cancel(self, request: Request) -> None:
        """Stop a request now; its last events say "interrupted". Any thread, any time: takes no lock."""
        if request.handle is not None:
            self._core.cancel(request.handle)

    def settle(self, request: Request) -> None:
        """Let a cancelled request end now, though another model may be computing; never waits."""
        job = request.handle
        if job is not None and not job.closed:
            _aside(self._core.settle, job)

    def call(self, function: Callable[[Core], T]) -> T:
        """Run `function(core)` between two steps on the compute thread, and return what it returns."""
        box: list[Any] = []
        done = Latch()

        def job(core: Core) -> None:
            try:
                box.append((True, function(core)))
            except BaseException as error:
                box.append((False, error))
            finally:
                done.set()

        self._check()
        if not may_wait():
            raise BackendError(
                "This call came from a thread that the engine needs (a finalizer can run there), and would "
                "wait for itself.",
                remedy="Ask a model only from your own code, not from __del__ or from a finalizer.",
            )
        release_pool()
        self._core.post(job, on_drop=done.set)
        done.wait_long()
        if not box:
            raise ModelClosedError("The model was closed meanwhile.")
        succeeded, value = box[0]
        if not succeeded:
            if self.closed:  # and stopped because of that
                raise ModelClosedError("The model was closed meanwhile.") from value
            raise value
        return value  # type: ignore[no-any-return]

    def later(self, function: Callable[[Core], None]) -> None:
        """Run `function(core)` on the compute thread, after what was asked before; do not wait for it.

        Nothing is run, and nothing said, where the model is closed first.
        """
        with contextlib.suppress(ModelClosedError):
            self._core.post(function)

    def exact_buffers(self) -> dict[str, int]:
        """Return the bytes by kind of the context for seeded requests, none before the first of them."""
        lane = self._core.lanes.get(True)
        return {} if lane is None else dict(lane.context.buffers)

    def abort(self, purpose: str) -> None:
        """Make the context for other work than generation stop what it computes. Any thread."""
        context = self._core.extras.get(purpose)
        if context is not None:
            context.abort()

    @contextlib.contextmanager
    def side_job(self, what: str) -> Iterator[None]:
        """Hold what side contexts have one of, for one caller at a time."""
        if self._side_thread == threading.get_ident() or not may_wait():
            raise BackendError(f"A finalizer asked to {what} in the middle of other work of this model.")
        with self._side_lock:
            self._side_thread = threading.get_ident()
            try:
                yield
            finally:
                self._side_thread = 0

    def close(self) -> None:
        """Cancel running requests, free the contexts. Waits for nothing that another model computes.

        Returns when that is done; at once on a thread of ours, where a finalizer may run.
        """
        self.stop()
        if not self.forked:
            _aside(self._core.close)
            if may_wait() and not self._core.mine:
                self._core.ended.wait_long()

    def stop(self) -> None:
        """Begin to close; wait for nothing."""
        self._core.stop()

    @property
    def forked(self) -> bool:
        """Whether this is a forked child, where the thread that computes is not."""
        return os.getpid() != self._pid

    def _check(self) -> None:
        if self.closed:
            raise ModelClosedError("The model was unloaded; load it again to use it.")
        if self.forked:
            raise BackendError(
                "The model was loaded before this process was forked; the thread that computes is not here.",
                remedy="Load the model in the new process, or start it with the 'spawn' method.",
            )
        self._core.weights.check_files()


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
        self.lanes: dict[bool, Lane] = {}
        self.extras: dict[str, Context] = {}  # contexts for other work than generation, by purpose
        self.steps = StepStore(weights.vocab.n_tokens, options.steps_budget)
        self.ended = Latch()
        self._ahead = Ahead()
        self._inbox: deque[tuple[Callable[[Core], None], Callable[[], None] | None]] = deque()
        self._at_work = threading.Lock()
        self._worker = 0  # the thread that holds it
        self.stopping = False

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
        for lane in list(self.lanes.values()):
            lane.cancel(job)
        compute.shared().wake()

    def settle(self, job: Job) -> None:
        """End a cancelled job here, unless somebody is at work, who will."""
        if not self._enter():
            return
        try:
            if self._has(job):
                for lane in self.lanes.values():
                    lane.reap_cancelled()
            elif not job.closed:  # it is still in the inbox
                for index in range(job.n):
                    job.sink(FinishEvent(index, "interrupted"))
                job.finish()
        finally:
            self._leave()

    def stop(self) -> None:
        """Ask for the end; `close` or the next turn brings it."""
        self.stopping = True
        for lane in list(self.lanes.values()):
            lane.halt()
        for context in list(self.extras.values()):
            context.abort()
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
        """Do what was asked, then one step in each lane; say whether there is more to do."""
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
        company = compute.shared().busy_beside(self)
        for lane in list(self.lanes.values()):
            if lane.busy:
                lane.company = company
                self._step(lane)

    def _busy(self) -> bool:
        return any(lane.busy for lane in self.lanes.values())

    def _has(self, job: Job) -> bool:
        lanes = self.lanes.values()
        return any(r.request is job for lane in lanes for r in (*lane.running, *lane.waiting))

    def _step(self, lane: Lane) -> None:
        try:
            lane.step()
        except BaseException as error:
            lane.fail(error)

    def _fail(self, error: BaseException) -> None:
        """End every request after an error that belongs to none."""
        for lane in self.lanes.values():
            with contextlib.suppress(BaseException):
                lane.fail(error)
            lane.running.clear()
            lane.waiting.clear()

    def accept(self, job: Job) -> None:
        """Queue a job in its lane."""
        if job.closed:
            return  # cancelled, and ended, before it came here
        job.tapes = tuple(StepTape(self.steps) for _ in range(job.n))
        try:
            self.lane(exact=job.exact).submit(job)
        except BaseException as error:
            job.finish(error)

    def lane(self, *, exact: bool) -> Lane:
        """Return the lane for exact or shared requests, made on first use."""
        if exact not in self.lanes:
            self.weights.must_generate()
            options = self.options.context
            if exact:
                if self.options.before_exact is not None:
                    self.options.before_exact()
                context = replace(
                    options, sequences=EXACT_SEQUENCES + HELPER_SEQUENCES, batch=CUT, ubatch=CUT
                )
                self.lanes[exact] = ExactLane(self.weights, context, self.options.store_budget, self._ahead)
            else:
                context = replace(options, sequences=self.options.shared_sequences + HELPER_SEQUENCES)
                self.lanes[exact] = SharedLane(self.weights, context, self.options.store_budget, self._ahead)
        return self.lanes[exact]

    def _close(self) -> None:
        """Free everything. Whatever fails, the rest is freed and the end is told: others wait for it."""
        closing: tuple[Any, ...] = (*self.lanes.values(), *self.extras.values(), self._ahead, self.steps)
        for part in closing:
            with contextlib.suppress(BaseException):
                part.close()
        self.lanes.clear()
        self.extras.clear()
        compute.shared().remove(self)
        _live.discard(self)
        self.ended.set()
        self._drop_jobs()

    def _drop_jobs(self) -> None:
        while self._inbox:
            with contextlib.suppress(IndexError):  # another thread drops them, too
                _, on_drop = self._inbox.popleft()
                if on_drop is not None:
                    with contextlib.suppress(Exception):  # the sink of a request that never began
                        on_drop()


def _aside(work: Callable[..., None], *arguments: Any) -> None:
    """Run `work` on a thread of its own: a Ctrl-C in the middle of it would leave the lanes half done."""
    with contextlib.suppress(RuntimeError):  # the interpreter ends: the next turn does it
        _thread.start_new_thread(work, arguments)


_live: set[Core] = set()
os.register_at_fork(after_in_child=_live.clear)


@atexit.register
def _end_all() -> None:
    """End every engine before the process takes llama.cpp down under it."""
    cores = list(_live)
    for core in cores:
        core.stop()
        _aside(core.close)
    for core in cores:
        core.ended.wait_long()
