"""Calls that write nothing: bounded by `timeout`, stopped, awaited; what there is by then is kept."""

from __future__ import annotations

import asyncio
import inspect
import math
import pickle
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from settled import WATCHDOG

import llama_magic as lm
from llama_magic.display.live import watching
from llama_magic.errors import GenerationInterrupted
from llama_magic.microscope.reading import ReadThrough
from llama_magic.model.bounded import beside_the_loop
from llama_magic.model.measuring import Measuring
from llama_magic.request.vectors import Vectors
from llama_magic.threads import Bound, Latch, Reached, held, keep, look
from llama_magic.words.standing import Standing

TWINS = ("embed", "score", "read", "xray")
TEXTS = [f"Text {number} of many." for number in range(3_000)]
LONG = " and on".join(map(str, range(250)))


@pytest.mark.parametrize("name", TWINS)
def test_twins_have_one_signature(name: str) -> None:
    """Each of these calls and its twin for `await` take the same parameters, `timeout` among them."""
    one, twin = (inspect.signature(getattr(Measuring, f"{a}{name}")).parameters for a in ("", "a"))
    assert [(k, p.kind, p.default, p.annotation) for k, p in one.items()] == [
        (k, p.kind, p.default, p.annotation) for k, p in twin.items()
    ]
    assert one["timeout"].default is None


def test_a_time_out_keeps_the_vectors_that_there_are(short: Any) -> None:
    """They are those of the first texts; the error says how many, and the model is free at once."""
    with pytest.raises(lm.OutOfTimeError, match=r"The time was up after 0\.3 s: .* of 3,000 texts") as caught:
        short.embed(TEXTS, timeout=0.3)
    kept = caught.value.completion
    assert len(kept) < len(TEXTS)
    assert kept.shape[1] == short.info.embedding_length
    assert np.array_equal(short.embed(TEXTS[:3])[: len(kept)], kept[:3])
    assert isinstance(caught.value, TimeoutError)
    assert "timeout=" in str(caught.value)


def test_an_interrupt_keeps_the_vectors_that_there_are(short: Any) -> None:
    """Ctrl-C between two texts: the first two are kept, and the message says so."""

    def strike(standing: Standing) -> None:
        if standing.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(lm.GenerationInterrupted, match="2 of 5 texts embedded") as caught:
        short.embed(TEXTS[:5], progress=strike)
    assert np.array_equal(caught.value.completion, short.embed(TEXTS[:2]))


def test_embed_says_how_far_it_is(short: Any) -> None:
    """A function is told each text that is done, of how many; without one nothing is printed of a few."""
    told: list[Standing] = []
    rows = short.embed(TEXTS[:4], progress=told.append)
    assert {(s.done, s.total, s.noun) for s in told} == {(done, 4, "text") for done in (1, 2, 3, 4)}
    assert told[-1].left_s == 0.0
    assert np.array_equal(rows, short.embed(iter(TEXTS[:4]), progress=False))


@pytest.mark.parametrize(
    ("ask", "kept"),
    [
        (lambda m: m.read(LONG, timeout=1e-4), ReadThrough),
        (lambda m: m.score(LONG, ["a"], timeout=1e-4), type(None)),
        (lambda m: m.xray(LONG, timeout=1e-4), type(None)),
        (lambda m: m.embed([LONG], timeout=1e-4), np.ndarray),
    ],
)
def test_a_time_out_leaves_the_model_usable(short: Any, ask: Callable[[Any], Any], kept: type) -> None:
    """Each of the calls ends with the error, also after a pool of processes; the next answer is as before."""
    before = short.complete("Once", max_tokens=2, seed=1)
    with pytest.raises(lm.OutOfTimeError, match=r"The time was up after 0\.0001 s") as caught:
        ask(short)
    assert short.complete("Once", max_tokens=2, seed=1).token_ids == before.token_ids
    assert type(caught.value.completion) is kept
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (lm.OutOfTimeError, str(caught.value))


def test_a_time_out_keeps_the_tokens_that_were_read(short: Any) -> None:
    """Of a reading that is stopped behind its first piece that piece is kept, and said."""
    text = LONG[:600]  # three pieces
    with pytest.raises(lm.OutOfTimeError, match="The time was up") as caught:
        short.read(text, timeout=1e-4)
    read = caught.value.completion
    assert read.interrupted
    whole = short.read(text).tokens
    assert read.tokens == whole[: len(read.tokens)]
    assert len(read.tokens) < len(whole)


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("bad", [0, -1.5, math.nan, math.inf, "3", True])
def test_a_timeout_that_is_none_is_refused(short: Any, name: str, bad: Any) -> None:
    """It is named before anything is read."""
    given = {"embed": ["a"], "score": ("a", ["b"]), "read": "a b", "xray": "a"}[name]
    arguments = given if isinstance(given, tuple) else (given,)
    with pytest.raises((lm.OptionError, lm.InputTypeError), match=r"timeout is .*; expected seconds"):
        getattr(short, name)(*arguments, timeout=bad)


def test_awaited_calls_give_what_the_others_give(short: Any) -> None:
    """At once and in any number; a NumPy number is seconds, too."""

    async def ask() -> Any:
        return await asyncio.gather(
            short.aembed(TEXTS[:3], timeout=np.float32(60)),
            short.ascore("The sky is", [" blue", " green"]),
            short.aread("The sky is blue.", timeout=60),
            short.axray("The sky is", seed=3, top_k=5),
            *(short.aembed(text) for text in TEXTS[:8]),
        )

    rows, scores, reading, trace, *others = asyncio.run(ask())
    assert np.array_equal(rows, short.embed(TEXTS[:3]))
    assert scores == short.score("The sky is", [" blue", " green"])
    assert reading == short.read("The sky is blue.")
    assert trace.drawn == short.xray("The sky is", seed=3, top_k=5).drawn
    assert np.array_equal(np.concatenate(others), short.embed(TEXTS[:8]))


def test_a_cancelled_task_stops_what_is_computed(short: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the cancellation no more texts are embedded, and the model answers others."""
    monkeypatch.setattr("llama_magic.model.bounded._END_S", WATCHDOG)  # for a thread that gets no core
    told: list[Standing] = []
    first = threading.Event()
    kept: list[Any] = []

    def tell(standing: Standing) -> None:
        told.append(standing)
        first.set()

    async def ask() -> None:
        task = asyncio.create_task(short.aembed(TEXTS, progress=tell))
        await asyncio.to_thread(first.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        kept.append(caught.value.completion)  # type: ignore[attr-defined]
        assert (await short.aembed("another")).shape[0] == 1

    asyncio.run(ask())  # it ends when the thread has
    assert told[-1].done < len(TEXTS)
    assert len(kept[0]) == told[-1].done > 0
    assert np.array_equal(kept[0][:1], short.embed(TEXTS[:1]))


def test_a_cancelled_call_that_does_not_hear_of_it_keeps_what_there_is() -> None:
    """What a thread has made is in the error though it goes on, as one without a core does."""
    done, goes_on, hears = [1], threading.Event(), threading.Event()

    def call() -> None:
        keep(lambda: GenerationInterrupted(list(done), f"{len(done)} is kept"))
        done.append(2)
        goes_on.set()
        hears.wait(WATCHDOG)

    async def ask() -> Any:
        task = asyncio.create_task(beside_the_loop("call", call))
        await asyncio.to_thread(goes_on.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        hears.set()
        return caught.value

    error = asyncio.run(ask())
    assert error.completion == [1, 2]
    assert "2 is kept" in "".join(error._render_traceback_())


def test_a_reading_says_what_there_is_while_it_goes_on(short: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As vectors do: another thread may ask at any time, and gets tokens with their text."""
    told: list[Any] = []
    monkeypatch.setattr("llama_magic.microscope.reading.keep", told.append)
    read = short.read("The sky is blue.")
    assert told[0]().completion.tokens == read.tokens
    assert told[0]().completion.text == read.text


def test_what_is_quick_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal vectors are first spoken of after a second, rows of a map at once."""

    class Terminal:
        period = 0.4

        def __init__(self) -> None:
            self.shown: list[int] = []

        def show(self, results: Any, standing: Standing) -> None:
            self.shown.append(standing.done)

        def end(self, results: Any, standing: Standing) -> None:
            pass

    now = [100.0]
    monkeypatch.setattr(watching, "time", SimpleNamespace(monotonic=lambda: now[0]))
    made, host = Vectors(9, 1), Terminal()
    monkeypatch.setattr(watching, "host_now", lambda: host)
    with watching.watching(made, True) as tick:
        for moment in (100.1, 100.9, 101.1, 101.2, 101.6):
            now[0] = moment
            made.put([np.zeros(1)])
            tick()
    assert host.shown == [3, 5]


def test_a_time_out_of_an_awaited_call(short: Any) -> None:
    """It is the same error with the same rows kept, and another task of the loop is not disturbed."""

    async def ask() -> Any:
        bounded = short.aembed(TEXTS, timeout=0.2)
        return await asyncio.gather(bounded, short.aembed(TEXTS[:2]), return_exceptions=True)

    error, rows = asyncio.run(ask())
    assert isinstance(error, lm.OutOfTimeError)
    assert np.array_equal(error.completion[:2], rows[: len(error.completion)])


def test_looking_at_an_answer_takes_a_time(short: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`xray` and `alternatives` of a step give with a timeout what they give without, and refuse none."""
    answer = short.complete("Once upon", max_tokens=4, seed=1)
    assert answer.xray(1, timeout=600).drawn == answer.xray(1).drawn
    assert answer.alternatives(1, k=2, timeout=600) == answer.alternatives(1, 2)
    for look_at in (answer.xray, answer.alternatives):
        with pytest.raises(lm.OptionError, match="timeout is 0"):
            look_at(1, timeout=0)
    monkeypatch.setattr(short.backend.steps, "kept", lambda number: False)  # so they are read again
    with pytest.raises(lm.OutOfTimeError, match="step 3 was not read again to its end"):
        answer.xray(3, timeout=1e-4)


def test_long_works_take_a_time(short: Any) -> None:
    """`verify` and `bench` end in time, and keep what they have; so does an interrupt."""
    answers = [short.complete(text, max_tokens=3, seed=1) for text in TEXTS[:4]]
    with pytest.raises(lm.OutOfTimeError, match="0 of 4 answers were written again, 0 equal") as caught:
        lm.verify(answers, model=short, timeout=1e-4)
    assert caught.value.completion.total == 0

    def strike(verdict: Any, every: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(
        lm.GenerationInterrupted, match="1 of 4 answers were written again, 1 equal"
    ) as stopped:
        lm.verify(answers, model=short, told=strike)
    assert stopped.value.completion.verdicts[0].where == "answer 1"
    assert bool(lm.verify(answers, model=short, timeout=600))
    with pytest.raises(lm.OutOfTimeError, match="nothing was measured yet"):
        lm.bench(short, n_prompt=8, n_gen=4, timeout=1e-4)
    assert len(lm.bench(short, n_prompt=8, n_gen=4, repetitions=1, timeout=600).speeds) == 2


# --- what bounds a thread -------------------------------------------------------------------------


def test_a_bound_is_reached_once() -> None:
    """What a stopped call still has to do waits as long as it must; the bound outside of it holds on."""
    latch = Latch()
    with Bound(1000) as outer:
        with Bound(1e-9) as inner:
            with pytest.raises(Reached):
                latch.wait_long()
            assert look() > 0  # once
        assert (inner.reached, outer.reached) == (True, False)
        outer.end()
        with pytest.raises(Reached):
            look()
    assert look() > 0


def test_a_bound_is_of_its_thread_alone() -> None:
    """Another thread waits on, and one that waits for a lock hears of its own bound."""
    lock = threading.RLock()
    free = threading.Event()
    inside = threading.Event()

    def hold() -> None:
        with held(lock):
            inside.set()
            free.wait()

    other = threading.Thread(target=hold)
    other.start()
    inside.wait()
    with Bound(1e-9), pytest.raises(Reached), held(lock):
        raise AssertionError("the lock was held by another thread")
    free.set()
    other.join()
    with held(lock):
        pass


def test_vectors_of_nothing() -> None:
    """No text is a matrix of no rows, as wide as the model's; a row of zeros stays."""
    assert Vectors(0, 7).matrix(True).shape == (0, 7)
    made = Vectors(2, 3)
    made.put([np.zeros(3), np.array([3.0, 0, 4])])
    assert made.matrix(True).tolist() == [[0, 0, 0], [np.float32(0.6), 0, np.float32(0.8)]]
    assert made.missing == 0


def test_progress_that_cannot_be_meant_is_refused(short: Any) -> None:
    """As of a map: True, False or a function."""
    with pytest.raises(lm.InputTypeError, match="progress is 'bar'; expected True, False, or a function"):
        short.embed(["a"], progress="bar")
