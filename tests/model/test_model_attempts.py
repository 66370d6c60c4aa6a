"""A structured answer that is asked for again while several tasks read its one stream."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from llama_magic.errors import StructuredOutputError
from llama_magic.model.attempts import AsyncStructuredStream, Attempts


class Failed:
    """An attempt that ends when it is let go, and whose answer is not valid."""

    until = None

    def __init__(self) -> None:
        self.ends = asyncio.Event()
        self.readers = 0

    async def __anext__(self) -> Any:
        self.readers += 1
        await self.ends.wait()
        raise StopAsyncIteration

    @property
    def completion(self) -> Any:
        made = SimpleNamespace(finish_reason="stop", stop=None, stops=())
        raise StructuredOutputError("no number", text="x", completion=made)


class Written:
    """The attempt after it: its chunks, and no end yet."""

    until = None
    completion = None

    def __init__(self) -> None:
        self.chunks = iter("ab")

    async def __anext__(self) -> Any:
        await asyncio.sleep(0)
        return next(self.chunks)


class Shared(AsyncStructuredStream[Any]):
    """A stream over these attempts."""

    def __init__(self) -> None:
        self.failed = Failed()
        self._stream: Any = self.failed
        self._attempts = Attempts([], left=5)

    def _begin(self, until: float | None) -> Any:
        return Written()


def test_tasks_that_share_a_stream_ask_again_once() -> None:
    """The end of one attempt comes to each of them: the first asks again, the others read on from there."""

    async def read() -> tuple[list[Any], Attempts]:
        shared = Shared()
        tasks = [asyncio.create_task(anext(shared)) for _ in range(2)]  # type: ignore[arg-type]
        while shared.failed.readers < len(tasks):
            await asyncio.sleep(0)
        shared.failed.ends.set()
        return await asyncio.gather(*tasks), shared._attempts

    chunks, attempts = asyncio.run(read())
    assert sorted(chunks) == ["a", "b"]
    assert (attempts.asked, attempts.left) == (2, 4)
