"""A generation under way: streams for loops, for `await`, and for waiting until the end."""

from __future__ import annotations

import asyncio
import queue
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llama_magic.assembling import Assembler, Plan
from llama_magic.engine.request import Request
from llama_magic.errors import GenerationInterrupted, StructuredOutputError
from llama_magic.plural import counted
from llama_magic.results import Budget, Chunk, Completion, Progress

if TYPE_CHECKING:
    from llama_magic.engine.engine import Engine
    from llama_magic.structured import Constraint

_WAIT_S = 0.1  # a bounded wait keeps Ctrl-C working on Windows
# The last generations of this process, for the session's history.
recent: deque[Completion] = deque(maxlen=1000)


class Stream:
    """An answer as it is written: iterate for `Chunk`s, then read `completion`.

    `cancel()` stops it and keeps what was written (finish reason "interrupted"). Ctrl-C while
    waiting does the same and raises `GenerationInterrupted`, which carries the completion.
    Leaving a `with` block, or dropping the stream, cancels what still runs.
    """

    def __init__(
        self,
        engine: Engine,
        assembler: Assembler,
        deliver: Callable[[Chunk | None], None] | None = None,
    ) -> None:
        self._engine = engine
        self._assembler = assembler
        self._request = assembler.request
        self._chunks: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
        self._result: Any = None
        self._failure: StructuredOutputError | None = None
        assembler.deliver = deliver or self._chunks.put
        engine.submit(self._request)
        self._finalizer = weakref.finalize(self, engine.cancel, self._request)
        self._finalizer.atexit = False

    @property
    def budget(self) -> Budget:
        """How the window is filled: prompt by parts, reserved answer, free."""
        return self._assembler.budget

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

    def run(self) -> Any:
        """Wait for the end and return the completion (a list for n > 1), chunks unread."""
        self._assembler.deliver = _ignore  # a thread that wakes for each chunk takes the GIL from the engine
        try:
            while not self._assembler.ended.wait(_WAIT_S):
                pass
        except KeyboardInterrupt:
            raise self._interrupted() from None
        self._chunks = queue.SimpleQueue()  # what came before this call is in the completion
        self._end()
        return self.completion

    def cancel(self) -> None:
        """Stop now; returns when the engine has let go. Text written so far is kept."""
        self._engine.cancel(self._request)
        self._assembler.ended.wait(10)

    close = cancel

    def _interrupted(self) -> GenerationInterrupted:
        """Stop, whatever an impatient second Ctrl-C says, and return what to raise."""
        for _ in range(5):
            try:
                self.cancel()
                return GenerationInterrupted(self.completion)
            except KeyboardInterrupt:
                continue
            except StructuredOutputError as error:
                # It ended by itself a moment before, and is no instance.
                return GenerationInterrupted(error.completion)
        return GenerationInterrupted()

    @property
    def completion(self) -> Any:
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
                recent.extend(made)
            raise failure
        result = made if self._request.n > 1 else made[0]
        if ended:
            self._result = result
            recent.extend(made)
        return result

    def _traceable(self) -> list[Completion]:
        """Return the completions so far, each with what its `xray` needs."""
        from llama_magic.microscope.tracing import Tracer

        made = self._assembler.completions()
        parts = (self._engine, self._assembler.vocabulary, self._request)
        return [replace(c, _tracer=Tracer(*parts, i, c.token_ids)) for i, c in enumerate(made)]

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.cancel()


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
        try:
            return replace(completion, parsed=plan.constraint.parse(completion.text))
        except StructuredOutputError:
            pass
        raise StructuredOutputError(
            f"The answer was cut after {counted(len(completion.token_ids), 'token')}, before it was "
            "complete.",
            text=completion.text,
            partial=partial,
            completion=completion,
            remedy=_room(completion),
        )
    try:
        return replace(completion, parsed=plan.constraint.parse(completion.text))
    except StructuredOutputError as error:
        error.completion = completion
        raise


def _ignore(_chunk: Chunk | None) -> None:
    pass


def _courier(
    loop: asyncio.AbstractEventLoop, chunks: asyncio.Queue[Chunk | None], request: Request
) -> Callable[[Chunk | None], None]:
    """Return what carries chunks from the engine thread into a loop. It does not hold the stream."""

    def deliver(chunk: Chunk | None) -> None:
        try:
            loop.call_soon_threadsafe(chunks.put_nowait, chunk)
        except RuntimeError:  # the loop was closed while the answer was written
            request.cancelled = True

    return deliver


class AsyncStream:
    """An answer as it is written, for `async for`. Leaving the loop, or cancelling its task, stops it."""

    def __init__(self, engine: Engine, assembler: Assembler) -> None:
        self._chunks: asyncio.Queue[Chunk | None] = asyncio.Queue()
        self._done = False
        courier = _courier(asyncio.get_running_loop(), self._chunks, assembler.request)
        self._inner = Stream(engine, assembler, courier)

    @property
    def budget(self) -> Budget:
        return self._inner.budget

    def __aiter__(self) -> AsyncStream:
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

    async def run(self) -> Any:
        """Wait for the end and return the completion."""
        async for _ in self:
            pass
        return self.completion

    def cancel(self) -> None:
        """Stop now; what was written is kept."""
        self._inner._engine.cancel(self._inner._request)

    async def aclose(self) -> None:
        self.cancel()

    @property
    def completion(self) -> Any:
        return self._inner.completion
