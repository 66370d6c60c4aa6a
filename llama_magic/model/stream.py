"""A generation under way: a stream for loops, and for waiting until the end."""

from __future__ import annotations

import _thread
import contextlib
import queue
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from llama_magic.errors import BackendError, GenerationInterrupted, StructuredOutputError
from llama_magic.model.answer import Assembler
from llama_magic.model.finished import finished
from llama_magic.model.forks import Maker
from llama_magic.model.parted import know
from llama_magic.model.results import Budget, Chunk, Completion
from llama_magic.model.standing_in import begin
from llama_magic.request.backend import Backend, wait_for
from llama_magic.starts import launch
from llama_magic.threads import despite_interrupts, may_wait
from llama_magic.weakly import when_gone
from llama_magic.words.inprocess import InProcess
from llama_magic.words.progress import Progress

if TYPE_CHECKING:
    from llama_magic.structured import Constraint

_WAIT_S = 0.1  # a bounded wait keeps Ctrl-C working on Windows
C = TypeVar("C", default=Any)  # what `completion` is


class Stream(InProcess, Generic[C]):
    """An answer as it is written: iterate for `Chunk`s, then read `completion`.

    `cancel()` stops it and keeps what was written (finish reason "interrupted"). Ctrl-C while
    waiting does the same and raises `GenerationInterrupted`, which carries the completion.
    Leaving a `with` block, or dropping the stream, cancels what still runs.
    """

    _what = "An answer that is being written"
    _instead = "Read it to its end: its completion can be copied and pickled (stream.completion)."

    def __init__(
        self,
        backend: Backend,
        assembler: Assembler,
        deliver: Callable[[Chunk | None], None] | None = None,
        until: float | None = None,
    ) -> None:
        """`until` is when the time is up of a call that this is not the first answer of."""
        self._assembler = assembler
        self.request = assembler.request  # what the backend was asked
        self._chunks: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
        self._result: C | None = None
        self._failure: StructuredOutputError | None = None
        assembler.deliver = deliver or self._chunks.put
        know(assembler)
        self._backend = backend = begin(backend, self.request, assembler)
        self._ended = when_gone(self, partial(_drop, backend, assembler))
        timeout = assembler.terms.timeout
        self.until = time.monotonic() + timeout if until is None and timeout is not None else until
        if self.until is not None:
            launch(_thread.start_new_thread, _time_out, (backend, assembler, self.until))

    @property
    def budget(self) -> Budget:
        """How the window is filled: prompt by parts, reserved answer, free."""
        return self._assembler.budget

    @property
    def mode(self) -> str:
        """What the answer is made for, as its completion will say."""
        return self._assembler.terms.mode

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the top fields of the answer: none, for it is a text."""
        return ()

    @property
    def samples(self) -> int:
        """How many answers are written side by side."""
        return self.request.n

    @property
    def prompt(self) -> str:
        """The text that the model goes on from, template and all."""
        return self._assembler.terms.prompt.text

    def progress(self) -> Progress | None:
        """How much of the prompt is read, None before the engine begins."""
        return self._assembler.progress

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        try:
            chunk = self._next()
        except KeyboardInterrupt:
            raise self._interrupted() from None
        if chunk is None:
            # For other readers: CPython's get waits for ever where its time is up and another took the item.
            self._chunks.put(None)
            self._end()
            self._take()
            raise StopIteration
        constraint = self._assembler.terms.constraint
        return chunk if constraint is None else with_partial(chunk, constraint)

    def _next(self) -> Chunk | None:
        while True:
            try:
                return self._chunks.get(timeout=0 if self._assembler.ended.is_set() else _WAIT_S)
            except queue.Empty:
                if self._assembler.ended.is_set() and self._chunks.empty():
                    return None  # its end was read before, perhaps by another thread

    def _end(self) -> None:
        self._ended()
        error = self._assembler.error
        if error is None:
            return
        if isinstance(error, BackendError) and self._assembler.stats.first_token:
            made = self._assembler.completions()
            error.completion = made if len(made) > 1 else made[0]
        raise error

    def on_end(self, call: Callable[[], None]) -> None:
        """Have `call` called when the answer has ended, perhaps twice; its chunks are dropped from now on.

        It is called on the thread that writes the answer, which it must not hold up.
        """
        self._assembler.silent = True
        self._assembler.deliver = lambda chunk: call() if chunk is None else None
        if self._assembler.ended.is_set():  # since before, and nobody may have been told
            call()

    def settled(self) -> bool:
        """Whether `run` would return at once."""
        return self._assembler.ended.is_set()

    def run(self) -> C:
        """Wait for the end and return the completion (a list for n > 1), chunks unread."""
        self._assembler.silent = True  # a thread that wakes for each chunk takes the GIL from the engine
        try:
            wait_for(self._assembler.ended)
        except KeyboardInterrupt:
            raise self._interrupted() from None
        self._chunks = queue.SimpleQueue()  # what came before this call is in the completion
        self._end()
        return self.completion

    def halt(self) -> None:
        """Ask the engine to stop, and do not wait for it; `cancel` does."""
        self._backend.cancel(self.request)

    def cancel(self) -> None:
        """Stop now; returns when the engine has let go. Text written so far is kept."""
        self.halt()
        if not may_wait():  # the collector closes generators on the thread that computes, too
            _drop(self._backend, self._assembler)
            return
        for _ in range(200):  # ten seconds
            if self._assembler.ended.wait(0.05):
                self._take()
                return
            self._backend.settle(self.request)

    def _take(self) -> None:
        """Make the completion, and so tell of it, though nobody may ever ask for it."""
        if self._assembler.error is None:
            with contextlib.suppress(Exception):  # whoever asks is told
                _ = self.completion

    close = cancel

    def _interrupted(self) -> GenerationInterrupted:
        """Stop, whatever an impatient second Ctrl-C says, and return what to raise."""

        def stop() -> GenerationInterrupted:
            self.cancel()
            return GenerationInterrupted(self.completion)

        try:
            return despite_interrupts(stop)
        except KeyboardInterrupt:
            return GenerationInterrupted()
        except StructuredOutputError as error:  # it ended by itself a moment before, and is no instance
            return GenerationInterrupted(error.completion)

    @property
    def completion(self) -> C:
        """The completion, or a list of them for n > 1; what was written so far while it runs."""
        if self._result is not None:
            return self._result
        if self._failure is not None:
            raise self._failure
        ended = self._assembler.ended.is_set()
        made: list[Completion] = []
        failure: StructuredOutputError | None = None
        for completion in self._traceable():
            try:
                made.append(finished(completion, self._assembler.terms.constraint))
            except StructuredOutputError as error:
                failure = failure or error
                made.append(error.completion)
        if failure is not None:
            if len(made) > 1:
                failure.completions = made
            if ended:
                self._failure = failure
                self._assembler.tell(made)
            raise failure
        result: Any = made if self.request.n > 1 else made[0]
        if ended:
            self._result = result
            self._assembler.tell(made)
        return result

    def _traceable(self) -> list[Completion]:
        """Return the completions so far, each with what its `fork` and `xray` need."""
        origin = Maker(self._backend, self._assembler, Stream)
        made = [replace(c, _origin=origin) for c in self._assembler.completions()]
        if self._backend.local is None:
            return made
        from llama_magic.microscope.tracer import Tracer  # for weight: llama.cpp

        parts = (self._backend.local, self._assembler.tokenizer, self.request)
        return [replace(c, _tracer=Tracer(*parts, i, c.token_ids)) for i, c in enumerate(made)]

    def __enter__(self) -> Stream[C]:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.cancel()


def _drop(backend: Backend, assembler: Assembler) -> None:
    """Stop what nobody waits for."""
    assembler.abandoned = True
    backend.cancel(assembler.request)


def _time_out(backend: Backend, assembler: Assembler, until: float) -> None:
    """Stop a request that is not through by then."""
    if not assembler.ended.wait(max(0.0, until - time.monotonic())):
        assembler.timed_out = True
        while not assembler.ended.wait(0.05):  # the first word may come before the backend knows of it
            backend.cancel(assembler.request)
            backend.settle(assembler.request)


def with_partial(chunk: Chunk, constraint: Constraint) -> Chunk:
    return replace(chunk, partial=constraint.partial(chunk.text, chunk.finish_reason == "stop"))
