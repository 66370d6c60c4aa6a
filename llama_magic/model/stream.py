"""A generation under way: streams for loops, for `await`, and for waiting until the end."""

from __future__ import annotations

import asyncio
import queue
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from llama_magic.errors import GenerationInterrupted, StructuredOutputError
from llama_magic.model.answer import Assembler, Plan
from llama_magic.model.journal import journal
from llama_magic.model.results import Budget, Chunk, Completion
from llama_magic.request.backend import Backend, wait_for
from llama_magic.threads import despite_interrupts, may_wait
from llama_magic.words.counting import counted
from llama_magic.words.progress import Progress

if TYPE_CHECKING:
    from llama_magic.structured import Constraint

_WAIT_S = 0.1  # a bounded wait keeps Ctrl-C working on Windows
C = TypeVar("C", default=Any)  # what `completion` is


class Stream(Generic[C]):
    """An answer as it is written: iterate for `Chunk`s, then read `completion`.

    `cancel()` stops it and keeps what was written (finish reason "interrupted"). Ctrl-C while
    waiting does the same and raises `GenerationInterrupted`, which carries the completion.
    Leaving a `with` block, or dropping the stream, cancels what still runs.
    """

    def __init__(
        self,
        backend: Backend,
        assembler: Assembler,
        deliver: Callable[[Chunk | None], None] | None = None,
    ) -> None:
        self._backend = backend
        self._assembler = assembler
        self._request = assembler.request
        self._chunks: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
        self._result: C | None = None
        self._failure: StructuredOutputError | None = None
        assembler.deliver = deliver or self._chunks.put
        backend.submit(self._request, assembler)
        self._finalizer = weakref.finalize(self, backend.cancel, self._request)
        self._finalizer.atexit = False

    @property
    def budget(self) -> Budget:
        """How the window is filled: prompt by parts, reserved answer, free."""
        return self._assembler.budget

    @property
    def mode(self) -> str:
        """What the answer is made for, as its completion will say."""
        return self._assembler.plan.mode

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the top fields of the answer: none, for it is a text."""
        return ()

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
            self._end()
            raise StopIteration
        constraint = self._assembler.plan.constraint
        return chunk if constraint is None else _with_partial(chunk, constraint)

    def _next(self) -> Chunk | None:
        while True:
            try:
                return self._chunks.get(timeout=0 if self._assembler.ended.is_set() else _WAIT_S)
            except queue.Empty:
                if self._assembler.ended.is_set() and self._chunks.empty():
                    return None  # its end was read before, perhaps by another thread

    def _end(self) -> None:
        self._finalizer.detach()
        if self._assembler.error is not None:
            raise self._assembler.error

    def run(self) -> C:
        """Wait for the end and return the completion (a list for n > 1), chunks unread."""
        self._assembler.deliver = _ignore  # a thread that wakes for each chunk takes the GIL from the engine
        try:
            wait_for(self._assembler.ended)
        except KeyboardInterrupt:
            raise self._interrupted() from None
        self._chunks = queue.SimpleQueue()  # what came before this call is in the completion
        self._end()
        return self.completion

    def cancel(self) -> None:
        """Stop now; returns when the engine has let go. Text written so far is kept."""
        self._backend.cancel(self._request)
        if not may_wait():  # the collector closes generators on the thread that computes, too
            return
        for _ in range(200):  # ten seconds
            if self._assembler.ended.wait(0.05):
                break
            self._backend.settle(self._request)

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
                made.append(finished(completion, self._assembler.plan))
            except StructuredOutputError as error:
                failure = failure or error
                made.append(error.completion)
        if failure is not None:
            if len(made) > 1:
                failure.completions = made
            if ended:
                self._failure = failure
                _tell(made)
            raise failure
        result: Any = made if self._request.n > 1 else made[0]
        if ended:
            self._result = result
            _tell(made)
        return result  # type: ignore[no-any-return]

    def _traceable(self) -> list[Completion]:
        """Return the completions so far, each with what its `xray` needs."""
        made = self._assembler.completions()
        if self._backend.local is None:
            return made
        from llama_magic.microscope.tracing import Tracer  # for weight: llama.cpp

        parts = (self._backend.local, self._assembler.tokenizer, self._request)
        return [replace(c, _tracer=Tracer(*parts, i, c.token_ids)) for i, c in enumerate(made)]

    def __enter__(self) -> Stream[C]:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.cancel()


def _tell(made: Sequence[Completion]) -> None:
    for completion in made:
        journal.add(completion)


def _with_partial(chunk: Chunk, constraint: Constraint) -> Chunk:
    return replace(chunk, partial=constraint.partial(chunk.text, chunk.finish_reason == "stop"))


def _room(completion: Completion) -> str:
    used = completion.usage.prompt_tokens + completion.usage.completion_tokens
    if used >= completion.budget.window:
        return "The window is full: ask for less, or load the model with a larger --ctx."
    return "Allow more tokens (--max-tokens), or ask for less."


def finished(completion: Completion, plan: Plan) -> Completion:
    """Give a structured answer its instance; raise `StructuredOutputError` where it is none."""
    if plan.constraint is None:
        return completion
    completion = replace(completion, _constraint=plan.constraint)
    if completion.finish_reason == "interrupted":
        return completion
    partial = plan.constraint.partial(completion.text)
    if completion.finish_reason == "length":
        if not plan.constraint.may_go_on(completion.text):
            try:
                return replace(completion, parsed=plan.constraint.parse(completion.text))
            except StructuredOutputError:
                pass
        raise _cut(completion, partial)
    try:
        return replace(completion, parsed=plan.constraint.parse(completion.text))
    except StructuredOutputError as error:
        error.completion = completion
        raise


def _cut(completion: Completion, partial: Any) -> StructuredOutputError:
    tokens = counted(len(completion.token_ids), "token")
    if not completion.text and (completion.thinking or completion.raw_text):
        message = f"The answer was cut after {tokens}, before it began: thinking took all {tokens}."
        remedy = "Allow more tokens (--max-tokens), or leave thinking out (thinking=False) where that can be."
    else:
        message = f"The answer was cut after {tokens}, before it was complete."
        remedy = "Allow more tokens (--max-tokens), or ask for less."
    return StructuredOutputError(
        message, text=completion.text, partial=partial, completion=completion, remedy=remedy
    )


def _ignore(_chunk: Chunk | None) -> None:
    pass


def _courier(
    loop: asyncio.AbstractEventLoop, chunks: asyncio.Queue[Chunk | None], cancel: Callable[[], None]
) -> Callable[[Chunk | None], None]:
    """Return what carries chunks from the compute thread into a loop. It does not hold the stream."""

    def deliver(chunk: Chunk | None) -> None:
        try:
            loop.call_soon_threadsafe(chunks.put_nowait, chunk)
        except RuntimeError:  # the loop was closed while the answer was written
            cancel()

    return deliver


class AsyncStream(Generic[C]):
    """An answer as it is written, for `async for`. Leaving the loop, or cancelling its task, stops it."""

    def __init__(self, backend: Backend, assembler: Assembler) -> None:
        self._chunks: asyncio.Queue[Chunk | None] = asyncio.Queue()
        self._done = False
        cancel = partial(backend.cancel, assembler.request)
        courier = _courier(asyncio.get_running_loop(), self._chunks, cancel)
        self._inner: Stream[C] = Stream(backend, assembler, courier)

    @property
    def budget(self) -> Budget:
        return self._inner.budget

    def __aiter__(self) -> AsyncStream[C]:
        return self

    async def __anext__(self) -> Chunk:
        if self._done:
            raise StopAsyncIteration
        try:
            chunk = await self._chunks.get()
        except asyncio.CancelledError:
            self.cancel()
            raise
        if chunk is None:
            self._done = True
            self._inner._end()
            raise StopAsyncIteration
        constraint = self._inner._assembler.plan.constraint
        return chunk if constraint is None else _with_partial(chunk, constraint)

    async def run(self) -> C:
        """Wait for the end and return the completion."""
        async for _ in self:
            pass
        return self.completion

    def cancel(self) -> None:
        """Stop now; what was written is kept."""
        backend, request = self._inner._backend, self._inner._request
        backend.cancel(request)
        backend.settle(request)

    async def aclose(self) -> None:
        self.cancel()

    @property
    def completion(self) -> C:
        return self._inner.completion
