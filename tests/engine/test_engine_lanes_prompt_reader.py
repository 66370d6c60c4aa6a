"""Prompts that are read in a small context of their own, while the cells of others are many."""

from __future__ import annotations

from typing import Any

import pytest
from fake_context import Asked, FakeContext, FakeRecurrentContext, GreedyChain, lane_of, run

import llama_magic as lm
from llama_magic.engine.lanes import prompt_reader, running
from llama_magic.engine.lanes.composing import BUSY_CHUNK
from llama_magic.engine.lanes.shared import SharedLane
from llama_magic.engine.native import DecodeStatus
from llama_magic.errors import BackendError, FitError

MANY = [i % 7 for i in range(100)]  # the cells of these are many, here


@pytest.fixture(autouse=True)
def _greedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "SamplerChain", GreedyChain)
    monkeypatch.setattr(prompt_reader, "WORTH_FROM", len(MANY))


class Both:
    """A lane with an answer under way, and the context that it makes beside its own."""

    def __init__(self, size: int = 2048, room: int = 512, kind: type[FakeContext] = FakeContext) -> None:
        self.context = kind(size, 8, batch=512)
        self.small = FakeContext(room, 3, batch=256)
        self.made = 0
        self.lane = lane_of(SharedLane, self.context, make_reader=self.make)
        self.first = self.ask(MANY, 60)
        while self.lane.running == [] or self.lane.running[0].reading:
            self.lane.step()
        self.before = self.context.decoded

    def make(self) -> Any:
        self.made += 1
        return self.small

    def ask(self, prompt: list[int], length: int = 5) -> Asked:
        asked = Asked(prompt, length)
        self.lane.submit(asked.job)
        return asked

    def end(self, *asked: Asked) -> None:
        """All of them, and the first, write what a fresh engine would."""
        while self.lane.busy:
            self.lane.step()
        for one in (self.first, *asked):
            assert one.error is None
            assert one.written == one.expected


def prompt(length: int, first: int = 8) -> list[int]:
    return [first, *(i % 5 for i in range(length - 1))]


def test_a_prompt_is_read_beside_the_cells_of_others() -> None:
    """All but its last token, which is a row like those that are written."""
    both = Both()
    second = both.ask(prompt(300))
    both.end(second)
    assert both.small.decoded == 299
    assert both.context.decoded == both.before + 59 + 1 + 4
    assert second.job.stats.cached_tokens == 0
    assert both.small.used() == 0


def test_reading_apart_takes_turns_with_what_is_written() -> None:
    """A chunk, a step of the others, a chunk; twice as much where more prompts wait than one."""
    both = Both()
    both.ask(prompt(3 * BUSY_CHUNK))
    both.lane.step()
    assert (both.small.decoded, both.context.decoded) == (BUSY_CHUNK, both.before)
    both.lane.step()
    assert (both.small.decoded, both.context.decoded) == (BUSY_CHUNK, both.before + 1)
    both.ask(prompt(90, 9))
    both.lane.step()
    assert both.small.decoded == 3 * BUSY_CHUNK - 1


def test_what_is_less_than_a_tile_is_read_with_the_rest() -> None:
    """It would go row by row, which takes a third longer."""
    both = Both()
    both.ask(prompt(BUSY_CHUNK + 40))
    both.lane.step()
    assert both.small.decoded == BUSY_CHUNK + 39


def test_one_prompt_after_the_other_is_read_in_a_turn() -> None:
    """In the order in which they came, and none of them by the lane."""
    both = Both()
    asked = [both.ask(prompt(70, first)) for first in (8, 9, 10, 11)]
    both.lane.step()
    assert [one.n_past for one in both.lane.running[1:]] == [69, 69, 69, 0]  # no few rows of the fourth
    both.end(*asked)
    assert both.small.decoded == 4 * 69


def test_a_prompt_longer_than_the_small_context_is_read_on_by_the_lane() -> None:
    """What was read of it is carried over, and others are read meanwhile as their turn comes."""
    both = Both(room=128)
    long, other = both.ask(prompt(400)), both.ask(prompt(100, 9))
    both.end(long, other)
    assert both.small.decoded == 128 + 99


@pytest.mark.parametrize("why", ["few cells", "short", "begun", "recurrent"])
def test_a_prompt_is_read_by_the_lane_where_that_is_as_good(why: str) -> None:
    """No context is made for it."""
    kind = FakeRecurrentContext if why == "recurrent" else FakeContext
    both = Both(kind=kind)
    if why == "few cells":
        run(both.lane)
        both.first = both.ask([3], 60)
        both.lane.step()
    begun = MANY if why == "begun" else []
    second = both.ask([*begun, *prompt(60 if why == "short" else 200)])
    both.end(second)
    assert both.made == 0


@pytest.mark.parametrize("error", [BackendError("No memory."), FitError("No room.")])
def test_without_memory_for_it_the_lane_reads(error: Exception) -> None:
    """It is tried once."""
    context = FakeContext(2048, 8, batch=512)
    tried: list[int] = []

    def make() -> Any:
        tried.append(1)
        raise error

    lane = lane_of(SharedLane, context, make_reader=make)
    asked = [Asked([first, *MANY], 20) for first in (1, 2, 3)]
    for one in asked:
        lane.submit(one.job)
        lane.step()
    run(lane)
    assert [one.written for one in asked] == [one.expected for one in asked]
    assert tried == [1]


def test_what_cannot_be_carried_over_is_read_by_the_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once; the next prompt is read apart again."""
    both = Both()
    restore, refusals = both.context.restore_sequence, [False]
    monkeypatch.setattr(
        both.context, "restore_sequence", lambda *given: refusals.pop() if refusals else restore(*given)
    )
    second = both.ask(prompt(150))
    while len(both.lane.running) < 2 or both.lane.running[1].reading:
        both.lane.step()
    third = both.ask(prompt(120, 9))
    both.end(second, third)
    assert both.small.decoded == 149 + 119


def test_a_cancelled_prompt_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is decoded, too: the decode stops, nothing of it is carried over, and the others go on."""
    both = Both()
    second = both.ask(prompt(300))
    decode = both.small.decode

    def stopped(*given: Any) -> Any:
        both.lane.cancel(second.job)
        monkeypatch.setattr(both.small, "decode", decode)
        return DecodeStatus.ABORTED

    monkeypatch.setattr(both.small, "decode", stopped)
    both.lane.step()
    assert second.job.closed
    assert second.written == [[]]
    third = both.ask(prompt(100, 9))
    both.end(third)
    assert both.small.decoded == 99


def test_a_stop_and_a_close_reach_the_small_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its decode is stopped as the lane's is, and it is freed with it."""
    both = Both()
    flags: list[Any] = []
    monkeypatch.setattr(both.small, "watch", flags.append)
    closed: list[str] = []
    for name in ("small", "context"):
        monkeypatch.setattr(getattr(both, name), "close", lambda name=name: closed.append(name))
    second = both.ask(prompt(300))
    both.lane.step()
    (flag,) = flags
    assert flag.bytes[0] == b"\0" or not flag.bytes[0]
    both.lane.halt()
    assert flag.bytes[0] not in (0, b"\0")
    both.lane.close()
    assert sorted(closed) == ["context", "small"]
    assert second.job.closed


def test_an_error_ends_all_and_the_lane_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of the lane's own context does."""
    both = Both()
    second = both.ask(prompt(300))
    both.lane.step()
    both.lane.fail(BackendError("Broken."))
    assert isinstance(second.error, BackendError)
    both.first = both.ask(MANY, 60)
    both.end(both.ask(prompt(300)))


@pytest.mark.parametrize(
    ("name", "profile"), [("short", "balanced"), ("windowed", "balanced"), ("windowed", "memory")]
)
def test_what_was_read_apart_is_what_the_lane_would_have_read(path_of: Any, name: str, profile: str) -> None:
    """By the log-probabilities of what follows a prompt, sliding windows that are kept whole or not."""
    options: dict[str, Any] = {"max_tokens": 1000, "temperature": 0.8, "top_k": 1 << 20, "reuse": False}
    with lm.load(path_of(name), ctx=2048, threads=1, profile=profile) as model:
        ids = [model.tokenize(word)[-1] for word in (" winter", " stone", " river", "a")]
        text = [ids[(i * i) % 4] for i in range(290)]
        alone = model.complete(text, logprobs=3, **{**options, "max_tokens": 1})
        before = model.memory
        stream = model.complete([ids[0]] * 120, stream=True, ignore_eos=True, **options)
        next(iter(stream))
        beside = model.complete(text, logprobs=3, **{**options, "max_tokens": 1})
        lane = model.backend.call(lambda core: core.lanes.shared)
        assert lane.reader.context is not None
        added = model.memory["actual_prompt_reader"]
        assert added == pytest.approx(before["predicted_prompt_reader"], rel=0.1)
        assert model.memory["actual_total"] == before["actual_total"] + added
        stream.cancel()
        first, second = ({t: p for t, _, p in made.logprobs[0].top} for made in (alone, beside))
    common = first.keys() & second.keys()
    assert len(common) >= 2
    assert max(abs(first[token] - second[token]) for token in common) < 0.1
