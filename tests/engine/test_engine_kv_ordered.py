"""Cells of sequences that come and go side by side, over a cache in memory: each lies in its order."""

from __future__ import annotations

import pytest
from fake_memory import FakeMemory
from hypothesis import example, given
from hypothesis import strategies as st

from llama_magic.engine.kv.ordered import SLACK, OrderedCells
from llama_magic.engine.kv.reuse import take_longest
from llama_magic.engine.kv.slots import Slot
from llama_magic.engine.kv.store import PrefixStore
from llama_magic.errors import BackendError

SIZE = 96


def ordered(size: int = SIZE, window: int = 0, sequences: int = 4) -> tuple[OrderedCells, FakeMemory]:
    """Return cells that keep their order, and the memory that they are of."""
    memory = FakeMemory(size, window)
    cells = OrderedCells(memory, sequences + 2, PrefixStore(10**6, recurrent=False), size=size, window=window)
    return cells, memory


def write(cells: OrderedCells, memory: FakeMemory, slot: Slot, tokens: list[int]) -> bool:
    """Do what a lane does for a batch of one sample; False without room for it."""
    if not cells.lay(len(tokens)):
        return False
    assert memory.write(slot.sequence, len(slot.tokens), tokens)
    cells.unpin()
    slot.extend(tokens, len(slot.tokens) + len(tokens))
    return True


def in_order(cells: OrderedCells, memory: FakeMemory) -> None:
    """Each sequence holds its own tokens, in cells that lie in the order of its positions."""
    for slot in cells.slots:
        places = memory.places(slot.sequence)
        assert places == sorted(places)
        reach = max(0, len(slot.tokens) - memory.window) if memory.window else 0
        found = dict(memory.held(slot.sequence))
        assert [found.get(at) for at in range(reach, len(slot.tokens))] == slot.tokens[reach:]
        assert max(found, default=-1) == len(slot.tokens) - 1


def test_conversations_in_turn_lie_at_the_start_each_time() -> None:
    """One that comes back finds no cells pinned before it, and none are laid anew for it."""
    cells, memory = ordered()
    texts = [[*range(100, 140)], [*range(50)]]
    for turn in range(6):
        text = [*texts[turn % 2], turn]
        slot = take_longest(cells, text, len(text) - 1) or cells.free_slot()
        assert slot is not None
        assert len(slot.tokens) == (0 if turn < 2 else len(text) - 1)
        slot.in_use = True
        cells.park_idle()
        assert write(cells, memory, slot, text[len(slot.tokens) :])
        assert memory.places(slot.sequence) == [*range(len(text))]
        slot.leave()
        texts[turn % 2] = text


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "cut", "share", "park", "restore", "guess", "stop"]),
        st.integers(0, 3),
        st.integers(1, 40),
    ),
    max_size=30,
)


@given(STEPS, st.sampled_from([0, 8]))
@example([("write", 0, 40), ("write", 1, 9), ("cut", 0, 20), ("write", 1, 40), ("write", 0, 20)], 0)
@example(
    [("write", 0, 30), ("share", 1, 0), ("write", 0, 9), ("write", 1, 9), ("cut", 0, 1), ("write", 1, 40)], 8
)
@example([("write", 0, 40), ("park", 0, 1), ("write", 1, 30), ("restore", 2, 0), ("write", 2, 9)], 0)
@example([("write", 0, 40), ("park", 0, 1), ("write", 1, 30), ("restore", 2, 0), ("write", 2, 9)], 8)
def test_whatever_comes_and_goes_each_lies_in_order(steps: list[tuple[str, int, int]], window: int) -> None:
    """There is room while what is in use and the new tokens fit; no token is lost on the way."""
    cells, memory = ordered(window=window)
    fresh = iter(range(10**6))
    for what, index, number in steps:
        slot = cells.slots[index]
        slot.in_use = True  # so that it is not moved away on this step's behalf
        if what == "write":
            held = cells.used - sum(len(s.tokens) for s in cells.slots if not s.in_use)
            new = [next(fresh) for _ in range(number)]
            written = write(cells, memory, slot, new)
            assert written or held + number > SIZE
        elif what == "cut":
            cells.trim(slot, min(number, len(slot.tokens)))
        elif what == "share":
            holder = cells.slots[number % 4]
            if holder is not slot and holder.tokens and not window:
                cells.empty(slot)
                cells.share(holder, slot, len(holder.tokens))
        elif what == "park":
            cells.park(slot)
        elif what == "restore" and cells.store.entries:
            stored = cells.store.entries[number % len(cells.store.entries)]
            cells.empty(slot)
            if cells.restore(slot, stored):
                cells.unpin()
                assert slot.tokens == stored.tokens
        elif what == "guess" and slot.tokens and cells.lay(number):
            assert memory.write(slot.sequence, len(slot.tokens), [next(fresh) for _ in range(number)])
            cells.take_back(slot, number, last=bool(number % 2))
        elif what == "stop" and slot.tokens and cells.lay(number):  # a batch that was written in part
            assert memory.write(slot.sequence, len(slot.tokens), [next(fresh) for _ in range(number // 2)])
            cells.roll_back(slot)
        slot.in_use = False
        in_order(cells, memory)


def test_a_hole_is_not_filled_but_kept_until_room_is_short() -> None:
    """What is let go stays pinned where it lies; then all is laid anew, from the start and without it."""
    cells, memory = ordered()
    first, second = cells.slots[:2]
    for slot in (first, second):
        slot.in_use = True
        write(cells, memory, slot, list(range(30)))
    cells.trim(first, 10)
    assert memory.used() == 60  # 20 of them nobody's
    write(cells, memory, first, list(range(30)))
    assert memory.places(first.sequence) == [*range(10), *range(60, 90)]
    write(cells, memory, second, list(range(10)))
    assert memory.used() == cells.used == 80
    assert sorted(memory.places(first.sequence) + memory.places(second.sequence)) == list(range(80))
    in_order(cells, memory)


def test_shared_cells_are_laid_anew_once() -> None:
    """Those who share a beginning share it still, and each has its own end."""
    cells, memory = ordered()
    first, second, third = cells.slots[:3]
    for slot in (first, second, third):
        slot.in_use = True
    write(cells, memory, first, list(range(40)))
    cells.share(first, second, 30)
    write(cells, memory, third, list(range(20)))
    cells.trim(third, 0)
    write(cells, memory, second, [7, 8, 9])
    assert write(cells, memory, first, list(range(35)))
    assert memory.used() == cells.used == 40 + 3 + 35
    assert memory.places(first.sequence)[:30] == memory.places(second.sequence)[:30]
    in_order(cells, memory)


def test_what_a_window_no_longer_reaches_is_not_given_away_when_it_is_laid_anew() -> None:
    """llama.cpp would write the next tokens into it, before older ones."""
    cells, memory = ordered(window=8)
    first, second = cells.slots[:2]
    for slot in (second, first):
        slot.in_use = True
        write(cells, memory, slot, list(range(40)))
    cells.trim(second, 0)
    assert write(cells, memory, first, list(range(40, 60)))
    assert memory.places(first.sequence) == list(range(60))
    in_order(cells, memory)


def test_cells_that_nobody_holds_do_not_grow_past_their_slack() -> None:
    """Every row looks at each of them, so they are let go though there is room."""
    cells, memory = ordered(8 * SLACK)
    slot, other = cells.slots[:2]
    slot.in_use = other.in_use = True
    write(cells, memory, other, [1])
    most = 0
    for _ in range(2 * SLACK // 100 + 9):
        write(cells, memory, slot, list(range(100)))
        most = max(most, memory.used())
        cells.trim(slot, 0)
    assert SLACK < most <= SLACK + 2 * 101 + 100
    in_order(cells, memory)


def test_idle_sequences_make_room_and_those_in_use_do_not() -> None:
    """Without room for what is asked nothing is written, and what is in use stays."""
    cells, memory = ordered()
    for slot in cells.slots[:2]:
        write(cells, memory, slot, list(range(40)))
    cells.slots[1].in_use = True
    assert write(cells, memory, cells.slots[2], list(range(50)))
    assert [len(slot.tokens) for slot in cells.slots] == [0, 40, 50, 0]
    assert [len(entry.tokens) for entry in cells.store.entries] == [40]
    cells.slots[2].in_use = True
    assert not cells.lay(7)
    assert cells.lay(6)
    assert not cells.restore(cells.slots[3], cells.store.entries[0])
    assert [len(slot.tokens) for slot in cells.slots] == [0, 40, 50, 0]


def test_guesses_at_the_end_give_their_cells_back() -> None:
    """Those that others lie behind are pinned instead, for the next token must lie behind the older ones."""
    cells, memory = ordered()
    slot, other = cells.slots[:2]
    slot.in_use = other.in_use = True
    write(cells, memory, slot, [1, 2, 3])
    cells.lay(4)
    memory.write(slot.sequence, 3, [9, 9, 9, 9])
    cells.take_back(slot, 4, last=True)
    assert memory.used() == 3
    cells.lay(4)
    memory.write(slot.sequence, 3, [9, 9, 9, 9])
    write(cells, memory, other, [5])
    cells.take_back(slot, 4, last=False)
    write(cells, memory, slot, [4])
    assert memory.places(slot.sequence) == [0, 1, 2, 8]
    assert cells.exact_length(slot) == len(slot.tokens) == 4
    for _ in range(40):  # 40 times four cells are more than there are
        assert cells.lay(4)
        memory.write(slot.sequence, 4, [9, 9, 9, 9])
        cells.take_back(slot, 4, last=True)
    assert memory.places(slot.sequence) == [0, 1, 2, 8]


def test_all_cells_are_free_after_a_reset() -> None:
    """And where nobody holds any, the next begin at the start."""
    cells, memory = ordered()
    for forget in (cells.reset, lambda: cells.trim(cells.slots[0], 0)):
        assert write(cells, memory, cells.slots[0], list(range(SIZE)))
        assert memory.places(0) == list(range(SIZE))
        forget()
        assert (memory.used(), cells.slots[0].tokens) == (0 if forget == cells.reset else SIZE, [])


def test_cells_that_do_not_come_back_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a running answer stands on is lost then: it is not written on."""
    cells, memory = ordered()
    slot, other = cells.slots[:2]
    slot.in_use = other.in_use = True
    write(cells, memory, slot, list(range(40)))
    write(cells, memory, other, list(range(40)))
    cells.trim(slot, 10)
    monkeypatch.setattr(memory, "restore_sequence", lambda sequence, state: False)
    with pytest.raises(BackendError, match="did not take cells back"):
        cells.lay(30)
