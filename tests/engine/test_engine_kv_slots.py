"""What lies in a slot, and which cells slots share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llama_magic.engine.kv.slots import Slot, cells_used


@given(st.lists(st.tuples(st.sampled_from(["grow", "cut", "share"]), st.integers(0, 3), st.integers(0, 9))))
def test_cells_are_counted_once_whatever_is_shared(steps: list[tuple[str, int, int]]) -> None:
    """The stretches of slots name the same cell alike, and different cells differently."""
    slots = [Slot(i) for i in range(4)]
    cells: list[list[object]] = [[] for _ in slots]
    for what, index, number in steps:
        if what == "grow":
            slots[index].tokens += [0] * number
            cells[index] += [object() for _ in range(number)]
        elif what == "cut":
            length = min(number, len(cells[index]))
            slots[index].cut(length)
            del cells[index][length:]
        elif index != number % 4:
            holder = slots[number % 4]
            length = min(number, len(holder.tokens))
            slots[index].share(holder, length)
            cells[index] = cells[number % 4][:length]
    named = {
        (lineage, position)
        for slot in slots
        for lineage, start, end in slot.runs()
        for position in range(start, end)
    }
    assert [len(slot.tokens) for slot in slots] == [len(own) for own in cells]
    assert len(named) == len({id(cell) for own in cells for cell in own}) == cells_used(slots)


def test_only_what_was_read_without_a_gap_counts_as_read() -> None:
    """A prompt read in parts counts whole; what is read behind written tokens does not; a cut cuts it."""
    slot = Slot(0)
    slot.extend([1, 2, 3], 5)
    slot.extend([4, 5], 5)
    assert slot.n_read == 5
    slot.extend([6], 5)
    assert slot.n_read == 5
    slot.extend([7, 8], 8)
    assert (slot.n_read, slot.tokens) == (5, [1, 2, 3, 4, 5, 6, 7, 8])
    other = Slot(1)
    other.share(slot, 7)
    assert (other.n_read, other.tokens) == (5, [1, 2, 3, 4, 5, 6, 7])
    other.share(slot, 4)
    assert other.n_read == 4
    slot.cut(3)
    assert slot.n_read == 3
    slot.name = "draft"
    slot.cut(0)
    assert (slot.n_read, slot.tokens, slot.name) == (0, [], "")
