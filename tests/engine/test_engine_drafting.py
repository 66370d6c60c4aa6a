"""Guesses: what is tried, what that may cost, and that a lane with guesses answers as one without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fake_context
import pytest
from fake_context import Asked, FakeContext, FakeRecurrentContext, GreedyChain, lane_of, run
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_magic.engine.lanes import running
from llama_magic.engine.lanes.guesses import FAR_LOSS, ROW, SHARE, Drafter
from llama_magic.engine.lanes.shared import SharedLane
from llama_magic.engine.lanes.together import TogetherLane

COPY = [*range(10), 3, 5, 1, 9, 2]


@pytest.fixture(autouse=True)
def _greedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "SamplerChain", GreedyChain)


def _copies(period: int, breaks: int) -> Any:
    """Return a model that repeats what stood `period` tokens before, but for every `breaks`-th token."""

    def following(tokens: Sequence[int]) -> int:
        if len(tokens) < period or len(tokens) % breaks == 0:
            return sum((i + 3) * (token + 1) for i, token in enumerate(tokens[-40:])) % fake_context.N_VOCAB
        return tokens[-period]

    return following


def test_wrong_guesses_cost_no_more_than_is_allowed() -> None:
    """A text that repeats itself and never goes on as before loses a token in a hundred, once some more."""
    drafter, tokens, lost = Drafter(), COPY * 20, 0.0
    for written in range(2000):
        guesses = drafter.guess(tokens, written, 17)
        drafter.left = list(guesses)
        tokens = [*tokens, COPY[written % 15]]  # as if it repeated itself, but ...
        if guesses:
            drafter.strike()
            drafter.settle(len(guesses), 0)
            lost += ROW * len(guesses)
        assert lost <= FAR_LOSS + SHARE * written
    assert lost > FAR_LOSS / 2  # there were some


def test_nothing_is_guessed_before_six_tokens_are_alike() -> None:
    """Then as many as may be lost, and never more than twice of what is alike, or than is asked for."""
    assert Drafter().guess([*COPY, *COPY[:5]], 1, 17) == []
    assert Drafter().guess([*COPY, *COPY[:6]], 1, 17) == COPY[6:9]
    assert Drafter().guess([*COPY, *COPY[:6]], 1, 2) == []  # two rows more cost nearly two tokens
    assert Drafter().guess([*COPY, *COPY[:6]], 1, 0) == []


def test_a_text_that_goes_on_repeating_itself_is_guessed_to_its_end() -> None:
    """Ten thousand tokens of it; one that differs then costs no more than the guesses on their way."""
    drafter, tokens = Drafter(), [*COPY, *COPY[:6]]
    while len(tokens) < 10_000:
        guesses = drafter.guess(tokens, len(tokens), 17)
        assert guesses == [COPY[(len(tokens) + i) % 15] for i in range(len(guesses))]
        assert guesses
        drafter.settle(len(guesses), len(guesses))
        tokens += [*guesses, COPY[(len(tokens) + len(guesses)) % 15]]
    assert len(guesses) == 15  # with the token before them, rows by fours
    drafter.settle(15, 0)
    assert len(drafter.guess([*tokens, 15, *COPY[:6]], len(tokens), 17)) < 15


def test_a_copy_goes_on_behind_a_changed_word() -> None:
    """One token after it is enough, where guesses have paid; the word is guessed as it was changed."""
    drafter = Drafter()
    tokens = [*COPY, *COPY[:6]]
    drafter.left = drafter.guess(tokens, 1, 17)
    drafter.settle(3, 3)
    tokens += [*COPY[6:9], 15]  # in place of COPY[9]
    assert drafter.guess(tokens, 4, 17) == []
    tokens += COPY[10:11]
    assert drafter.guess(tokens, 5, 17) == [*COPY[11:13], 15]  # in place of COPY[13], which is COPY[9]


def test_what_was_drawn_is_told_from_what_was_guessed() -> None:
    """The first that differs ends all guesses behind it."""
    drafter = Drafter()
    drafter.left = [1, 2, 3, 4]
    assert drafter.hear(1) == (True, ())
    assert drafter.hear(7) == (False, (2, 3, 4))
    assert drafter.hear(2) == (False, ())


@pytest.mark.parametrize("kind", [SharedLane, TogetherLane])
@settings(max_examples=60)
@given(
    period=st.integers(7, 20),
    breaks=st.integers(2, 40),
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=3),
    n=st.integers(1, 3),
    steps=st.integers(0, 30),
)
def test_guesses_change_no_answer(
    monkeypatch: pytest.MonkeyPatch,
    kind: Any,
    period: int,
    breaks: int,
    lengths: list[int],
    n: int,
    steps: int,
) -> None:
    """Copies with breaks, several jobs, samples, jobs that come and are stopped in between: cells agree.

    Together, every sequence lies in order: behind what others guessed wrongly, too.
    """
    monkeypatch.setattr(fake_context, "next_token", _copies(period, breaks))
    lane = lane_of(kind, FakeContext(512, 6, batch=12))
    asked = [Asked([*COPY, i, *COPY], length, n) for i, length in enumerate(lengths)]
    for one in asked:
        lane.submit(one.job)
        for _ in range(steps):
            lane.step()
            if kind is SharedLane:
                assert lane.kv.used == lane.context.used()
            else:
                places = [lane.context.places(r.slot.sequence) for r in lane.running]
                assert places == [sorted(one) for one in places]
    stopped = Asked([*COPY, *COPY], 50)
    lane.submit(stopped.job)
    for _ in range(3):
        lane.step()
    lane.cancel(stopped.job)
    run(lane)
    for one in asked:
        assert one.error is None
        assert one.written == one.expected
    (written,) = stopped.written
    assert written == stopped.expected[0][: len(written)]
    for one in (*asked, stopped):
        stats, told = one.job.stats, [event for event in one.events if hasattr(event, "struck")]
        assert stats.accepted == sum(getattr(event, "guessed", False) for event in told)
        assert stats.drafted == stats.accepted + sum(len(event.struck) for event in told)


def test_a_copy_takes_fewer_decodes() -> None:
    """Sixty tokens that repeat the prompt come in 10 decodes, two of them of the prompt; without, in 61."""
    for speculate, most in ((True, 10), (False, 61)):
        context = FakeContext(512, 6, batch=18)
        lane = lane_of(SharedLane, context)
        one = Asked(COPY * 2, 60)
        one.job.request.speculate = speculate
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fake_context, "next_token", _copies(15, 1000))
            lane.submit(one.job)
            decodes = 0
            while lane.busy:
                lane.step()
                decodes += 1
        assert one.written == [(COPY * 4)[:60]]
        assert decodes == most, decodes
        assert (one.job.stats.drafted > 0) == speculate


def test_a_state_that_cannot_be_taken_back_is_not_guessed_with() -> None:
    """A recurrent model decodes token by token."""
    lane = lane_of(SharedLane, FakeRecurrentContext(512, 6, batch=18))
    one = Asked(COPY * 3, 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake_context, "next_token", _copies(15, 1000))
        lane.submit(one.job)
        run(lane)
    assert one.written == [(COPY * 3)[:40]]
    assert one.job.stats.drafted == 0
