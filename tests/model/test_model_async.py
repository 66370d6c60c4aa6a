"""Calls for `await` and `async for`: what they are, what a cancelled one leaves, how long they may take."""

from __future__ import annotations

import _thread
import asyncio
import gc
import itertools
import signal
import threading
from collections.abc import Coroutine, Iterator
from functools import partial
from typing import Any, ClassVar, Literal

import pytest
from pydantic import BaseModel, field_validator
from scripted_gguf import Scripted

import llama_magic as lm
from llama_magic.display import to_text
from llama_magic.display.views.model.results import ending
from llama_magic.engine import compute
from llama_magic.model.journal import journal
from llama_magic.testing import Script, scripted_model

LONG: dict[str, Any] = {"max_tokens": 8000, "ignore_eos": True}
LONG_TEXT = {"type": "string", "minLength": 800}
HI = [{"role": "user", "content": "一"}]


@pytest.fixture
def scripted(scripted_file: Scripted) -> Iterator[Any]:
    """With room for an answer that is still written when a busy machine lets its reader go on."""
    with lm.load(scripted_file.path, ctx=8192, threads=1) as model:
        yield model


@pytest.fixture(autouse=True)
def _empty_journal() -> None:
    journal.clear()


def test_tasks_that_share_a_stream_all_end(scripted: Any) -> None:
    """Three tasks that read one stream share its chunks; the end, or its error, is each one's."""

    async def main() -> None:
        stream = await scripted.acomplete("一", stream=True, max_tokens=12, temperature=0)
        read: list[str] = []

        async def reader() -> None:
            async for chunk in stream:
                read.append(chunk.delta)

        await asyncio.wait_for(asyncio.gather(reader(), reader(), reader()), 600)
        assert read
        assert "".join(read) == stream.completion.text

    asyncio.run(main())


def test_a_stream_is_read_in_the_loop_that_began_it(scripted: Any) -> None:
    """In another loop its chunks never come, and without one none can: both are said at once."""

    async def begin() -> Any:
        return await scripted.acomplete("一", stream=True, **LONG)

    async def read(stream: Any) -> None:
        await asyncio.wait_for(anext(stream), 600)

    stream = asyncio.run(begin())
    with pytest.raises(lm.BackendError, match="another event loop"):
        asyncio.run(read(stream))
    for call in (scripted.acomplete("一"), begin()):
        with pytest.raises(lm.BackendError, match="No asyncio event loop"):
            call.send(None)


async def _told(count: int) -> list[Any]:
    """Return what was told, once there is so much of it."""
    while len(journal) < count:
        await asyncio.sleep(0)
    return list(journal)


def _streams(model: Any) -> dict[str, Any]:
    return {
        "complete": lambda **o: model.acomplete("一", stream=True, **o),
        "chat": lambda **o: model.achat(HI, stream=True, **o),
        "structured": lambda **o: model.astructured("一", bool, stream=True, **{**o, "max_tokens": 64}),
    }


@pytest.mark.parametrize("kind", ["complete", "chat", "structured"])
def test_a_streamed_call_is_read_or_awaited(scripted: Any, kind: str) -> None:
    """`async for` straight on the call, after `await`, and on a task's or a waiter's result: equal texts."""
    call = _streams(scripted)[kind]

    async def main() -> list[str]:
        straight = call(max_tokens=12, temperature=0)
        texts = ["".join([chunk.delta async for chunk in straight])]
        assert straight.completion.text == texts[0]
        streams = [
            await call(max_tokens=12, temperature=0),
            await asyncio.create_task(call(max_tokens=12, temperature=0)),
            await asyncio.wait_for(call(max_tokens=12, temperature=0), 600),
            *await asyncio.gather(call(max_tokens=12, temperature=0)),
        ]
        for stream in streams:
            texts.append("".join([chunk.delta async for chunk in stream]))
            assert stream.completion.text == texts[-1]
        return texts

    texts = asyncio.run(main())
    assert texts[0]
    assert texts == [texts[0]] * 5
    assert [c.text for c in journal] == texts


@pytest.mark.parametrize("kind", ["complete", "chat", "structured"])
def test_an_async_with_stops_what_it_is_left_with(scripted: Any, kind: str) -> None:
    """As `with` does: of the call itself, and of what awaiting it gives, though the stream is still held."""
    how: dict[str, Any] = {"stream": True, "max_tokens": 3000, "ignore_eos": kind != "structured"}
    call = {
        "complete": partial(scripted.acomplete, "一", **how),
        "chat": partial(scripted.achat, HI, **how),
        "structured": partial(scripted.astructured, "一", LONG_TEXT, **how),
    }[kind]

    async def main() -> list[Any]:
        held = [call(), await call()]
        for stream in held:
            async with stream as entered:
                assert entered is stream
                await anext(stream)
        return await _told(2)

    assert {one.finish_reason for one in asyncio.run(main())} == {"interrupted"}


def test_an_answer_that_ended_before_its_reader_left_is_told(scripted: Any) -> None:
    """It ended by itself while a chunk of it was looked at, and nobody reads the rest: the history has it."""

    async def main() -> list[Any]:
        stream = await scripted.acomplete("一", stream=True, max_tokens=4)
        async with stream:
            await anext(stream)
            assert stream._inner._assembler.ended.wait(120)
        return await _told(1)

    assert [len(one.token_ids) for one in asyncio.run(main())] == [4]


class Word(BaseModel):
    """An answer whose first attempt is refused."""

    word: Literal["good", "bad"]
    asked: ClassVar[int] = 0

    @field_validator("word")
    @classmethod
    def _second(cls, value: str) -> str:
        cls.asked += 1
        if cls.asked % 2:
            raise ValueError("not yet")
        return value


def test_a_streamed_structured_call_grows_and_asks_again(scripted: Any) -> None:
    """`partial` as in `structured`; a refused answer begins anew; without retries its end is the error."""

    async def main(**options: Any) -> tuple[list[Any], Any]:
        stream = await scripted.astructured("一", Word, stream=True, max_tokens=40, seed=1, **options)
        return [chunk.partial async for chunk in stream], stream

    partials, stream = asyncio.run(main(retries=1))
    assert partials.count({}) >= 2  # it began twice
    assert partials[-1] == {"word": stream.completion.parsed.word}
    with pytest.raises(lm.StructuredOutputError, match="not yet"):
        _ = asyncio.run(main())[1].completion
    with pytest.raises(lm.OptionError, match="cannot be streamed"):
        asyncio.run(_awaited(scripted.astructured(["a", "b"], bool, stream=True)))


async def _awaited(call: Any) -> Any:
    return await call


@pytest.mark.parametrize("stream", [False, True])
def test_a_kernel_shows_a_cancelled_call_in_a_line(scripted: Any, stream: bool) -> None:
    """A cell that awaits is cancelled by an interrupt: IPython shows a line of ours and no frames."""

    async def main() -> asyncio.CancelledError:
        async def cell() -> None:
            if stream:
                async for _ in scripted.achat(HI, stream=True, **LONG):
                    pass
            await scripted.acomplete("一", **LONG)

        task = asyncio.create_task(cell())
        while not _writing(scripted):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        with pytest.raises(TimeoutError):  # asked by class: no other than asyncio's own will do
            async with asyncio.timeout(0):
                await scripted.acomplete("一", **LONG)
        return caught.value

    error: Any = asyncio.run(main())
    assert error._render_traceback_() == ["Interrupted: what was written is in the history."]


class _Knock(threading.Event):
    """A gate at which someone presses Ctrl-C when it was tried ten times; it opens after half a minute."""

    def __init__(self) -> None:
        super().__init__()
        self.timer = threading.Timer(30, self.set)
        self.tried = itertools.count(1)

    def wait(self, timeout: float | None = None) -> bool:
        if next(self.tried) == 10:
            self.timer.start()
            _thread.interrupt_main()
        return super().wait(timeout)


def test_a_signal_is_heard_while_nothing_comes() -> None:
    """A handler that only cancels the task, as a kernel's does, ends a call whose prompt is being read."""
    gate = _Knock()
    model = scripted_model([Script("late", reading=gate)])

    async def main() -> None:
        task = asyncio.create_task(model.acomplete("Hello"))
        signal.signal(signal.SIGINT, lambda *_: task.cancel())
        with pytest.raises(asyncio.CancelledError):
            await task

    before = signal.getsignal(signal.SIGINT)
    try:
        asyncio.run(main())
        assert not gate.is_set()
    finally:
        signal.signal(signal.SIGINT, before)
        gate.timer.cancel()
        gate.set()
        model.close()


def test_it_is_a_coroutine_that_asks_nothing_before_it_is_awaited(scripted: Any) -> None:
    """Both forms are coroutines, raise what is wrong where they are awaited, and can be closed unbegun."""

    async def main() -> None:
        for stream in (False, True):
            call = scripted.acomplete("一", stream=stream, max_tokens=0)
            assert isinstance(call, Coroutine)
            with pytest.raises(lm.OptionError, match="max_tokens is 0"):
                await call
        unread = scripted.achat(HI, stream=True)
        with pytest.raises(RuntimeError, match="has not begun"):
            _ = unread.completion
        await unread.aclose()

    asyncio.run(main())
    with pytest.warns(RuntimeWarning, match=r"Model\.acomplete.* was never awaited"):
        scripted.acomplete("一")  # type: ignore[unused-coroutine]
    assert list(journal) == []


@pytest.mark.parametrize("kind", ["complete", "chat", "structured"])
def test_a_cancelled_call_is_told_of(scripted: Any, kind: str) -> None:
    """A task that is cancelled, or whose time is up, is in the history once, with its text so far."""
    calls = {
        "complete": lambda: scripted.acomplete("一", **LONG),
        "chat": lambda: scripted.achat(HI, regex="(一|丁){800}", max_tokens=900),
        "structured": lambda: scripted.astructured("一", LONG_TEXT, max_tokens=900),
    }

    async def main() -> list[Any]:
        task = asyncio.create_task(calls[kind]())
        while not _writing(scripted):
            assert not task.done()
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await _told(1)

    told = asyncio.run(main())
    assert [c.finish_reason for c in told] == ["interrupted"]
    assert told[0].mode == kind
    assert told[0].token_ids
    scripted.complete("一", max_tokens=2)
    assert len(journal) == 2


def _writing(model: Any) -> bool:
    """Whether some token of a request was drawn."""
    return any(
        model.backend.call(lambda core: [r.job.stats.generated for lane in core.lanes for r in lane.running])
    )


@pytest.mark.parametrize("way", ["leave", "drop", "close", "read"])
def test_each_stream_is_told_of_once(scripted: Any, way: str) -> None:
    """However a stream ends, its answer is in the history once: left, dropped, closed, or read to the end."""

    async def main() -> list[Any]:
        stream = scripted.complete("一", stream=True, **(LONG if way != "read" else {"max_tokens": 5}))
        next(stream)
        if way == "leave":
            with stream:
                pass
        elif way == "close":
            stream.close()
            assert stream.completion.finish_reason == "interrupted"
        elif way == "read":
            list(stream)
        del stream
        gc.collect()
        return await _told(1)

    assert len(asyncio.run(main())[0].token_ids) > 0
    scripted.complete("一", max_tokens=2)
    assert len(journal) == 2


@pytest.mark.parametrize("n", [1, 2])
def test_an_answer_ends_when_its_time_is_up(scripted: Any, n: int) -> None:
    """With `timeout` an answer that would go on keeps its text and says why it ended; seeds as without."""
    options: dict[str, Any] = {"n": n, "seed": 3, "ignore_eos": True}
    whole = scripted.complete("一", max_tokens=60, **options)
    stream = scripted.complete("一", max_tokens=900, timeout=0.05, stream=True, **options)
    made = stream.run()
    for long, cut in zip(*([r] if n == 1 else r for r in (whole, made)), strict=True):
        assert cut.finish_reason in ("timeout", "length")
        assert cut.token_ids[:60] == long.token_ids[: len(cut.token_ids)]
    in_time = scripted.complete("一", max_tokens=60, timeout=1000, **options)
    assert str(in_time) == str(whole)
    late = any(cut.finish_reason == "timeout" for cut in ([made] if n == 1 else made))
    told = scripted.stats.to_dict()
    assert (told["requests"], told["timeouts"], told["interrupted"]) == (3, int(late), 0)
    assert f"0 failed, 0 stopped, {int(late)} out of time" in to_text(scripted.stats)


class _Elsewhere:
    """Stands for another model that computes until it is told to end."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def turn(self) -> bool:
        self.begun.set()
        self.go_on.wait()
        compute.shared().remove(self)
        return False


def test_time_is_up_while_another_model_computes(scripted: Any) -> None:
    """An answer whose time is up before its turn comes is empty, in every kind of call; the next is whole."""
    brief: dict[str, Any] = {"timeout": 0.01, "max_tokens": 900}

    async def awaited() -> Any:
        return await scripted.acomplete("一", **brief)

    other = _Elsewhere()
    compute.shared().add(other)
    compute.shared().wake()
    other.begun.wait()
    try:
        made = [scripted.complete("一", **brief), scripted.chat(HI, **brief), asyncio.run(awaited())]
        with pytest.raises(lm.StructuredOutputError, match="The time was up after 0 tokens"):
            scripted.structured("一", LONG_TEXT, **brief)
    finally:
        other.go_on.set()
    assert [(c.finish_reason, c.text) for c in made] == [("timeout", "")] * 3
    assert [ending(c) for c in made] == ["stopped when the time was up"] * 3
    assert len(journal) == 4
    assert scripted.complete("一", max_tokens=3).usage.completion_tokens > 0


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "2", True, 1e9])
def test_a_time_that_cannot_be_meant(scripted: Any, value: Any) -> None:
    """Zero, negatives, no number, and what no clock holds are refused by name."""
    with pytest.raises((lm.OptionError, lm.InputTypeError), match="timeout is"):
        scripted.complete("一", timeout=value)


def _structured(model: Any, awaited: bool, *given: Any, **how: Any) -> Any:
    return asyncio.run(model.astructured(*given, **how)) if awaited else model.structured(*given, **how)


class _Late:
    """Takes all the time of a call, wherever it is called in it; counts how often it was."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        threading.Event().wait(self.seconds)
        return "late"


@pytest.mark.parametrize("awaited", [False, True])
def test_the_time_of_a_call_is_that_of_all_its_attempts(awaited: bool) -> None:
    """A check that takes all of it leaves none for the attempts after it: retries do not begin it anew."""
    late = _Late(2.0)

    class Never(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def _refused(cls, _value: int) -> int:
            raise ValueError(late())

    model = scripted_model(['{"x": 1}'] * 10, window=4096)
    how: dict[str, Any] = {"retries": 9, "timeout": 2.0}
    with pytest.raises(
        lm.StructuredOutputError, match=r"late .* The time was up before it could be asked"
    ) as caught:
        _structured(model, awaited, "A number?", Never, **how)
    assert caught.value.text == '{"x": 1}'
    assert late.calls == 1


@pytest.mark.parametrize("awaited", [False, True])
def test_the_time_of_a_call_is_that_of_all_its_tools(short: Any, awaited: bool) -> None:
    """A tool that takes all of it ends the call; the answer after it is not begun anew."""
    late = _Late(1.0)

    def clock() -> str:
        """Tell the time."""
        return late()

    how: dict[str, Any] = {
        "tools": [clock], "tools_as_text": True, "tools_auto": True, "tool_choice": "required",
        "tool_rounds": 9, "timeout": 1.0, "max_tokens": 400, "ignore_eos": True,
    }  # fmt: skip
    answer = asyncio.run(short.achat(HI, **how)) if awaited else short.chat(HI, **how)
    assert answer.finish_reason == "timeout"
    assert late.calls <= 1


@pytest.mark.parametrize("awaited", [False, True])
def test_a_further_attempt_over_the_window_is_no_overflow(awaited: bool) -> None:
    """The prompt did fit: the error is of the answer, which it holds, and says why it was not asked again."""

    class Never(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def _refused(cls, _value: int) -> int:
            raise ValueError("never")

    model = scripted_model(['{"x": 1}'] * 99, window=80)
    how: dict[str, Any] = {"retries": 99, "max_tokens": 9}
    with pytest.raises(
        lm.StructuredOutputError, match=r"never .* It was asked \d+ times; .* over the window"
    ) as caught:
        _structured(model, awaited, "A number?", Never, **how)
    assert caught.value.text == '{"x": 1}'
