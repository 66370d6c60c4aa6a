"""Who is admitted to a lane, who is sent back, and what ends there; over a context in memory."""

from __future__ import annotations

from typing import Any

import pytest
from fake_context import Asked, FakeContext, FakeRecurrentContext, GreedyChain, lane_of, run

from llama_magic.engine.contexts import CUT
from llama_magic.engine.lanes import running
from llama_magic.engine.lanes.composing import BUSY_CHUNK, TILE
from llama_magic.engine.lanes.exact import ExactLane
from llama_magic.engine.lanes.lane import READ_CHUNK
from llama_magic.engine.lanes.shared import SharedLane
from llama_magic.engine.lanes.together import TogetherLane
from llama_magic.errors import BackendError


@pytest.fixture(autouse=True)
def _greedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "SamplerChain", GreedyChain)


def of(lane: Any) -> list[Any]:
    """Return the jobs whose samples run, one for each of them."""
    return [sample.job for sample in lane.running]


# --- room ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("short", [0, 1])
def test_a_job_comes_in_where_its_cells_suffice_to_the_end(short: int) -> None:
    """Its prompt, all that it may write and one more, beside what those that run may still need."""
    first, second = Asked([1, 2, 3], 10), Asked([4, 5], 7)
    lane = lane_of(SharedLane, FakeContext(14 + 10 - short, 4))
    for one in (first, second):
        lane.submit(one.job)
    lane.step()
    assert of(lane) == ([first.job] if short else [first.job, second.job])
    run(lane)
    assert [first.written, second.written] == [first.expected, second.expected]


@pytest.mark.parametrize("short", [0, 1])
@pytest.mark.parametrize("kind", [SharedLane, ExactLane])
@pytest.mark.parametrize("made", [FakeContext, FakeRecurrentContext])
def test_samples_share_the_cells_of_their_prompt(kind: Any, made: Any, short: int) -> None:
    """But for its last token; a recurrent state is not shared, there each sample needs all of its own."""
    one = Asked([1, 2, 3, 4], 6, n=2)
    need = 11 + (11 if made is FakeRecurrentContext else 8)
    lane = lane_of(kind, made(need - short, 4, batch=CUT))
    lane.submit(one.job)
    for _ in range(2):
        lane.step()
    assert len(lane.running) == 2 - short
    run(lane)
    assert one.written == one.expected


@pytest.mark.parametrize("kind", [SharedLane, ExactLane])
@pytest.mark.parametrize("together", [False, True])
def test_prompts_of_a_recurrent_model_share_their_beginning(kind: Any, together: bool) -> None:
    """A copy of its state is kept where they part, and near the end of each: the rest alone is read."""
    context = FakeRecurrentContext(1024, 6, batch=CUT)
    lane = lane_of(kind, context)
    head = [*range(1, 12)] * 12  # 132
    asked = [Asked([*head, *[i] * (80 + i)], 2) for i in range(3)]
    for one in asked:
        lane.submit(one.job)
        if not together:
            run(lane)
    run(lane)
    assert [one.written for one in asked] == [one.expected for one in asked]
    lengths = [len(one.job.request.prompt) for one in asked]
    if together:  # the first sees that others wait
        assert context.decoded == sum(lengths) - 2 * 2 * CUT + 3
    else:  # the first knew of none, the second has kept it
        assert context.decoded == sum(lengths) - 2 * CUT + 3
    before = context.decoded
    again = Asked([*asked[1].job.request.prompt, 5], 2)
    lane.submit(again.job)
    run(lane)
    assert again.written == again.expected
    assert context.decoded - before == lengths[1] + 1 - 3 * CUT + 1


@pytest.mark.parametrize("short", [0, 1])
def test_samples_that_reuse_nothing_share_nothing(short: int) -> None:
    """Where reuse is switched off, each reads the prompt for itself and needs its own cells."""
    one = Asked([1, 2, 3, 4], 6, n=2, reuse=False)
    context = FakeContext(22 - short, 4)
    lane = lane_of(SharedLane, context)
    lane.submit(one.job)
    for _ in range(2):
        lane.step()
    assert len(lane.running) == 2 - short
    run(lane)
    assert one.written == one.expected
    assert context.decoded == 2 * (4 + 5)


def test_a_short_job_does_not_overtake_a_long_one() -> None:
    """Or the long one might wait for ever; first come, first served, samples in their order."""
    lane = lane_of(SharedLane, FakeContext(64, 6))
    first, long, short = Asked([1, 2], 30), Asked([3, 4], 40), Asked([5], 2)
    for one in (first, long, short):
        lane.submit(one.job)
    lane.step()
    assert of(lane) == [first.job]
    assert [sample.job for sample in lane.waiting] == [long.job, short.job]
    run(lane)
    assert [one.written for one in (first, long, short)] == [one.expected for one in (first, long, short)]


def test_samples_that_wait_for_their_prompt_let_others_pass_and_keep_their_places() -> None:
    """While the first sample reads, the others of its job wait, and a job behind them may begin."""
    lane = lane_of(SharedLane, FakeContext(512, 8))
    many, other = Asked([i % 5 for i in range(30)], 4, n=3), Asked([9, 9], 4)
    for one in (many, other):
        lane.submit(one.job)
    lane.step()
    assert [(sample.job, sample.index) for sample in lane.running] == [(many.job, 0), (other.job, 0)]
    assert [(sample.job, sample.index) for sample in lane.waiting] == [(many.job, 1), (many.job, 2)]
    run(lane)
    assert [many.written, other.written] == [many.expected, other.expected]


@pytest.mark.parametrize("kind", [SharedLane, ExactLane, TogetherLane])
def test_a_prompt_is_read_once_for_all_samples(kind: Any) -> None:
    """Each decodes its last token again, for its own logits; then all that it writes but the last."""
    one = Asked([i % 7 for i in range(150)], 5, n=3)
    context = FakeContext(512, 6, batch=CUT)
    lane = lane_of(kind, context)
    lane.submit(one.job)
    run(lane)
    assert one.written == one.expected
    assert context.decoded == 150 + 2 + 3 * 4


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("kind", [SharedLane, ExactLane, TogetherLane])
@pytest.mark.parametrize("made", [FakeContext, FakeRecurrentContext])
def test_samples_begin_together(made: Any, kind: Any, reuse: bool) -> None:
    """All in the step after their prompt was read: ten take a step more than one."""
    one = Asked([1, 2, 3, 4], 6, n=10, reuse=reuse)
    lane = lane_of(kind, made(512, 12, batch=CUT))
    lane.submit(one.job)
    steps = 0
    while lane.busy:
        lane.step()
        steps += 1
    assert one.written == one.expected
    assert steps <= 7


def test_seeded_prompts_are_read_between_cuts() -> None:
    """No batch takes tokens of a prompt from both sides of one, also where writing takes some of its room."""
    context = FakeRecurrentContext(2048, 6, batch=CUT)
    lane = lane_of(ExactLane, context)
    one = Asked([i % 7 for i in range(300)], 9, n=3)
    lane.submit(one.job)
    while lane.busy:
        before = {id(sample): sample.n_past for sample in lane.running}
        lane.step()
        for sample in lane.running:
            start, end = before.get(id(sample), 0), min(sample.n_past, sample.n_prompt)
            assert start >= end or start // CUT == (end - 1) // CUT
    assert one.written == one.expected


def test_prompts_are_read_in_smaller_chunks_in_company() -> None:
    """Beside running answers of this model, and of another one."""
    for company, others, chunk in ((False, 0, READ_CHUNK), (True, 0, BUSY_CHUNK), (False, 1, BUSY_CHUNK)):
        lane = lane_of(SharedLane, FakeContext(2048, 5, batch=512))
        for _ in range(others):
            lane.submit(Asked([3], 50).job)
            lane.step()
        lane.company = company
        lane.submit(Asked([i % 5 for i in range(500)], 3).job)
        lane.step()
        assert lane.running[-1].n_past == chunk


def no_context() -> Any:
    """As what makes a context where there is no memory for one."""
    raise BackendError("No room.")


@pytest.mark.parametrize("apart", [False, True])
def test_reading_and_writing_take_turns_where_they_are_kept_apart(apart: bool) -> None:
    """No batch then has both, who comes is read first, and both go on in turn; answers are the same."""
    context = FakeContext(2048, 5, batch=512)
    lane = lane_of(SharedLane, context, make_reader=no_context if apart else None)
    kinds: list[str] = []
    decode = context.decode

    def noted(tokens: Any, positions: Any, sequences: Any, outputs: Any) -> Any:
        counts = [sequences.count(sequence) for sequence in dict.fromkeys(sequences)]
        kinds.append("both" if 1 in counts and max(counts) > 1 else "read" if max(counts) > 1 else "write")
        return decode(tokens, positions, sequences, outputs)

    context.decode = noted  # type: ignore[method-assign]
    first, second = Asked([3, 4], 20), Asked([i % 5 for i in range(3 * BUSY_CHUNK)], 6)
    lane.submit(first.job)
    lane.step()
    lane.submit(second.job)
    run(lane)
    reading = ["read", "write", "read", "write", "read"] if apart else ["both"] * 3
    assert kinds[: 2 + len(reading)] == ["read", *reading, "write"]
    assert "write" in kinds
    assert [first.written, second.written] == [first.expected, second.expected]
    kinds.clear()
    third, fourth = Asked([4, 3], 20), Asked([i % 4 for i in range(TILE - 2)], 6)
    lane.submit(third.job)
    lane.step()
    lane.submit(fourth.job)
    run(lane)
    assert kinds[:3] == ["read", "both", "write"]  # few rows stay together: no tile is filled
    assert [third.written, fourth.written] == [third.expected, fourth.expected]


# --- crowds -------------------------------------------------------------------------------------


def crowded() -> tuple[Any, list[Asked]]:
    """Return a lane that miscounted, right after the second of two jobs was sent back; a third waits."""
    lane = lane_of(SharedLane, FakeContext(24, 4))
    lane.fits = lambda sample: len(lane.running) < 2
    some = [Asked([i + 1, 2], 15) for i in range(3)]
    for one in some:
        lane.submit(one.job)
    while len(lane.running) != 1:
        lane.step()
    return lane, some


def test_the_youngest_is_sent_back_and_comes_first_again() -> None:
    """With nothing left in its slot, which is free. It waits until another has ended, and loses nothing."""
    lane, (first, second, third) = crowded()
    assert of(lane) == [first.job]
    assert [sample.job for sample in lane.waiting] == [second.job, third.job]
    assert lane.context.used() == lane.running[0].n_past
    assert [slot.in_use for slot in lane.kv.slots] == [slot is lane.running[0].slot for slot in lane.kv.slots]
    assert len(second.written[0]) > 0
    while first.job in of(lane):
        assert of(lane) == [first.job]
        lane.step()
    lane.step()
    assert of(lane)[0] == second.job
    run(lane)
    assert [one.written for one in (first, second, third)] == [one.expected for one in (first, second, third)]


def test_idle_sequences_go_before_a_running_one_is_sent_back() -> None:
    """Cells that nobody uses are freed first: both answers are written side by side to the end."""
    lane = lane_of(SharedLane, FakeContext(48, 5))
    pair = [Asked([15, i], 20) for i in range(2)]
    for one in pair:
        lane.submit(one.job)
        lane.step()
    idle = lane.kv.slots[2]
    assert lane.context.write(idle.sequence, 0, [7] * 16)
    idle.extend([7] * 16, 16)
    while lane.busy:
        assert not lane.waiting
        lane.step()
    assert idle.tokens == []
    assert [one.written for one in pair] == [one.expected for one in pair]


def test_one_alone_that_finds_no_cells_is_an_error() -> None:
    """There is nobody to send back, and the guard had counted."""
    lane = lane_of(SharedLane, FakeContext(8, 4))
    lane.submit(Asked([1, 2, 3], 20).job)
    with pytest.raises(BackendError, match="8 cells"):
        run(lane)


def test_after_an_error_there_is_no_crowd() -> None:
    """A job comes in beside another at once, though one was sent back before the error."""
    lane, some = crowded()
    samples = lane.samples
    lane.fail(RuntimeError("lost"))
    assert [type(one.error) for one in some] == [RuntimeError] * 3
    assert all(sample.done for sample in samples)
    assert [sample.chain.closed for sample in samples[:2]] == [True, True]
    for one in (Asked([1], 9), Asked([2], 9)):
        lane.submit(one.job)
        lane.step()
    assert len(lane.running) == 2


# --- jobs that fail -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SharedLane, ExactLane])
def test_a_constraint_that_does_not_open_ends_its_job_alone(kind: Any) -> None:
    """All samples of it, those that wait too, before anything is decoded; its slot is free."""
    error = ValueError("no such schema")

    class Never:
        kind = "json"

        def start(self) -> Any:
            raise error

    never = Never()
    lane = lane_of(kind, FakeContext(64, 4))
    lost = Asked([1, 2], 5, n=3)
    lost.job.request.constraint = never
    lane.submit(lost.job)
    lane.step()
    assert lost.error is error
    assert (lane.busy, lane.context.decoded) == (False, 0)
    assert not any(slot.in_use for slot in lane.kv.slots)
    beside, again = Asked([3, 4], 5), Asked([1, 2], 5, n=2)
    again.job.request.constraint = never
    lane.submit(beside.job)
    lane.step()
    lane.submit(again.job)
    run(lane)
    assert again.error is error
    assert beside.written == beside.expected


def test_logits_that_fail_end_their_job_alone() -> None:
    """In the middle of a batch with others, whose answers are what they would be."""
    context = FakeContext(64, 4)
    lane = lane_of(SharedLane, context)
    lost, beside = Asked([1, 2], 9, n=2), Asked([3, 4], 9)
    for one in (lost, beside):
        lane.submit(one.job)
    for _ in range(3):
        lane.step()
    lost.job.request.logprobs = -1  # no such number of likeliest tokens
    run(lane)
    assert isinstance(lost.error, Exception)
    assert beside.written == beside.expected
