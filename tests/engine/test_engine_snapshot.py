"""What the caches hold, as data: held against the context in memory itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from fake_context import Asked, FakeContext, FakeRecurrentContext, answered, core_over, run

from llama_magic.engine import moves
from llama_magic.engine.core import Core
from llama_magic.engine.snapshot import LaneState, snapshot

TEXT = [i * i % 7 for i in range(90)]


def test_before_the_first_job_nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are no lanes, no sequences, and no last call; a lane without a job holds nothing either."""
    core = core_over(monkeypatch, store_budget=5000)
    empty = snapshot(core)
    assert (empty.lanes, empty.sequences, empty.last) == ((), (), None)
    core.lane(exact=True)
    assert snapshot(core).lanes == (LaneState("seeded", 512, 0, 512_000, 0, 5000),)
    assert snapshot(core).last is None


def test_bytes_of_cells_are_those_of_keys_values_and_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers for computing are none."""
    core = core_over(monkeypatch)
    core.lane(exact=False).context.buffers = {"KV": 100, "RS": 20, "compute": 3}
    (lane,) = snapshot(core).lanes
    assert lane.kv_bytes == 120


def held(core: Core) -> dict[str, Any]:
    """Hold the snapshot against the contexts; return its sequences by name."""
    state = snapshot(core)
    found = {sequence.id: sequence for sequence in state.sequences}
    assert len(found) == len(state.sequences)
    for name, lane in core.lanes.named:
        context = lane.context
        assert isinstance(context, FakeContext)
        (of_lane,) = [lane for lane in state.lanes if lane.name == name]
        assert of_lane.used == context.used()
        parked = [s for s in state.sequences if s.lane == name and not s.in_cells]
        assert of_lane.host_bytes == sum(s.host_bytes for s in parked)
        assert all(s.span is None and s.host_bytes for s in parked)
        for slot in lane.kv.slots:
            there = found.get(f"{name}-{slot.sequence}")
            pairs = context.held(slot.sequence)
            assert [token for _, token in pairs] == (list(there.tokens) if there else [])
            if there:
                assert (there.lane, there.in_cells, there.host_bytes) == (name, True, 0)
                assert there.span == context.span(slot.sequence)
    return found


def test_what_is_held_is_what_lies_in_cells_and_in_host_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """After jobs of both kinds, while one is written, and with forks."""
    core = core_over(monkeypatch)
    one = answered(core, TEXT, 3)
    held(core)
    answered(core, [9, *TEXT], 3, n=2)
    assert list(held(core)) == ["main-1", "main-2", "main-parked-0"]
    answered(core, TEXT, exact=True)
    moves.fork(core, "main-parked-0", "draft")
    moves.fork(core, "main-1", "second")
    found = held(core)
    assert {i: s.names for i, s in found.items() if s.names} == {
        "main-parked-0": ("draft",),
        "main-0": ("second",),
    }
    assert list(found["main-parked-0"].tokens) == [*TEXT, *one.written[0][:-1]]
    assert found["main-parked-0"].n_read == len(TEXT)
    lane = core.lane(exact=False)
    core.accept(Asked([5, *TEXT], 20).job)
    lane.step()
    assert [i for i, s in held(core).items() if s.running] == ["main-3"]
    run(lane)
    assert not any(s.running for s in held(core).values())


def test_a_sample_that_has_a_slot_and_no_cells_yet_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sequence is running and empty."""
    core = core_over(monkeypatch)
    core.lane(exact=False).kv.slots[2].in_use = True
    (only,) = snapshot(core).sequences
    assert (only.id, only.tokens, only.running, only.span) == ("main-2", (), True, (-1, -1))


def test_the_last_call_is_the_one_that_ended_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """In whichever lane; what reuse saved is told by the speed at which that lane read prompts so far."""
    core = core_over(monkeypatch)
    answered(core, TEXT)
    answered(core, [*TEXT, 15])
    last = snapshot(core).last
    assert last is not None
    assert (last.prompt_tokens, last.reused, last.read) == (91, 90, 1)
    lane = core.lane(exact=False)
    assert lane.read_tokens == 91
    assert last.saved_s == pytest.approx(90 * lane.read_s / 91)
    answered(core, TEXT[:70], exact=True)
    assert lane.last is not None
    last = snapshot(core).last
    assert last is not None
    assert (last.prompt_tokens, last.reused) == (70, 0)


def test_before_any_prompt_was_read_nothing_is_known_to_be_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that was cancelled while it waited is a last call too."""
    core = core_over(monkeypatch)
    lane = core.lane(exact=False)
    lane.last = Asked(TEXT, 1).job
    lane.last.stats = SimpleNamespace(cached_tokens=0, started=0.0, ended=1.0)  # type: ignore[assignment]
    last = snapshot(core).last
    assert last is not None
    assert (last.reused, last.read, last.saved_s, last.why) == (0, 90, None, None)


def test_why_nothing_was_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reason, with the lane and the beginning in common; none where something was reused."""
    core = core_over(monkeypatch)

    def why() -> tuple[Any, ...]:
        last = snapshot(core).last
        assert last is not None
        return last.why, last.lane, last.common

    answered(core, TEXT)
    assert why() == ("empty", "main", 0)
    answered(core, [9, *TEXT])
    assert why() == ("other", "main", 0)
    answered(core, [*TEXT, 15])
    assert why()[0] is None
    core.accept(Asked(TEXT, 2, reuse=False).job)
    run(core.lane(exact=False))
    assert why()[0] == "fresh"
    answered(core, TEXT, exact=True)
    assert why() == ("empty", "seeded", 0)
    answered(core, [*TEXT[:63], 9, 9], exact=True)
    assert why() == ("short", "seeded", 63)
    answered(core, [9, *TEXT], exact=True)
    assert why() == ("other", "seeded", 0)


def test_a_recurrent_state_that_cannot_be_cut_back_is_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last state is behind the beginning in common."""
    core = core_over(monkeypatch, made=FakeRecurrentContext)
    answered(core, TEXT)
    answered(core, [*TEXT[:60], 9])
    last = snapshot(core).last
    assert last is not None
    assert (last.reused, last.why, last.common) == (0, "state", 60)
