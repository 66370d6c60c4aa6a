"""What is done with the cells of a context, over a cache in memory: trim, park, restore, pin, fork, evict."""

from __future__ import annotations

import time

import pytest
from fake_memory import Cell, FakeMemory, FakeState, cells_over, decode
from hypothesis import given
from hypothesis import strategies as st

from llama_magic.engine.kv.cells import PARKED_FROM, Cells
from llama_magic.engine.kv.slots import Slot
from llama_magic.engine.kv.store import Stretch

TEXT = list(range(100, 140))


def held(cells: Cells, slot: Slot) -> list[int]:
    """Return the tokens that lie in the cells of a slot, which stand at positions 0, 1, 2, ..."""
    memory = cells.memory
    assert isinstance(memory, FakeMemory)
    pairs = memory.held(slot.sequence)
    assert [position for position, _ in pairs] == list(range(len(pairs)))
    return [token for _, token in pairs]


def filled(memory: FakeMemory, tokens: list[int] = TEXT, **options: int) -> tuple[Cells, Slot]:
    """Return cells whose first slot holds `tokens`, read as a prompt."""
    cells = cells_over(memory, **options)
    decode(cells, cells.slots[0], tokens)
    return cells, cells.slots[0]


class Counting(FakeMemory):
    """It knows how many cells were copied to host memory."""

    copied = 0

    def save_sequence(self, sequence: int) -> bytes:
        self.copied += len(self.held(sequence))
        return super().save_sequence(sequence)


# --- trim ---------------------------------------------------------------------------------------


@given(st.integers(0, len(TEXT)))
def test_trim_leaves_the_first_tokens(length: int) -> None:
    """Tokens and cells are cut alike, whatever the length."""
    cells, slot = filled(FakeMemory(64))
    assert cells.trim(slot, length)
    assert held(cells, slot) == slot.tokens == TEXT[:length]
    assert slot.n_read == length
    assert cells.used == cells.memory.used() == length


def test_trim_of_a_recurrent_state_empties_the_slot() -> None:
    """A state that cannot be cut back is dropped, and trim says so; cutting nothing keeps it."""
    cells, slot = filled(FakeState(64))
    assert cells.trim(slot, len(TEXT))
    assert held(cells, slot) == TEXT
    assert not cells.trim(slot, 10)
    assert held(cells, slot) == slot.tokens == []


def test_trim_behind_a_sliding_window_needs_the_whole_window() -> None:
    """Where cells were given away, only a length whose window is still there can be kept."""
    memory = FakeMemory(16, window=8)
    cells = cells_over(memory)
    slot = cells.slots[0]
    for token in range(20):
        decode(cells, slot, [token])
    lowest, highest = memory.span(slot.sequence)
    assert (lowest, highest) == (4, 19)
    assert cells.trim(slot, 12)  # reaches back to 4
    assert slot.tokens == list(range(12))
    assert not cells.trim(slot, 11)  # reaches back to 3, which is gone
    assert slot.tokens == []
    assert memory.used() == 0


def test_roll_back_takes_out_what_a_stopped_decode_wrote() -> None:
    """The cells are again those of the known tokens; a recurrent state is lost, and known to be.

    (It may have gone on, though no position says so.)
    """
    cells, slot = filled(FakeMemory(64))
    cells.memory.write(slot.sequence, len(TEXT), [7, 8, 9])
    cells.roll_back(slot)
    assert held(cells, slot) == slot.tokens == TEXT
    for written in ([7], []):
        cells, slot = filled(FakeState(64))
        cells.memory.write(slot.sequence, len(TEXT), written)
        cells.roll_back(slot)
        assert held(cells, slot) == slot.tokens == []


# --- park and restore ---------------------------------------------------------------------------


def test_parked_sequences_leave_the_cells_and_come_back_as_they_were() -> None:
    """Parking frees the cells; restoring brings tokens, what was read, and every cell."""
    cells, slot = filled(FakeMemory(64))
    decode(cells, slot, [1, 2, 3], n_prompt=len(TEXT))
    cells.park(slot)
    assert cells.memory.used() == 0
    (entry,) = cells.store.entries
    assert (entry.tokens, entry.n_read) == ([*TEXT, 1, 2, 3], len(TEXT))
    other = cells.slots[2]
    assert cells.restore(other, entry)
    cells.unpin()
    assert held(cells, other) == other.tokens == [*TEXT, 1, 2, 3]
    assert other.n_read == len(TEXT)


def test_short_sequences_are_not_parked() -> None:
    """Below `PARKED_FROM` tokens a copy is not worth it, unless the sequence is a fork."""
    for length, name, kept in ((PARKED_FROM - 1, "", 0), (PARKED_FROM, "", 1), (1, "draft", 1)):
        cells, slot = filled(FakeMemory(64), TEXT[:length])
        slot.name = name
        cells.park(slot)
        assert [entry.names for entry in cells.store.entries] == [[name] if name else []] * kept
        assert slot.tokens == []
        assert slot.name == ""


def test_with_cuts_only_what_was_read_is_parked_in_whole_cuts() -> None:
    """What was written, and what is behind the last cut, is not reproducible: it goes."""
    cells, slot = filled(FakeMemory(64), TEXT[:37], cut=8)
    decode(cells, slot, [1, 2, 3, 4], n_prompt=37)
    assert (cells.reusable(slot), cells.exact_length(slot)) == (32, 32)
    cells.park(slot)
    assert [entry.tokens for entry in cells.store.entries] == [TEXT[:32]]


def test_restore_without_room_leaves_nothing_behind() -> None:
    """Where the cells do not suffice, the slot is empty, and so are the helpers."""
    memory = FakeMemory(48)
    cells, slot = filled(memory)
    cells.park(slot)
    decode(cells, cells.slots[1], list(range(20)))
    assert not cells.restore(slot, cells.store.entries[0])
    assert slot.tokens == []
    assert memory.used() == 20
    assert all(memory.held(sequence) == [] for sequence in cells.helpers)


def test_restore_without_room_for_all_stretches_lets_go_of_the_first() -> None:
    """The cells of the stretches before it are not left pinned."""
    memory = FakeMemory(48, window=16)
    cells, slot = filled(memory)
    cells.park(slot)
    decode(cells, cells.slots[1], list(range(20)))
    assert not cells.restore(slot, cells.store.entries[0])
    assert (slot.tokens, memory.used()) == ([], 20)


def test_what_is_emptied_before_it_was_decoded_is_not_left_pinned() -> None:
    """A job may fail between the restore and its first batch."""
    cells, slot = filled(FakeMemory(64))
    cells.park(slot)
    assert cells.restore(slot, cells.store.entries[0])
    cells.empty(slot)
    assert cells.memory.used() == 0


def test_a_recurrent_state_is_parked_as_a_whole() -> None:
    """Also beside a sliding window (a hybrid): it cannot be cut into stretches."""
    cells, slot = filled(FakeState(64, window=16))
    cells.park(slot)
    (entry,) = cells.store.entries
    assert [(s.start, s.end) for s in entry.stretches] == [(0, 40)]
    assert cells.restore(slot, entry)
    assert slot.tokens == TEXT


def test_a_sliding_window_is_parked_in_stretches_that_are_whole() -> None:
    """Each stretch is no longer than the window, so that llama.cpp leaves no cell of it out."""
    memory = FakeMemory(64, window=16)
    cells, slot = filled(memory)
    cells.park(slot)
    (entry,) = cells.store.entries
    assert [(s.start, s.end) for s in entry.stretches] == [(0, 16), (16, 32), (32, 40)]
    assert cells.restore(slot, entry)
    assert held(cells, slot) == TEXT


def test_a_stretch_ends_where_it_is_to_be_cut() -> None:
    """States saved with a cut can be restored up to it alone."""
    cells, slot = filled(FakeMemory(64))
    assert [(s.start, s.end) for s in cells.states(slot, 24)] == [(0, 24), (24, 40)]
    first = cells.states(slot, 24)[0]
    assert cells.takes(first)
    assert not cells.takes(Stretch(first.start, first.end + 1, first.state))
    assert all(cells.memory.span(sequence) == (-1, -1) for sequence in cells.helpers)
    assert held(cells, slot) == TEXT


def test_a_stretch_that_a_window_has_left_behind_is_taken() -> None:
    """llama.cpp gave its cells away while the sequence went on, so that its state holds none."""
    for window, taken in ((16, True), (0, False)):
        cells, _ = filled(FakeMemory(64, window=window))
        gone = cells.memory.save_sequence(cells.slots[1].sequence)
        looked: list[int] = []
        assert cells.takes(Stretch(0, 16, gone), lambda sequence: bool(looked.append(sequence))) == taken  # noqa: B023
        assert looked == []


@pytest.mark.parametrize("window", [0, 16])
def test_a_chat_that_goes_on_is_copied_from_where_it_was_parked_before(window: int) -> None:
    """Of 60 turns in which it makes room each time, few tokens are copied twice; it comes back as a whole.

    Its stretches stay few, and no longer than a sliding window.
    """
    memory = Counting(400, window=window)
    cells, slot = filled(memory)
    for turn in range(60):
        cells.park(slot)
        (entry,) = cells.store.entries
        assert cells.restore(slot, entry)
        cells.unpin()
        decode(cells, slot, [1000 + turn] * 3)
    told = [*TEXT, *(1000 + turn for turn in range(60) for _ in range(3))]
    there = memory.held(slot.sequence)  # a window gives cells away that it has left
    assert slot.tokens == told
    assert there == list(enumerate(told))[-len(there) :]
    assert len(there) >= (window or len(told))
    assert memory.copied <= 6 * len(told)  # all of it each time would be some 7,800
    ends = [stretch.end for stretch in entry.stretches]
    assert [stretch.start for stretch in entry.stretches] == [0, *ends[:-1]]
    assert len(ends) <= (len(told) // window + 5 if window else 7)
    assert not window or max(stretch.end - stretch.start for stretch in entry.stretches) <= window


def test_what_host_memory_has_is_not_copied_again() -> None:
    """Parked as it came back, or with another end, a sequence costs the copy of that end."""
    memory = Counting(400)
    cells, slot = filled(memory)
    cells.park(slot)
    for end, copied in (([], 40), ([7, 8], 42), ([9], 43)):
        assert cells.restore(slot, cells.store.entries[0])
        cells.unpin()
        cells.trim(slot, len(TEXT))
        decode(cells, slot, end)
        cells.park(slot)
        assert memory.copied == copied
    assert sorted(entry.tokens for entry in cells.store.entries) == [[*TEXT, 7, 8], [*TEXT, 9]]


# --- pin ----------------------------------------------------------------------------------------


def test_pinned_cells_keep_the_order_of_a_cold_read() -> None:
    """After a restore the next tokens lie behind the others, as when all were read at once.

    The window would let llama.cpp take the first cells again; without the pin it does.
    """
    more = list(range(200, 208))
    cold = FakeMemory(64, window=16)
    cells, slot = filled(cold)
    decode(cells, slot, more)
    places = cold.places(slot.sequence)

    memory = FakeMemory(64, window=16)
    cells, slot = filled(memory)
    cells.park(slot)
    memory.clear()
    assert cells.restore(slot, cells.store.entries[0])
    decode(cells, slot, more)
    assert memory.places(slot.sequence) == places
    assert memory.held(slot.sequence) == cold.held(slot.sequence)

    memory.clear()
    slot.cut(0)
    assert cells.restore(slot, cells.store.entries[0])
    cells.unpin()
    decode(cells, slot, more)
    assert memory.places(slot.sequence) != places


def test_trim_takes_pinned_cells_along() -> None:
    """What is cut off a restored sequence is free at once: the next tokens lie directly behind the rest."""
    memory = FakeMemory(64)
    cells, slot = filled(memory)
    cells.park(slot)
    assert cells.restore(slot, cells.store.entries[0])
    assert cells.trim(slot, 24)
    assert memory.used() == 24
    decode(cells, slot, [1, 2])
    assert memory.places(slot.sequence) == list(range(26))


# --- fork ---------------------------------------------------------------------------------------


def test_a_fork_shares_cells_and_parts_from_then_on() -> None:
    """It takes no cell, keeps its tokens when the other goes on, and its name when it is parked."""
    memory = FakeMemory(64)
    cells, slot = filled(memory)
    cells.fork(slot, "draft")
    (fork,) = (s for s in cells.slots if s.name == "draft")
    assert memory.used() == cells.used == len(TEXT)
    decode(cells, slot, [1, 2, 3])
    assert held(cells, fork) == fork.tokens == TEXT
    assert memory.used() == cells.used == len(TEXT) + 3
    cells.empty(slot)
    assert held(cells, fork) == TEXT
    cells.park(fork)
    assert [entry.names for entry in cells.store.entries] == [["draft"]]


def test_a_fork_without_a_free_slot_lies_in_host_memory() -> None:
    """As it does where cuts are kept, of which it holds whole ones."""
    cells, slot = filled(FakeMemory(64), sequences=1)
    cells.fork(slot, "draft")
    assert [(e.tokens, e.names) for e in cells.store.entries] == [(TEXT, ["draft"])]
    cells, slot = filled(FakeMemory(64), TEXT[:37], cut=8)
    cells.fork(slot, "draft")
    assert [(e.tokens, e.n_read, e.names) for e in cells.store.entries] == [(TEXT[:32], 32, ["draft"])]


# --- evict and forget ---------------------------------------------------------------------------


def test_the_least_recently_used_idle_sequence_is_evicted() -> None:
    """One after the other, never one in use; then there is nothing to evict."""
    memory = FakeMemory(160)
    cells = cells_over(memory, sequences=3)
    for slot, used in zip(cells.slots, (2.0, 1.0, 0.0), strict=True):
        decode(cells, slot, [slot.sequence, *TEXT])
        slot.last_used = used
    cells.slots[2].in_use = True
    assert cells.evict()
    assert [bool(slot.tokens) for slot in cells.slots] == [True, False, True]
    assert cells.evict()
    assert not cells.evict()
    assert held(cells, cells.slots[2]) == [2, *TEXT]
    assert [entry.tokens[0] for entry in cells.store.entries] == [1, 0]


def test_a_fork_counts_as_used_when_it_is_made() -> None:
    """So it is not the first to be evicted."""
    cells, slot = filled(FakeMemory(64))
    slot.last_used = time.monotonic()
    cells.fork(slot, "draft")
    assert cells.evict()
    assert [s.name for s in cells.slots if s.tokens] == ["draft"]


def test_a_free_slot_is_an_empty_one_first() -> None:
    """Else the least recently used is parked; None where all are in use."""
    cells, slot = filled(FakeMemory(64), sequences=2)
    assert cells.free_slot() is cells.slots[1]
    cells.slots[1].in_use = True
    assert cells.free_slot() is slot
    assert slot.tokens == []
    slot.in_use = True
    assert cells.free_slot() is None


def test_forgetting_spares_what_is_in_use_and_a_reset_nothing() -> None:
    """The idle ones go, in cells and in host memory."""
    memory = FakeMemory(160)
    cells, slot = filled(memory)
    cells.park(slot)
    for other in cells.slots[:2]:
        decode(cells, other, TEXT)
    slot.in_use = True
    cells.forget()
    assert memory.used() == len(TEXT)
    assert held(cells, slot) == TEXT
    assert cells.store.entries == []
    cells.reset()
    assert memory.cells == [Cell() for _ in memory.cells]
    assert not any(s.in_use or s.tokens for s in cells.slots)
