"""Streams for `await` and `async for`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, Self

from typing_extensions import TypeVar

from llama_magic.errors import GenerationInterrupted
from llama_magic.model.answer import Assembler
from llama_magic.model.mail import Mail, mail
from llama_magic.model.results import Budget, Chunk
from llama_magic.model.stream import Stream, with_partial
from llama_magic.request.backend import Backend
from llama_magic.words.inprocess import InProcess

C = TypeVar("C", default=Any)  # what `completion` is


def _courier(
    mail: Mail, chunks: asyncio.Queue[Chunk | None], cancel: Callable[[], None]
) -> Callable[[Chunk | None], None]:
    """Return what carries chunks from the compute thread into a loop. It does not hold the stream."""

    def deliver(chunk: Chunk | None) -> None:
        try:
            mail.put(chunks, chunk)
        except RuntimeError:  # the loop was closed while the answer was written
            cancel()

    return deliver


class Closing:
    """What `async with` stops at its end."""

    async def aclose(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()


class AsyncStream(Closing, InProcess, Generic[C]):
    """An answer as it is written, for `async for`. Leaving an `async with`, or cancelling its task, stops it.

    So does leaving the loop where nobody holds the stream.
    """

    _what, _instead = Stream._what, Stream._instead

    def __init__(self, backend: Backend, assembler: Assembler, until: float | None = None) -> None:
        self._chunks: asyncio.Queue[Chunk | None] = asyncio.Queue()
        self._done = False
        self._mail = mail()
        cancel = partial(backend.cancel, assembler.request)
        courier = _courier(self._mail, self._chunks, cancel)
        self._inner: Stream[C] = Stream(backend, assembler, courier, until)

    @property
    def until(self) -> float | None:
        return self._inner.until

    @property
    def budget(self) -> Budget:
        return self._inner.budget

    def __aiter__(self) -> AsyncStream[C]:
        return self

    async def __anext__(self) -> Chunk:
        if self._done:
            raise StopAsyncIteration
        self._mail.check()
        try:
            with self._mail.awaited():
                chunk = await self._chunks.get()
        except asyncio.CancelledError as error:
            self.cancel()
            # A kernel cancels what a cell awaits; shown in a line, as any interrupt. No class of our own:
            # `asyncio.timeout` of Python 3.11 takes none but CancelledError itself.
            shown = GenerationInterrupted(words="what was written is in the history")
            error._render_traceback_ = shown._render_traceback_  # type: ignore[attr-defined]
            raise
        if chunk is None:
            self._done = True
            self._chunks.put_nowait(None)  # for another task that waits for a chunk of this stream
            self._inner._end()
            self._inner._take()
            raise StopAsyncIteration
        constraint = self._inner._assembler.terms.constraint
        return chunk if constraint is None else with_partial(chunk, constraint)

    async def run(self) -> C:
        """Wait for the end and return the completion."""
        async for _ in self:
            pass
        return self.completion

    def cancel(self) -> None:
        """Stop now; what was written is kept, and told where it ends, for nobody may be there to read it."""
        backend, assembler = self._inner._backend, self._inner._assembler
        assembler.abandoned = True
        if self._inner.settled():  # by itself, before it was known that nobody will ask
            self._inner._take()
        backend.cancel(assembler.request)
        backend.settle(assembler.request)

    async def aclose(self) -> None:
        self.cancel()

    @property
    def completion(self) -> C:
        return self._inner.completion


class AsyncStreaming(Closing, InProcess, Coroutine[Any, Any, AsyncStream[C]], Generic[C]):
    """A streamed call before it has begun: read it with `async for`, or `await` its `AsyncStream`.

    It is a coroutine, so `create_task`, `wait_for` and `gather` take it. It begins when it is first
    awaited or read.
    """

    _what, _instead = Stream._what, Stream._instead

    def __init__(self, begin: Coroutine[Any, Any, AsyncStream[C]]) -> None:
        self._begin = begin
        self._stream: AsyncStream[C] | None = None

    def __aiter__(self) -> AsyncStreaming[C]:
        return self

    async def __anext__(self) -> Chunk:
        if self._stream is None:
            self._stream = await self._begin
        return await self._stream.__anext__()

    async def aclose(self) -> None:
        """Stop now; what was written is kept."""
        if self._stream is None:
            self._begin.close()
        else:
            await self._stream.aclose()

    @property
    def completion(self) -> C:
        """The completion, after an `async for` over this. Raises RuntimeError before."""
        if self._stream is None:
            raise RuntimeError("This call has not begun: read it with `async for`, or await it.")
        return self._stream.completion

    # --- a coroutine ------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, AsyncStream[C]]:
        return self._begin.__await__()

    def send(self, value: Any) -> Any:
        return self._begin.send(value)

    def throw(self, *exception: Any) -> Any:
        return self._begin.throw(*exception)

    def close(self) -> None:
        self._begin.close()
