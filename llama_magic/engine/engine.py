"""The engine: one thread that owns the llama.cpp contexts of a model and decodes every request."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import deque
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
        self._thread = threading.Thread(target=self._core.run, name="llama_magic engine", daemon=True)
        self._pid = os.getpid()
        self._thread.start()
        # Static, and only a safety net: it must not hold the engine itself.
        self._finalizer = weakref.finalize(self, _shut_down, self._core, self._thread, self._pid)
        try:
            if weights.generates:
                self.call(lambda core: core.lane(exact=False))
        except BaseException:
            self.close()
            raise

    @property
    def closed(self) -> bool:
        return not self._finalizer.alive

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
        """Stop a request now. Its last events say "interrupted". Any thread, any time."""
        self._core.cancel(request)

    def call(self, function: Callable[[Core], T]) -> T:
        """Run `function(core)` between two steps on the engine thread, and return what it returns."""
        box: list[Any] = []
        done = threading.Event()

        def job(core: Core) -> None:
            try:
                box.append((True, function(core)))
            except BaseException as error:
                box.append((False, error))
            finally:
                done.set()

        self._check()
        self._core.post(job, on_drop=done.set)
        while not done.wait(0.1):  # a timeout keeps Ctrl-C working on Windows
            pass
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
        """Cancel running requests, stop the thread, free the contexts."""
        self._finalizer()

    def _check(self) -> None:
        if self.closed:
            raise ModelClosedError("The model was unloaded; load it again to use it.")
        if os.getpid() != self._pid:
            raise BackendError(
                "The model was loaded before this process was forked; its engine thread is not here.",
                remedy="Load the model in the new process, or start it with the 'spawn' method.",
            )


class Core:
    """What the engine thread works on. The only state shared with other threads is the inbox."""

    def __init__(self, weights: Weights, options: EngineOptions) -> None:
        self.weights = weights
        self.options = options
        self.lanes: dict[bool, Lane] = {}
        self.extras: dict[str, Context] = {}  # contexts for other work than generation, by purpose
        self.steps = StepStore(weights.vocab.n_tokens, options.steps_budget)
        self._ahead = Ahead()
        self._inbox: deque[tuple[Callable[[Core], None], Callable[[], None] | None]] = deque()
        self._wake = threading.Condition()
        self._stopping = False

    # --- any thread -----------------------------------------------------------------------

    def post(self, job: Callable[[Core], None], on_drop: Callable[[], None] | None = None) -> None:
        with self._wake:
            if self._stopping:
                raise ModelClosedError("The model was unloaded; load it again to use it.")
            self._inbox.append((job, on_drop))
            self._wake.notify()

    def cancel(self, request: Request) -> None:
        request.cancelled = True
        for lane in list(self.lanes.values()):
            lane.cancel(request)
        with self._wake:
            self._wake.notify()

    def stop(self) -> None:
        with self._wake:
            self._stopping = True
            self._wake.notify()
        for lane in list(self.lanes.values()):
            for running in (*lane.running, *lane.waiting):
                lane.cancel(running.request)

    # --- the engine thread ----------------------------------------------------------------

    def run(self) -> None:
        while True:
            with self._wake:
                while not (self._inbox or self._stopping or self._busy()):
                    self._wake.wait()
                jobs, self._inbox = list(self._inbox), deque()
                stopping = self._stopping
            if stopping:
                self._close(jobs)
                return
            for job, _ in jobs:
                job(self)
            for lane in list(self.lanes.values()):
                if lane.busy:
                    self._step(lane)

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

    def _close(self, jobs: list[tuple[Callable[[Core], None], Callable[[], None] | None]]) -> None:
        for _, on_drop in jobs:
            if on_drop is not None:
                on_drop()
        for lane in self.lanes.values():
            for running in (*lane.running, *lane.waiting):
                running.request.cancelled = True
            lane._reap_cancelled()
            lane.close()
        for context in self.extras.values():
            context.close()
        self._ahead.close()
        self.lanes.clear()
        self.extras.clear()
        self.steps.close()


def _shut_down(core: Core, thread: threading.Thread, pid: int) -> None:
    if os.getpid() != pid:
        return  # a forked child has neither the thread nor a say over its locks
    core.stop()
    if thread is not threading.current_thread():
        thread.join()
