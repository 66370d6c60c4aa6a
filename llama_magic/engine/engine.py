"""The engine: one thread that owns the llama.cpp contexts of a model and decodes every request."""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from llama_magic.engine.ahead import Ahead
from llama_magic.engine.exact_lane import CUT, ExactLane
from llama_magic.engine.lane import HELPER_SEQUENCES, Lane
from llama_magic.engine.native import Context, ContextOptions, Weights
from llama_magic.engine.request import Request
from llama_magic.engine.shared_lane import SharedLane
from llama_magic.engine.steps import StepStore, StepTape
from llama_magic.errors import BackendError, ModelClosedError
from llama_magic.waiting import Latch, may_wait, start_thread

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
    """Accept requests from any thread. `close()` cancels what runs, and is idempotent."""

    def __init__(self, weights: Weights, options: EngineOptions) -> None:
        self._core = Core(weights, options)
        self._pid = os.getpid()
        start_thread(self._core.run, "llama_magic engine")
        # Only a safety net: it holds the core, not the engine, and runs on any thread, so it must not wait.
        weakref.finalize(self, self._core.stop).atexit = False
        try:
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

    def submit(self, request: Request) -> None:
        """Queue a request; its events go to `request.sink`."""
        self._check()
        refusal = ModelClosedError("The model was closed meanwhile.")
        self._core.post(lambda core: core.accept(request), on_drop=lambda: request.finish(refusal))

    def cancel(self, request: Request) -> None:
        """Stop a request now; its last events say "interrupted". Any thread, any time: takes no lock."""
        self._core.cancel(request)

    def wait(self, ended: Latch) -> None:
        """Wait for something that the engine does."""
        self._check_waiting()
        ended.wait_long()

    def _check_waiting(self) -> None:
        if not may_wait():
            raise BackendError(
                "This call came from a thread that the engine needs (a finalizer can run there), and would "
                "wait for itself.",
                remedy="Ask a model only from your own code, not from __del__ or from a finalizer.",
            )

    def call(self, function: Callable[[Core], T]) -> T:
        """Run `function(core)` between two steps on the engine thread, and return what it returns."""
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
        self._check_waiting()
        self._core.post(job, on_drop=done.set)
        self.wait(done)
        if not box:
            raise ModelClosedError("The model was closed meanwhile.")
        succeeded, value = box[0]
        if not succeeded:
            raise value
        return value  # type: ignore[no-any-return]

    def later(self, function: Callable[[Core], None]) -> None:
        """Run `function(core)` on the engine thread, after what was asked before; do not wait for it.

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

    def close(self) -> None:
        """Cancel running requests, stop the thread, free the contexts.

        Returns when that is done; on a thread of ours (a finalizer may run there) at once.
        """
        self.stop()
        if not self.forked and may_wait():
            self._core.ended.wait_long()

    def stop(self) -> None:
        """Begin to close; wait for nothing."""
        self._core.stop()

    @property
    def forked(self) -> bool:
        """Whether this is a forked child, where the engine's thread is not."""
        return os.getpid() != self._pid

    def _check(self) -> None:
        if self.closed:
            raise ModelClosedError("The model was unloaded; load it again to use it.")
        if self.forked:
            raise BackendError(
                "The model was loaded before this process was forked; its engine thread is not here.",
                remedy="Load the model in the new process, or start it with the 'spawn' method.",
            )


class Core:
    """What the engine thread works on. The only state shared with other threads is the inbox and flags.

    Finalizers call `cancel` and `stop`, on any thread at any moment, this one inside of `get` included:
    so the inbox is a `SimpleQueue`, whose `put` may interrupt itself, and there is no lock.
    """

    def __init__(self, weights: Weights, options: EngineOptions) -> None:
        self.weights = weights
        self.options = options
        self.lanes: dict[bool, Lane] = {}
        self.extras: dict[str, Context] = {}  # contexts for other work than generation, by purpose
        self.steps = StepStore(weights.vocab.n_tokens, options.steps_budget)
        self.stopping = False
        self.ended = Latch()
        self._ahead = Ahead()
        self._inbox: queue.SimpleQueue[tuple[Callable[[Core], None], Callable[[], None] | None]]
        self._inbox = queue.SimpleQueue()

    # --- any thread -----------------------------------------------------------------------

    def post(self, job: Callable[[Core], None], on_drop: Callable[[], None] | None = None) -> None:
        if self.stopping:
            raise ModelClosedError("The model was unloaded; load it again to use it.")
        self._inbox.put((job, on_drop))
        if self.ended.is_set():  # meanwhile: nobody else looks there any more
            self._drop_jobs()

    def cancel(self, request: Request) -> None:
        request.cancelled = True  # a lane that has it is at work, and looks before its next step
        for lane in list(self.lanes.values()):
            lane.cancel(request)

    def stop(self) -> None:
        self.stopping = True
        for lane in list(self.lanes.values()):
            lane.halt()
        self._inbox.put((lambda _core: None, None))  # wakes it

    # --- the engine thread ----------------------------------------------------------------

    def run(self) -> None:
        _live.add(self)
        try:
            while not self.stopping:
                self._work_off()
                for lane in list(self.lanes.values()):
                    if lane.busy:
                        self._step(lane)
        finally:
            try:
                self._close()
            finally:
                self.ended.set()
                self._drop_jobs()
                _live.discard(self)

    def _work_off(self) -> None:
        """Do what was asked until now; wait for something where no lane has work."""
        for _ in range(self._inbox.qsize() or not self._busy()):
            job, on_drop = self._inbox.get()
            if self.stopping:
                _drop(on_drop)
                continue
            with contextlib.suppress(Exception):  # of `later`: nobody waits for it
                job(self)

    def _drop_jobs(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                _drop(self._inbox.get_nowait()[1])

    def _busy(self) -> bool:
        return any(lane.busy for lane in self.lanes.values())

    def _step(self, lane: Lane) -> None:
        try:
            lane.step()
        except BaseException as error:
            lane.fail(error)

    def accept(self, request: Request) -> None:
        """Queue a request in its lane."""
        request.tapes = tuple(StepTape(self.steps) for _ in range(request.n))
        try:
            self.lane(exact=request.exact).submit(request)
        except BaseException as error:
            request.finish(error)

    def lane(self, *, exact: bool) -> Lane:
        """Return the lane for exact or shared requests, made on first use."""
        if exact not in self.lanes:
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
        for lane in self.lanes.values():
            lane.close()
        for context in self.extras.values():
            context.close()
        self._ahead.close()
        self.lanes.clear()
        self.extras.clear()
        self.steps.close()


def _drop(on_drop: Callable[[], None] | None) -> None:
    if on_drop is not None:
        with contextlib.suppress(Exception):  # the sink of a request that never began
            on_drop()


_live: set[Core] = set()
os.register_at_fork(after_in_child=_live.clear)


@atexit.register
def _end_all() -> None:
    """Stop every engine before the process takes llama.cpp down under it."""
    cores = list(_live)
    for core in cores:
        core.stop()
    for core in cores:
        core.ended.wait_long()
