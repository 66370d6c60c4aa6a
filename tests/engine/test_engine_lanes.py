"""The lanes over a context in memory: what a job is answered does not depend on what else ran, or runs."""

from __future__ import annotations

from typing import Any

import pytest
from fake_context import Asked, FakeContext, FakeRecurrentContext, GreedyChain, lane_of, quiet, run
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_magic.engine.lanes import running
from llama_magic.engine.lanes.exact import ExactLane
from llama_magic.engine.lanes.lanes import Lanes
from llama_magic.engine.lanes.shared import SharedLane
from llama_magic.engine.lanes.together import TogetherLane
from llama_magic.request.events import FinishEvent


@pytest.fixture(autouse=True)
def _greedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "SamplerChain", GreedyChain)


BASE = [i * i % 7 for i in range(90)]
prompts = st.builds(
    lambda shared, own: BASE[:shared] + own or [0],
    st.integers(0, 90),
    st.lists(st.integers(0, 1), max_size=3),
)
jobs = st.lists(
    st.tuples(prompts, st.integers(1, 8), st.integers(1, 3), st.booleans(), st.integers(0, 20)),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize(
    ("kind", "made"),
    [(kind, made) for kind in (SharedLane, ExactLane) for made in (FakeContext, FakeRecurrentContext)]
    + [(TogetherLane, FakeContext)],
)
@pytest.mark.parametrize("miscounts", [False, True])
@settings(max_examples=40)
@given(asked=jobs)
def test_every_answer_is_that_of_a_fresh_engine(
    kind: Any, made: Any, miscounts: bool, asked: list[Any]
) -> None:
    """Prompts with common beginnings, samples, jobs in the middle of others, few slots, and few cells.

    Where cells are miscounted, llama.cpp finds none at times, and samples are sent back.
    """
    lane = lane_of(kind, made(128, 5))
    if miscounts:
        lane.fits = lambda _running: True
    given_ = [(Asked(prompt, length, n, reuse=reuse), steps) for prompt, length, n, reuse, steps in asked]
    for one, steps in given_:
        lane.submit(one.job)
        for _ in range(steps):
            lane.step()
    run(lane)
    for one, _ in given_:
        assert one.error is None
        assert one.written == one.expected
    if kind is not TogetherLane:  # which pins what is let go
        assert all(lane.context.held(sequence) == [] for sequence in lane.kv.helpers)


class _GoesOn(FakeContext):
    """As llama.cpp 0.3.36 does: after a restore new cells are looked for behind the restored ones."""

    def restore_sequence(self, sequence: int, state: bytes) -> bool:
        restored = super().restore_sequence(sequence, state)
        self.head = max([*self.places(sequence), -1]) + 1
        return restored


@pytest.mark.parametrize("window", [0, 16])
@settings(max_examples=60)
@given(asked=jobs, cells=st.integers(110, 300))
def test_seeded_jobs_that_run_together_lie_in_order(window: int, asked: list[Any], cells: int) -> None:
    """Whatever came and went, each sequence lies as it would alone: every cell behind those before it.

    What was restored, shared, laid anew or given up on the way leaves it so, and the answers are those of
    a fresh engine.
    """
    lane = lane_of(TogetherLane, _GoesOn(cells, 6, window))

    def step() -> None:
        lane.step()
        for running_ in lane.running:
            places = lane.context.places(running_.slot.sequence)
            assert places == sorted(places)
            assert len(places) == running_.n_past

    given_ = [(Asked(prompt, length, n, reuse=reuse), steps) for prompt, length, n, reuse, steps in asked]
    for one, steps in given_:
        lane.submit(one.job)
        for _ in range(steps):
            step()
    while lane.busy:
        step()
    for one, _ in given_:
        assert one.written == one.expected


def test_idle_sequences_leave_the_cells_when_a_job_starts() -> None:
    """They are in host memory then, and another job of theirs takes them from there."""
    lane = lane_of(SharedLane, FakeContext(512, 6))
    for prompt in (BASE, [9, *BASE]):
        one = Asked(prompt, 2)
        lane.submit(one.job)
        run(lane)
    assert [slot.tokens[:1] for slot in lane.kv.idle] == [[9]]
    assert [entry.tokens[:1] for entry in lane.kv.store.entries] == [BASE[:1]]
    again = Asked([*BASE, 5], 2)
    lane.submit(again.job)
    run(lane)
    assert again.job.stats.cached_tokens == len(BASE)
    assert again.written == again.expected


def test_a_second_prompt_reads_only_what_is_new() -> None:
    """All behind the common beginning, but where seeded jobs run one at a time all behind the last cut."""
    prompt = [i % 5 for i in range(150)]
    for kind, cached in ((SharedLane, 150), (ExactLane, 128), (TogetherLane, 150)):
        lane = lane_of(kind, FakeContext(512, 5, batch=64))
        first, second, cold = Asked(prompt, 2), Asked([*prompt, 9, 9], 2), Asked([*prompt, 9], 2, reuse=False)
        for one in (first, second, cold):
            lane.submit(one.job)
            run(lane)
            assert one.written == one.expected
        assert (first.job.stats.cached_tokens, second.job.stats.cached_tokens) == (0, cached)
        assert cold.job.stats.cached_tokens == 0


def test_what_one_of_very_many_leaves_is_not_parked() -> None:
    """It is shared while it lies in the cells, and gone when it has to make room."""
    lane = lane_of(SharedLane, FakeContext(512, 6))
    kept, passing = Asked(BASE, 2), Asked([*BASE, 3], 2)
    passing.job.request.keep = False
    other = Asked([9], 2)
    for one in (passing, kept, other):
        lane.submit(one.job)
        run(lane)
        assert one.written == one.expected
    assert kept.job.stats.cached_tokens == len(BASE) - 1
    assert [entry.tokens[: len(BASE)] for entry in lane.kv.store.entries] == [BASE]
    lane = lane_of(SharedLane, FakeContext(512, 6))
    for one in (passing := Asked(BASE, 2), Asked([9], 2)):
        passing.job.request.keep = False
        lane.submit(one.job)
        run(lane)
    assert lane.kv.store.entries == []


@pytest.mark.parametrize(("own", "waits"), [(1, True), (30, True), (300, False)])
def test_what_is_being_read_is_waited_for_and_shared(own: int, waits: bool) -> None:
    """A prompt whose beginning another job is reading waits for it where that is a good part of it."""
    lane = lane_of(SharedLane, FakeContext(1024, 6, batch=64))
    first = Asked([i % 5 for i in range(90)], 2)
    second = Asked([*(i % 5 for i in range(80)), *(9 + i % 3 for i in range(own))], 2)
    for one in (first, second):
        lane.submit(one.job)
    run(lane)
    assert [one.written for one in (first, second)] == [first.expected, second.expected]
    assert (second.job.stats.cached_tokens >= 80) == waits


def test_a_cancelled_job_ends_and_the_others_go_on() -> None:
    """One that waits ends as well, and what was written is told."""
    lane = lane_of(SharedLane, FakeContext(64, 4))
    some = [Asked([1, i], 20) for i in range(4)]
    for one in some:
        lane.submit(one.job)
    for _ in range(5):
        lane.step()
    lane.cancel(some[0].job)
    lane.cancel(some[3].job)
    run(lane)
    for index, one in enumerate(some):
        (written,), (expected,) = one.written, one.expected
        assert one.error is None
        assert written == (expected if index in (1, 2) else expected[: len(written)])
    assert 0 < len(some[0].written[0]) < 20
    assert some[3].written == [[]]


@pytest.mark.parametrize("kind", [SharedLane, ExactLane, TogetherLane])
def test_a_step_goes_on_until_somebody_rings_or_an_answer_ends(kind: Any) -> None:
    """Then who waits comes in, and who was cancelled goes; each token is told in its turn, and none twice."""
    lane = lane_of(kind, FakeContext(64, 4))
    first, second, third = some = [Asked([1, 2], 9, n=2), Asked([1, 2, 3], 20), Asked([5], 3)]
    first.job.request.speculate = second.job.request.speculate = kind is not ExactLane
    lane.submit(first.job)
    lane.step(quiet(3))
    lane.step(quiet(100))
    assert [len(written) for written in first.written] == [9, 8]
    lane.step(quiet(100))
    assert (first.written, lane.busy) == (first.expected, False)

    def rung() -> bool:
        if len(second.written[0]) == 5:
            lane.submit(third.job)
            lane.cancel(second.job)
        return len(second.written[0]) < 6

    lane.submit(second.job)
    lane.step(rung)
    assert [event.reason for event in second.events if isinstance(event, FinishEvent)] == ["interrupted"]
    assert second.written == [second.expected[0][:5]]
    lane.step(quiet(2))
    assert third.written == third.expected
    assert [one.error for one in some] == [None] * 3


def test_an_error_ends_every_job_and_leaves_an_empty_cache() -> None:
    """The next job is answered as by a fresh engine."""
    lane = lane_of(SharedLane, FakeContext(64, 4))
    lost = [Asked([1, 2], 20), Asked([3], 20, n=2)]
    for one in lost:
        lane.submit(one.job)
    lane.step()
    error = RuntimeError("lost")
    lane.fail(error)
    assert [one.error for one in lost] == [error, error]
    assert (lane.busy, lane.kv.used, lane.context.used()) == (False, 0, 0)
    again = Asked([1, 2], 3)
    lane.submit(again.job)
    run(lane)
    assert again.written == again.expected


def test_lanes_are_those_that_were_made() -> None:
    """Before its first job a lane is none; iteration and names leave it out."""
    lanes = Lanes()
    assert (list(lanes), lanes.named) == ([], ())
    lanes.exact = lane_of(ExactLane, FakeContext(64, 4))
    assert (list(lanes), lanes.named) == ([lanes.exact], (("seeded", lanes.exact),))
    lanes.shared = lane_of(SharedLane, FakeContext(64, 4))
    assert [name for name, _ in lanes.named] == ["main", "seeded"]
    lanes.clear()
    assert list(lanes) == []
