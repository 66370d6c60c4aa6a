"""A structured answer as it is written, and asked for again where its check fails and retries are left."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from llama_magic.errors import ContextOverflowError, StructuredOutputError
from llama_magic.model.astream import AsyncStream
from llama_magic.model.finished import is_stopped
from llama_magic.model.stream import C, Stream
from llama_magic.model.succession import AsyncSuccession, Succession
from llama_magic.words.counting import counted

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.call import Calls
    from llama_magic.model.results import Chunk
    from llama_magic.structured import Constraint


S = TypeVar("S", bound="Stream[Any] | AsyncStream[Any]")


class Asking(Protocol):
    """What is asked for: a `StructuredCall`."""

    calls: Calls
    retries: int
    constraint: Constraint

    def assembler(self, messages: Sequence[Any]) -> Assembler: ...


@dataclass
class Attempts:
    """What is asked now, and how often it may be asked again."""

    messages: list[Any]
    left: int
    asked: int = 1

    def again(self, error: StructuredOutputError, until: float | None) -> bool:
        """Prepare the next attempt, which is told what was wrong; False where none is left, or no time."""
        made = error.completion
        cut = made is None or made.finish_reason != "stop" or is_stopped(made)
        late = until is not None and time.monotonic() >= until
        if cut or late or self.left < 1:
            if late and self.left and not cut:
                error.add("The time was up before it could be asked again.")
            if self.asked > 1:
                error.add(f"It was asked {self.asked} times.")
            return False
        self.left -= 1
        self.asked += 1
        again = f"That answer is not valid: {error.message} Answer again, with a valid value."
        answer = {"role": "assistant", "content": error.text}
        self.messages = [*self.messages, answer, {"role": "user", "content": again}]
        return True

    def over(self, error: StructuredOutputError) -> bool:
        """Say that the next attempt does not fit the window, and ask no more: False."""
        self.left = 0
        self.asked -= 1
        asked = counted(self.asked, "time")
        error.add(f"It was asked {asked}; told what was wrong, the prompt is over the window.")
        return False


class _Attempted(ABC, Generic[S]):
    """A stream that begins anew where its answer failed its check, and retries are left."""

    _attempts: Attempts
    _stream: S

    @abstractmethod
    def _begin(self, until: float | None) -> S:
        """Return the stream of what is asked now, which ends at `until` (`time.monotonic()`)."""

    def _again(self) -> bool:
        """Ask again if the answer that has ended failed its check; say whether it was done."""
        try:
            _ = self._stream.completion
        except StructuredOutputError as error:
            return self._retry(error)
        return False

    def _retry(self, error: StructuredOutputError) -> bool:
        until = self._stream.until
        if not self._attempts.again(error, until):
            return False
        try:
            self._stream = self._begin(until)
        except ContextOverflowError:
            return self._attempts.over(error)
        return True


class StructuredStream(_Attempted[Stream[C]], Succession[C]):
    """A structured answer as it is written; each chunk has `partial`, an object that only grows.

    When a finished answer fails its check and retries are left, it is asked for again with
    the reason, and the chunks begin anew.
    """

    def __init__(self, call: Asking, messages: list[Any]) -> None:
        self._call = call
        self._attempts = Attempts(messages, call.retries)
        self._at_end: Callable[[], None] | None = None
        self._stream = self._begin(None)

    def _begin(self, until: float | None) -> Stream[C]:
        made = self._call.assembler(self._attempts.messages)
        begun: Stream[C] = Stream(self._call.calls.backend, made, until=until)
        if self._at_end is not None:
            begun.on_end(self._at_end)
        return begun

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the top fields, in order, for a view that shows them before they are written."""
        schema = self._call.constraint.schema
        properties = schema.get("properties") if isinstance(schema, dict) else None
        return tuple(properties) if isinstance(properties, dict) else ()

    def __iter__(self) -> Iterator[Chunk]:
        while True:
            yield from self._stream
            if not self._again():
                return

    def on_end(self, call: Callable[[], None]) -> None:
        """Have `call` called when an attempt has ended; see `Stream.on_end`."""
        self._at_end = call
        self._stream.on_end(call)

    def settled(self) -> bool:
        """Whether `run` would return at once; where a check failed and retries are left, asks again."""
        return self._stream.settled() and not self._again()

    def run(self) -> C:
        """Wait for the end and return the completion."""
        while True:
            try:
                return self._stream.run()
            except StructuredOutputError as error:
                if not self._retry(error):
                    raise

    def halt(self) -> None:
        """Ask the engine to stop, and do not wait for it; see `Stream.halt`."""
        self._attempts.left = 0
        self._stream.halt()

    def cancel(self) -> None:
        """Stop now, and ask no more; what was written so far is kept."""
        self.halt()
        self._stream.cancel()


class AsyncStructuredStream(_Attempted[AsyncStream[C]], AsyncSuccession[C]):
    """A `StructuredStream` for `async for`: with retries left, the chunks begin anew as there."""

    def __init__(self, call: Asking, messages: list[Any]) -> None:
        self._call = call
        self._attempts = Attempts(messages, call.retries)
        self._stream = self._begin(None)

    def _begin(self, until: float | None) -> AsyncStream[C]:
        return AsyncStream(self._call.calls.backend, self._call.assembler(self._attempts.messages), until)

    async def __anext__(self) -> Chunk:
        while True:
            stream = self._stream
            try:
                return await anext(stream)
            except StopAsyncIteration:
                if stream is self._stream and not self._again():  # else another task asked again
                    raise

    def cancel(self) -> None:
        """Stop now, and ask no more; what was written so far is kept."""
        self._attempts.left = 0
        self._stream.cancel()
