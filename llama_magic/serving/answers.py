"""An answer on its way: what the engine tells is carried into the server's loop, and read there."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from llama_magic.model.results import Chunk
from llama_magic.request.events import EndEvent, Event, PromptEvent, TokenEvent
from llama_magic.serving.log import LoggedRequest
from llama_magic.serving.refusals import Refusal, busy

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.mail import Mail
    from llama_magic.model.model import Model
    from llama_magic.model.results import Completion

_BEGUN = object()
PING_S = 15.0  # seconds of silence, at most, until that is told


class _Box:
    """What was told and not read yet. One timer sees to silence: one a chunk costs as much as that."""

    def __init__(self) -> None:
        self._things: list[Any] = []
        self._reader: asyncio.Future[None] | None = None
        self._silent = False  # since the last look
        self._timer: asyncio.TimerHandle | None = None

    def put_nowait(self, thing: Any) -> None:
        self._things.append(thing)
        self._wake()

    async def take(self) -> list[Any]:
        """Wait for something, and return all that there is: nothing, where it was silent for a while."""
        if not self._things:
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        self._silent = False
        things, self._things = self._things, []
        return things

    def watch(self, seconds: float) -> None:
        """Wake the reader where nothing was told for that long, and for less than twice that."""
        if self._silent:
            self._wake()
        self._silent = True
        self._timer = asyncio.get_running_loop().call_later(seconds, self.watch, seconds)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


class ServedAnswer:
    """One request to a model. Lives on the server's loop; `streamed`: chunks are wanted, not the end alone.

    The engine is never held up: what it tells waits here for a client that reads slowly.
    """

    def __init__(
        self,
        model: Model,
        assembler: Assembler,
        mail: Mail,
        row: LoggedRequest,
        *,
        streamed: bool,
        progress: bool = False,
    ) -> None:
        self.model = model
        self.assembler = assembler
        self.row = row
        self._mail = mail
        self._streamed = streamed
        self._progress = progress
        self._told = _Box()
        self._early: list[Any] = []  # what came before the engine had begun
        self._begun = self._ended = False
        self.read: PromptEvent | None = None  # how much of the prompt, where that is news
        row.prompt_tokens += len(assembler.request.prompt)

    def submit(self) -> None:
        """Ask the engine. Raises `ModelClosedError` where the model is closed."""
        self.assembler.deliver = self._deliver
        self.model.backend.submit(self.assembler.request, self._sink)

    # --- on the thread that computes --------------------------------------------------------

    def _sink(self, event: Event) -> None:
        row = self.row
        if isinstance(event, TokenEvent):
            row.last = time.monotonic()
            row.first = row.first or row.last
            row.written += 1
        elif isinstance(event, PromptEvent):
            if not self._begun:
                self._begun = True
                row.began = row.began or time.monotonic()
                row.cached_tokens += event.cached
                self._tell(_BEGUN)
            if self._progress:
                self._tell(event)
        self.assembler(event)
        if isinstance(event, EndEvent):
            self._ended = True

    def _deliver(self, chunk: Chunk | None) -> None:
        if chunk is None or self._streamed:
            self._tell(chunk)

    def _tell(self, thing: Any) -> None:
        try:
            self._mail.put(self._told, thing)
        except RuntimeError:  # the server has gone meanwhile
            self.model.backend.cancel(self.assembler.request)

    # --- on the loop ------------------------------------------------------------------------

    async def begin(self, seconds: float) -> None:
        """Wait until the engine begins with it. Raises `Refusal` where that takes too long."""
        try:
            async with asyncio.timeout(seconds):
                self._early = await self._told.take()
        except TimeoutError:
            self.cancel()
            raise busy(f"The request waited {seconds:g} seconds and was not begun.", 5) from None
        if self._early[0] is not _BEGUN:
            self._raise()

    @property
    def begun(self) -> bool:
        """Whether the engine has begun with it."""
        return self._begun

    async def chunks(self) -> AsyncIterator[list[Chunk]]:
        """Yield what came since the last time, until the end; then raise what ended it, if it failed.

        Where nothing came for some seconds, yields nothing (an empty list), again and again; and so where
        more of the prompt is `read`, if that was to be told.
        """
        told, self._early = self._early, []
        self._told.watch(PING_S / 2)
        try:
            while True:
                told = told or await self._told.take()
                ended = bool(told) and told[-1] is None
                chunks = [one for one in told if isinstance(one, Chunk)]
                if self._progress:
                    self.read = next((one for one in reversed(told) if isinstance(one, PromptEvent)), None)
                if chunks or self.read or not told:
                    yield chunks
                if ended:
                    self._raise()
                    return
                told = []
        finally:
            self._told.close()

    async def run(self) -> list[Completion[Any]]:
        """Wait for the end and return the completions."""
        async for _ in self.chunks():
            pass
        return self.completions()

    def completions(self) -> list[Completion[Any]]:
        """Return what was written, and tell the kernel's history of it.

        Raises `Refusal` where it was broken off: a client is not to take a part for the whole.
        """
        made = self.assembler.completions()
        with contextlib.suppress(Exception):  # a listener's error is not the client's
            self.assembler.tell(made)
        if any(one.finish_reason == "interrupted" for one in made):
            raise Refusal(503, "The model was unloaded, or the server stopped, before the answer was whole.")
        return made

    def cancel(self) -> None:
        """Stop now; the cells are free within a step. What was written is told to the history."""
        if not self._ended:
            backend, request = self.model.backend, self.assembler.request
            self.assembler.abandoned = True
            backend.cancel(request)
            backend.settle(request)

    def _raise(self) -> None:
        if self.assembler.error is not None:
            raise self.assembler.error


async def merged(answers: Sequence[ServedAnswer]) -> AsyncIterator[tuple[int, list[Chunk]]]:
    """Yield what comes of any of several answers, each with its place, until all are at their end."""
    if len(answers) == 1:
        async for chunks in answers[0].chunks():
            yield 0, chunks
        return
    told: asyncio.Queue[tuple[int, list[Chunk]] | BaseException | None] = asyncio.Queue()

    async def read(place: int) -> None:
        try:
            async for chunks in answers[place].chunks():
                told.put_nowait((place, chunks))
            told.put_nowait(None)
        except Exception as error:  # raised below, where it is waited for
            told.put_nowait(error)

    tasks = [asyncio.ensure_future(read(place)) for place in range(len(answers))]
    try:
        left = len(tasks)
        while left:
            item = await told.get()
            if isinstance(item, BaseException):
                raise item
            left -= item is None
            if item is not None:
                yield item
    finally:
        for task in tasks:
            task.cancel()
