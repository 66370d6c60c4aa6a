"""Streams for `await` and `async for`."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, Protocol

from typing_extensions import TypeVar

from llama_magic.errors import GenerationInterrupted
from llama_magic.model.answer import Assembler
from llama_magic.model.results import Budget, Chunk
from llama_magic.model.stream import Stream, with_partial
from llama_magic.request.backend import Backend
from llama_magic.threads import afterwards
from llama_magic.weakly import WeakTable
from llama_magic.words.inprocess import InProcess

C = TypeVar("C", default=Any)  # what `completion` is
_BEAT = 0.1  # seconds


class Box(Protocol):
    """What things are put into on the loop, as an `asyncio.Queue`."""

    def put_nowait(self, item: Any, /) -> None: ...


class Mail:
    """Carries what other threads tell into a loop: one wake-up for all that waits, and for all of a step."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._waiting: deque[tuple[Box, Any]] = deque()
        self._called = False
        self._awaited = 0  # by how many
        self._beating = False

    def put(self, box: Box, thing: Any) -> None:
        """Put a thing into a box of the loop. Any thread. RuntimeError where the loop is closed."""
        self._waiting.append((box, thing))
        if not self._called:
            loop = self._loop()
            if loop is None or loop.is_closed():
                raise RuntimeError("The loop is closed.")
            self._called = True
            afterwards(self._ring)

    def _ring(self) -> None:
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._empty)
        except RuntimeError:  # it was closed meanwhile: whoever puts something next hears of it
            self._called = False

    def _empty(self) -> None:
        self._called = False  # first: what comes from here on calls again, or is taken now
        while self._waiting:
            box, thing = self._waiting.popleft()
            box.put_nowait(thing)

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Have the loop turn ten times a second while somebody waits, where a signal may strike.

        A kernel's handler cancels what a cell awaits and wakes nothing: while a long prompt is read, which
        sends no mail, the loop would sleep on.
        """
        self._awaited += 1
        if not self._beating and threading.current_thread() is threading.main_thread():
            self._beat()
        try:
            yield
        finally:
            self._awaited -= 1

    def _beat(self) -> None:
        loop = self._loop()
        self._beating = self._awaited > 0 and loop is not None
        if self._beating and loop is not None:
            loop.call_later(_BEAT, self._beat)


_mails: WeakTable[asyncio.AbstractEventLoop, Mail] = WeakTable()


def mail() -> Mail:
    """Return what carries things into the running loop."""
    loop = asyncio.get_running_loop()
    return _mails.get(loop) or _mails.put(loop, Mail(loop))


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


class AsyncStream(InProcess, Generic[C]):
    """An answer as it is written, for `async for`. Leaving the loop, or cancelling its task, stops it."""

    _what, _instead = Stream._what, Stream._instead

    def __init__(self, backend: Backend, assembler: Assembler) -> None:
        self._chunks: asyncio.Queue[Chunk | None] = asyncio.Queue()
        self._done = False
        self._mail = mail()
        cancel = partial(backend.cancel, assembler.request)
        courier = _courier(self._mail, self._chunks, cancel)
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
            with self._mail.awaited():
                chunk = await self._chunks.get()
        except asyncio.CancelledError as error:
            self.cancel()
            # A kernel cancels what a cell awaits; shown in a line, as any interrupt. No class of our own:
            # `asyncio.timeout` of Python 3.11 takes none but CancelledError itself.
            shown = GenerationInterrupted(words="what was written is in %llama history")
            error._render_traceback_ = shown._render_traceback_  # type: ignore[attr-defined]
            raise
        if chunk is None:
            self._done = True
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
        backend.cancel(assembler.request)
        backend.settle(assembler.request)

    async def aclose(self) -> None:
        self.cancel()

    @property
    def completion(self) -> C:
        return self._inner.completion


class AsyncStreaming(InProcess, Coroutine[Any, Any, AsyncStream[C]], Generic[C]):
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
