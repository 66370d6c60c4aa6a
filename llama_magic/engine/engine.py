"""The engine of a model: its llama.cpp contexts, worked on by the one thread that computes."""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from llama_magic.engine import compute
from llama_magic.engine.core import Core, EngineOptions, live
from llama_magic.engine.job import Job
from llama_magic.engine.native import Weights, release_pool
from llama_magic.engine.steps import StepStore
from llama_magic.engine.vocabulary import Vocabulary
from llama_magic.errors import BackendError, ModelClosedError
from llama_magic.request.backend import Capabilities, check_waiting
from llama_magic.request.events import Event
from llama_magic.request.request import Request
from llama_magic.starts import launch
from llama_magic.threads import Latch, held, may_wait
from llama_magic.weakly import when_gone

T = TypeVar("T")
_BEGINS = 0.002  # seconds in which the compute thread is at what it was asked for


class Engine:
    """llama.cpp in this process, as a `Backend`. Takes requests from any thread; `close()` is idempotent."""

    capabilities = Capabilities()

    def __init__(
        self,
        weights: Weights,
        options: EngineOptions,
        tokenizer: Vocabulary,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Make the context; `meanwhile` is done here while llama.cpp is at it."""
        self.tokenizer = tokenizer
        self._side_lock = threading.RLock()
        self._side_thread = 0  # that holds it
        self._core = Core(weights, options)
        self._pid = os.getpid()
        when_gone(self, self._core.stop)  # only a safety net: it holds the core, not the engine
        live.add(self._core)
        try:
            compute.shared().add(self._core)
            if weights.generates:
                self.call(lambda core: core.lane(exact=False), meanwhile)
            else:
                meanwhile()
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
    def steps(self) -> StepStore:
        """The logits of the latest steps, whichever answer they belong to. Any thread may read them."""
        return self._core.steps

    @property
    def side_contexts(self) -> tuple[str, ...]:
        """What contexts there are beside those of the lanes (`embedding`, `reading 1`), by purpose."""
        return tuple(self._core.side)

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
            _on_its_own(self._core.settle, job)

    def call(self, function: Callable[[Core], T], meanwhile: Callable[[], None] | None = None) -> T:
        """Run `function(core)` between two steps on the compute thread, and return what it returns.

        `meanwhile` is done here, once that thread is likely to be in llama.cpp, which lets go of the GIL.
        """
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
        check_waiting()
        release_pool()
        self._core.post(job, on_drop=done.set)
        if meanwhile is not None:
            done.wait(_BEGINS)
            meanwhile()
        done.wait_long()
        if not box:
            raise ModelClosedError("The model was closed meanwhile.")
        succeeded, value = box[0]
        if not succeeded:
            if self.closed:  # and stopped because of that
                raise ModelClosedError("The model was closed meanwhile.") from value
            raise value
        return value

    def later(self, function: Callable[[Core], None]) -> None:
        """Run `function(core)` on the compute thread, after what was asked before; do not wait for it.

        Nothing is run, and nothing said, where the model is closed first.
        """
        with contextlib.suppress(ModelClosedError):
            self._core.post(function)

    def made_since(self) -> dict[str, int]:
        """Return the bytes of the contexts that were made since the load: `seeded`, `prompt_reader`."""
        shared, exact = self._core.lanes.shared, self._core.lanes.exact
        contexts = {"seeded": exact and exact.context, "prompt_reader": shared and shared.reader.context}
        return {name: sum(made.buffers.values()) for name, made in contexts.items() if made}

    def abort(self, purpose: str) -> None:
        """Make the context for other work than generation stop what it computes. Any thread."""
        context = self._core.side.get(purpose)
        if context is not None:
            context.abort()

    @contextlib.contextmanager
    def side_job(self, what: str) -> Iterator[None]:
        """Hold what side contexts have one of, for one caller at a time."""
        if self._side_thread == threading.get_ident() or not may_wait():
            raise BackendError(f"A finalizer asked to {what} in the middle of other work of this model.")
        with held(self._side_lock):
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
            _on_its_own(self._core.close)
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


def _on_its_own(work: Callable[..., None], *arguments: Any) -> None:
    """Run `work` on a thread of its own: a Ctrl-C in the middle of it would leave the lanes half done."""
    if not sys.is_finalizing():  # in a `__del__`: no thread runs any more
        with contextlib.suppress(BackendError):  # no thread is left: the next turn does it
            launch(_thread.start_new_thread, work, arguments)


@atexit.register
def _end_all() -> None:
    """End every engine before the process takes llama.cpp down under it."""
    cores = list(live)
    for core in cores:
        core.stop()
        _on_its_own(core.close)
    for core in cores:
        core.ended.wait_long()
