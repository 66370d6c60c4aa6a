"""Sequences by name: saved, forked, restored and forgotten, over a context in memory."""

from __future__ import annotations

import pytest
from fake_context import Asked, FakeContext, FakeRecurrentContext, answered, core_over, run
from fake_memory import FakeMemory

from llama_magic.engine import moves
from llama_magic.engine.core import Core
from llama_magic.engine.kv.store import Stretch
from llama_magic.engine.moves import SavedSequence
from llama_magic.engine.snapshot import snapshot
from llama_magic.errors import BackendError, FitError, OptionError

TEXT = [i * i % 7 for i in range(90)]
OTHER = [9, *TEXT]


def ids(core: Core) -> list[str]:
    return [sequence.id for sequence in snapshot(core).sequences]


def names(core: Core) -> dict[str, list[int]]:
    """Return the tokens of each fork."""
    return {name: list(s.tokens) for s in snapshot(core).sequences for name in s.names}


def helpers_are_empty(core: Core) -> bool:
    lanes = [lane for _, lane in core.lanes.named]
    return all(lane.context.span(helper) == (-1, -1) for lane in lanes for helper in lane.kv.helpers)


# --- save ---------------------------------------------------------------------------------------


def test_what_is_saved_is_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its place in cells or in host memory, or by a fork's name; without a name the one used last."""
    core = core_over(monkeypatch)
    first = answered(core, TEXT)
    second = answered(core, OTHER)
    assert ids(core) == ["main-1", "main-parked-0"]
    held = [*OTHER, *second.written[0][:-1]]  # the last token was not decoded
    parked = [*TEXT, *first.written[0][:-1]]
    moves.fork(core, "main-parked-0", "draft")
    for wanted, name, tokens in (
        (None, "main-1", held),
        ("main-1", "main-1", held),
        ("main-parked-0", "main-parked-0", parked),
        ("draft", "draft", parked),
    ):
        saved = moves.save(core, wanted)
        assert (saved.name, list(saved.tokens)) == (name, tokens)
        assert saved.stretches[0].start == 0
        assert saved.stretches[-1].end == len(tokens)
        assert saved.exact_length == 0
        assert saved.n_read == len(tokens) - 1
    assert helpers_are_empty(core)


def test_the_latest_is_one_in_cells_and_else_one_in_host_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several in either place it is the one that was used last; a running one is never it."""
    core = core_over(monkeypatch)
    answered(core, TEXT)
    answered(core, [9, 9], exact=True)
    assert moves.save(core, None).name == "seeded-0"
    lane = core.lane(exact=False)
    lane.kv.slots[0].last_used = core.lane(exact=True).kv.slots[0].last_used + 1
    assert moves.save(core, None).name == "main-0"
    core.accept(Asked([5, *TEXT], 50).job)
    lane.step()
    assert moves.save(core, None).name == "seeded-0"
    core.lane(exact=True).forget()
    lane.kv.store.put([1, 2], [Stretch(0, 2, b"older")])
    assert moves.save(core, None).name == "main-parked-1"
    lane.kv.store.best(TEXT, len(TEXT))
    assert moves.save(core, None).name == "main-parked-0"


def test_where_nothing_is_held_nothing_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor what is not there: the error names what is."""
    core = core_over(monkeypatch)
    with pytest.raises(OptionError, match="no sequence that is not in use"):
        moves.save(core, None)
    with pytest.raises(OptionError) as caught:
        moves.save(core, "draft")
    assert caught.value.remedy == "It holds: none."
    answered(core, TEXT)
    moves.fork(core, "main-0", "draft")
    with pytest.raises(OptionError, match="no sequence 'main-7'") as caught:
        moves.save(core, "main-7")
    assert caught.value.remedy == "It holds: main-0, main-1, draft."


def test_of_a_seeded_sequence_is_said_how_much_a_seed_may_reuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole cuts that were read, saved in a stretch of their own; of a recurrent state nothing."""
    for made, length, ends in ((FakeContext, 64, [64, 91]), (FakeRecurrentContext, 0, [91])):
        core = core_over(monkeypatch, made=made)
        answered(core, TEXT, exact=True)
        saved = moves.save(core, "seeded-0")
        assert saved.exact_length == length
        assert [stretch.end for stretch in saved.stretches] == ends
    core = core_over(monkeypatch)
    answered(core, TEXT, exact=True)
    answered(core, OTHER, exact=True)
    saved = moves.save(core, "seeded-parked-0")
    assert (list(saved.tokens), saved.exact_length, saved.n_read) == (TEXT[:64], 64, 64)


# --- restore ------------------------------------------------------------------------------------


def test_a_restored_sequence_is_taken_over_by_the_next_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """In another process, too: without a seed all of it, with one the cuts."""
    core = core_over(monkeypatch)
    answered(core, TEXT, exact=True)
    saved = moves.save(core, None)
    other = core_over(monkeypatch)
    moves.restore(other, saved)
    assert ids(other) == ["main-parked-0", "seeded-parked-0"]
    assert [list(s.tokens) for s in snapshot(other).sequences] == [list(saved.tokens), TEXT[:64]]
    assert [s.n_read for s in snapshot(other).sequences] == [90, 64]
    assert helpers_are_empty(other)
    longer = [*TEXT, 15, 9]
    assert answered(other, longer).job.stats.cached_tokens == 90
    assert answered(other, longer, exact=True).job.stats.cached_tokens == 64


def test_restoring_empties_the_cells_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is idle is parked, so that there is room to try the file's states."""
    core = core_over(monkeypatch, cells=128)
    answered(core, TEXT)
    saved = moves.save(core, None)
    core.lane(exact=False).forget()
    answered(core, OTHER)
    moves.restore(core, saved)
    assert ids(core) == ["main-parked-0", "main-parked-1"]


@pytest.mark.parametrize("change", [1, -1])
def test_what_llama_cpp_takes_as_something_else_is_refused(
    monkeypatch: pytest.MonkeyPatch, change: int
) -> None:
    """A state of more or fewer positions than the file says; nothing of it stays."""
    core = core_over(monkeypatch)
    answered(core, TEXT)
    saved = moves.save(core, None)
    (stretch,) = saved.stretches
    core.lane(exact=False).forget()
    forged = Stretch(0, stretch.end + change, stretch.state)
    with pytest.raises(BackendError, match="refused the saved sequence"):
        moves.restore(core, SavedSequence(saved.tokens, 0, (forged,)))
    assert ids(core) == []
    assert core.lane(exact=False).kv.used == 0
    assert helpers_are_empty(core)


def test_beside_a_running_job_the_cells_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is what it would be; the sequence is there when the job has ended."""
    core = core_over(monkeypatch)
    answered(core, TEXT)
    saved = moves.save(core, None)
    core.lane(exact=False).forget()
    lane = core.lane(exact=False)
    one = Asked(OTHER, 20)
    core.accept(one.job)
    for _ in range(4):
        lane.step()
    with monkeypatch.context() as patch:
        for asked in ("restore_sequence", "save_sequence", "remove", "copy", "clear"):
            patch.delattr(FakeMemory, asked)
        moves.restore(core, saved)
    assert ids(core) == ["main-1", "main-parked-0"]
    run(lane)
    assert one.written == one.expected
    assert answered(core, [*TEXT, 15]).job.stats.cached_tokens == 90


def test_a_saved_sequence_beyond_the_budget_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how much it takes and how much there is."""
    core = core_over(monkeypatch)
    answered(core, TEXT)
    saved = moves.save(core, None)
    (stretch,) = saved.stretches
    small = core_over(monkeypatch, store_budget=len(stretch.state) - 1)
    with pytest.raises(FitError, match=r"The saved sequence takes .* MB, and host memory .* limited to"):
        moves.restore(small, saved)
    moves.restore(core_over(monkeypatch, store_budget=len(stretch.state)), saved)


# --- fork ---------------------------------------------------------------------------------------


def test_a_fork_is_named_once_and_not_as_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that the cache gives itself, none, and those that are there are refused."""
    core = core_over(monkeypatch)
    answered(core, TEXT)
    moves.fork(core, "main-0", "draft")
    for name in ("", "main-0", "seeded-12", "main-parked-3"):
        with pytest.raises(OptionError, match="cannot be called"):
            moves.fork(core, "main-0", name)
    with pytest.raises(OptionError, match="a fork 'draft' already"):
        moves.fork(core, "main-0", "draft")
    moves.fork(core, "draft", "main-0b")
    assert sorted(names(core)) == ["draft", "main-0b"]


def test_a_fork_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes after, in cells or in host memory, until all is cleared."""
    core = core_over(monkeypatch)
    first = answered(core, TEXT)
    tokens = [*TEXT, *first.written[0][:-1]]
    used = core.lane(exact=False).kv.used
    moves.fork(core, "main-0", "draft")
    assert core.lane(exact=False).kv.used == used
    answered(core, [*tokens, 3], 5)
    answered(core, OTHER)
    moves.fork(core, "draft", "second")
    assert names(core) == {"draft": tokens, "second": tokens}
    assert answered(core, [*tokens, 4]).job.stats.cached_tokens == len(tokens)
    moves.clear(core)
    assert ids(core) == []


def test_of_a_seeded_sequence_the_cuts_are_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """For seeded jobs; of one that has none all of it, for jobs without a seed."""
    core = core_over(monkeypatch)
    answered(core, TEXT, exact=True)
    moves.fork(core, "seeded-0", "long")
    answered(core, TEXT[:20], exact=True)
    moves.fork(core, "seeded-0", "short")
    held = {name: s for s in snapshot(core).sequences for name in s.names}
    assert (held["long"].lane, list(held["long"].tokens)) == ("seeded", TEXT[:64])
    assert (held["short"].lane, list(held["short"].tokens)[:20]) == ("main", TEXT[:20])
    assert held["short"].n_read == 20
    assert answered(core, [*TEXT[:20], 9]).job.stats.cached_tokens == 20


def test_a_fork_beyond_the_budget_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a seeded sequence, which goes to host memory; the error says how much it takes."""
    core = core_over(monkeypatch, store_budget=10)
    answered(core, TEXT, exact=True)
    with pytest.raises(FitError, match="The fork takes"):
        moves.fork(core, "seeded-0", "draft")
    assert names(core) == {}


# --- clear --------------------------------------------------------------------------------------


def test_clearing_spares_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """In both lanes; a running answer goes on as it would."""
    core = core_over(monkeypatch)
    answered(core, TEXT)
    answered(core, OTHER, exact=True)
    lane = core.lane(exact=False)
    one = Asked([5, *TEXT], 20)
    core.accept(one.job)
    lane.step()
    assert len(ids(core)) == 3
    moves.clear(core)
    assert ids(core) == ["main-1"]
    run(lane)
    assert one.written == one.expected
