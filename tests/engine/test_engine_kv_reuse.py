"""Which prefix a prompt takes over, from where, and what of it: over a cache in memory."""

from __future__ import annotations

import pytest
from fake_memory import FakeMemory, FakeState, cells_over, decode
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_magic.engine.kv.cells import Cells
from llama_magic.engine.kv.reuse import KEPT_FROM, STEP, checkpoints, match, take_exact, take_longest
from llama_magic.engine.kv.slots import Slot

TEXT = list(range(100, 140))


def holding(*texts: list[int], memory: FakeMemory | None = None) -> Cells:
    """Return cells whose slots hold these texts, and one more slot."""
    cells = cells_over(memory or FakeMemory(512), sequences=len(texts) + 1)
    for slot, text in zip(cells.slots, texts, strict=False):
        decode(cells, slot, text)
    return cells


def held(cells: Cells, slot: Slot) -> list[int]:
    memory = cells.memory
    assert isinstance(memory, FakeMemory)
    return [token for _, token in memory.held(slot.sequence)]


def test_the_match_is_the_longest_and_one_to_write_on_in() -> None:
    """Of equal ones that is neither in use nor a fork; never more than the limit."""
    cells = holding(TEXT[:10], TEXT[:20], TEXT[:20], TEXT[:20])
    cells.slots[1].in_use = True
    cells.slots[2].name = "draft"
    assert match(cells, TEXT, 39) == (cells.slots[3], 20)
    cells.slots[3].in_use = True
    assert match(cells, TEXT, 39)[1] == 20
    assert match(cells, TEXT, 5)[1] == 5
    assert match(cells, [1, 2], 1)[1] == 0


def test_an_idle_sequence_is_written_on_in() -> None:
    """It is cut to the common beginning; a long rest of another conversation is kept in host memory."""
    for rest, kept in ((KEPT_FROM - 1, 0), (KEPT_FROM, 1)):
        text = [*TEXT, *range(rest)]
        cells = holding(text)
        assert take_longest(cells, [*TEXT, 9, 9], 41) is cells.slots[0]
        assert held(cells, cells.slots[0]) == cells.slots[0].tokens == TEXT
        assert [entry.tokens for entry in cells.store.entries] == [text] * kept


@pytest.mark.parametrize("how", ["in use", "fork"])
def test_a_sequence_that_must_stay_lends_its_cells(how: str) -> None:
    """The beginning is shared, at no cost, with a free slot."""
    cells = holding(TEXT)
    holder = cells.slots[0]
    holder.in_use, holder.name = how == "in use", "draft" if how == "fork" else ""
    slot = take_longest(cells, [*TEXT[:25], 9], 25)
    assert slot is cells.slots[1]
    assert held(cells, slot) == slot.tokens == TEXT[:25]
    assert held(cells, holder) == holder.tokens == TEXT
    assert cells.used == cells.memory.used() == len(TEXT)


def test_a_window_that_gave_cells_away_lends_what_still_covers_it() -> None:
    """A beginning that the holder's own window left behind is not shared: it would attend to nothing."""
    for length, taken in (
        (12, 12),
        (11, 0),
    ):  # the window before 12 reaches back to 4
        memory = FakeMemory(16, window=8)
        cells = cells_over(memory)
        holder = cells.slots[0]
        for token in range(20):
            decode(cells, holder, [token])
        holder.in_use = True
        slot = take_longest(cells, [*range(length), 99], length)
        assert slot is cells.slots[1]
        assert len(slot.tokens) == taken
        assert held(cells, slot) == slot.tokens[4:]


def test_a_recurrent_state_that_is_written_on_in_is_not_copied() -> None:
    """Only a fork must stay what it is."""
    cells = holding(TEXT, memory=FakeState(512))
    assert take_longest(cells, [*TEXT, 9], 40) is cells.slots[0]
    assert cells.store.entries == []


def test_a_recurrent_state_is_not_lent() -> None:
    """A running one lends nothing; a fork moves to host memory, from where a copy can be taken."""
    cells = holding(TEXT, memory=FakeState(512))
    cells.slots[0].in_use = True
    assert take_longest(cells, [*TEXT, 9], 40) is None
    cells.slots[0].in_use = False
    cells.slots[0].name = "draft"
    slot = take_longest(cells, [*TEXT, 9], 40)
    assert slot is cells.slots[0]
    assert held(cells, slot) == slot.tokens == TEXT
    assert [entry.names for entry in cells.store.entries] == [["draft"]]


def test_a_recurrent_state_is_kept_where_prompts_part_and_near_their_end() -> None:
    """In whole steps, before the last token; of a short prompt nowhere."""
    prompt = list(range(5 * STEP))
    assert checkpoints(prompt, 0, ()) == {4 * STEP}  # its last token is decoded in any case
    assert checkpoints([*prompt, 9], 2 * STEP + 3, ()) == {2 * STEP, 5 * STEP}
    waiting = [[7, *prompt], prompt[: 3 * STEP + 1], prompt[:STEP]]
    assert checkpoints(prompt, 2 * STEP, waiting) == {2 * STEP, 3 * STEP, 4 * STEP}
    assert checkpoints(prompt[:STEP], STEP, waiting) == frozenset()
    assert checkpoints(prompt, 5 * STEP, ()) == {4 * STEP}


@pytest.mark.parametrize("cut", [0, 8])
def test_a_recurrent_state_in_host_memory_is_taken_where_the_prompt_contains_it(cut: int) -> None:
    """Not where it goes on otherwise; the one that was written on in is kept for its own conversation."""
    cells = cells_over(FakeState(512), cut=cut)
    slot = cells.slots[0]
    for end in (16, 32, 40):
        decode(cells, slot, TEXT[len(slot.tokens) : end])
        if end < 40:
            cells.keep_copy(slot)
    decode(cells, slot, [7, 7], n_prompt=40)
    take = take_exact if cut else take_longest
    taken = take(cells, [*TEXT[:35], 9, 9], 36)
    assert taken is not None
    assert held(cells, taken) == taken.tokens == TEXT[:32]
    assert take(cells, [*TEXT[:31], 9, 9], 32).tokens == TEXT[:16]  # type: ignore[union-attr]
    assert not getattr(take(cells, [*TEXT[:15], 9, 9], 16), "tokens", None)


def test_a_fork_in_the_last_slot_makes_room_and_is_restored() -> None:
    """Where no other slot is free the fork is parked, and its copy taken."""
    cells = holding(TEXT, [7])
    cells.slots[0].name = "draft"
    cells.slots[1].in_use = cells.slots[2].in_use = True
    slot = take_longest(cells, [*TEXT, 9], 40)
    assert slot is cells.slots[0]
    assert held(cells, slot) == slot.tokens == TEXT
    assert not slot.name
    assert [entry.names for entry in cells.store.entries] == [["draft"]]


def test_host_memory_is_taken_only_where_it_holds_more() -> None:
    """The longer of cells and host memory wins; equal ones are taken from the cells."""
    cells = holding(TEXT)
    cells.keep_copy(cells.slots[0])
    assert take_longest(cells, [*TEXT, 9], 40) is cells.slots[0]
    cells.trim(cells.slots[0], 20)
    slot = take_longest(cells, [*TEXT, 9], 40)
    assert slot is not None
    assert held(cells, slot) == TEXT


def test_what_comes_back_lies_where_a_cold_read_would_write_it() -> None:
    """Idle conversations leave the cells first: those before it would be looked at for every token."""
    cells = holding(TEXT)
    cells.park(cells.slots[0])
    other = [*range(50)]
    decode(cells, cells.slots[0], other)
    found = take_longest(cells, [*TEXT, 9], 40)
    assert found is not None
    assert held(cells, found) == TEXT
    assert cells.memory.places(found.sequence) == [*range(40)]  # type: ignore[attr-defined]
    assert [entry.tokens for entry in cells.store.entries] == [TEXT, other]


texts = st.lists(st.integers(0, 1), min_size=1, max_size=12)


@settings(deadline=None)
@given(st.lists(st.tuples(texts, st.sampled_from(["idle", "in use", "fork", "parked"])), max_size=5), texts)
def test_what_is_taken_is_the_longest_prefix_that_is_held(
    given_: list[tuple[list[int], str]], prompt: list[int]
) -> None:
    """Whatever is held where: the slot is free, its cells are the prompt's beginning, and none is longer."""
    cells = holding(*(text for text, _ in given_))
    for slot, (_, how) in zip(cells.slots, given_, strict=False):
        slot.in_use = how == "in use"
        slot.name = f"fork {slot.sequence}" if how == "fork" else ""
        if how == "parked":
            cells.keep_copy(slot)
            cells.empty(slot)
    before = [list(slot.tokens) for slot in cells.slots if slot.in_use]
    limit = len(prompt) - 1
    longest = max((_common(text, prompt) for text, _ in given_), default=0)
    slot = take_longest(cells, prompt, limit)
    if slot is None:
        assert min(longest, limit) == 0
    else:
        assert not slot.in_use
        assert held(cells, slot) == slot.tokens == prompt[: min(longest, limit)]
    assert [held(cells, s) for s in cells.slots if s.in_use] == before


def _common(a: list[int], b: list[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


# --- seeded requests ----------------------------------------------------------------------------


def test_a_seeded_prompt_takes_whole_cuts_that_were_read() -> None:
    """What was written is not taken, nor what is behind a cut; everything else leaves the cells."""
    cells = cells_over(FakeMemory(128), cut=8)
    slot = cells.slots[0]
    decode(cells, slot, TEXT[:20])
    decode(cells, slot, TEXT[20:], n_prompt=20)
    decode(cells, cells.slots[1], [1, 2, 3])
    cells.empty(cells.slots[1])
    assert take_exact(cells, TEXT, 39) is slot
    assert held(cells, slot) == slot.tokens == TEXT[:16]
    assert cells.memory.used() == 16


def test_a_seeded_prompt_that_reuses_nothing_finds_the_cells_empty() -> None:
    """With a limit of 0 nothing is taken, though all of it is held; what it displaces is kept."""
    memory = FakeMemory(128)
    cells = cells_over(memory, cut=8)
    decode(cells, cells.slots[0], TEXT)
    slot = take_exact(cells, TEXT, 0)
    assert slot.tokens == []
    assert (memory.used(), memory.head) == (0, 0)
    assert [entry.tokens for entry in cells.store.entries] == [TEXT]


@pytest.mark.parametrize("window", [0, 16])
def test_a_seeded_prompt_lies_where_a_cold_read_puts_it(window: int) -> None:
    """Taken over from cells or from host memory, the cells are those of a cold read, in their order."""
    prompt = [*TEXT, *range(30)]
    cold = FakeMemory(128, window)
    cells = cells_over(cold, cut=8)
    _read(cells, take_exact(cells, prompt, len(prompt) - 1), prompt)
    expected = [(cell.position, cell.token) for cell in cold.cells if cell.sequences]

    for between in ([], [[1, 2, 3]], [[*TEXT[:9], 5, 6], list(range(50))]):
        memory = FakeMemory(128, window)
        cells = cells_over(memory, cut=8)
        for text in (TEXT, *between):
            _read(cells, take_exact(cells, text, len(text) - 1), text)
        slot = take_exact(cells, prompt, len(prompt) - 1)
        assert slot.tokens == TEXT[: len(slot.tokens)]
        assert len(slot.tokens) >= 32
        _read(cells, slot, prompt)
        assert [(cell.position, cell.token) for cell in memory.cells if cell.sequences] == expected


def _read(cells: Cells, slot: Slot, prompt: list[int]) -> None:
    """Read the rest of a prompt as the exact lane does: up to the next cut at a time."""
    while len(slot.tokens) < len(prompt):
        past = len(slot.tokens)
        decode(cells, slot, prompt[past : past + cells.cut - past % cells.cut])
