"""Streams one after the other, seen as one: attempts at a structured answer, answers between tool calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, Self

from llama_magic.model.astream import AsyncStream, Closing
from llama_magic.model.stream import C, Stream

if TYPE_CHECKING:
    from llama_magic.model.results import Budget, Chunk
    from llama_magic.words.progress import Progress


class Succession(Generic[C]):
    """What is asked of it is asked of the stream at work; its kinds say how it goes from one to the next."""

    _stream: Stream[C]

    def __iter__(self) -> Iterator[Chunk]:
        raise NotImplementedError

    @property
    def budget(self) -> Budget:
        return self._stream.budget

    @property
    def mode(self) -> str:
        return self._stream.mode

    @property
    def fields(self) -> tuple[str, ...]:
        return self._stream.fields

    @property
    def samples(self) -> int:
        return self._stream.samples

    @property
    def prompt(self) -> str:
        return self._stream.prompt

    def progress(self) -> Progress | None:
        return self._stream.progress()

    def cancel(self) -> None:
        """Stop now; what was written so far is kept."""
        self._stream.cancel()

    def close(self) -> None:
        self.cancel()

    @property
    def completion(self) -> C:
        """The last answer; what was written so far while it runs."""
        return self._stream.completion

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.cancel()


class AsyncSuccession(Closing, Generic[C]):
    """The same for `async for`; its kinds say how it goes from chunk to chunk."""

    _stream: AsyncStream[C]

    @property
    def budget(self) -> Budget:
        return self._stream.budget

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        raise NotImplementedError

    async def run(self) -> C:
        """Run it to the end and return the completion."""
        async for _ in self:
            pass
        return self.completion

    def cancel(self) -> None:
        """Stop now; what was written so far is kept."""
        self._stream.cancel()

    async def aclose(self) -> None:
        self.cancel()

    @property
    def completion(self) -> C:
        """The last answer; what was written so far while it runs."""
        return self._stream.completion
