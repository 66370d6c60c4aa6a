"""The logits of the latest steps: what is kept, what was overwritten, what a constraint left."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llama_magic.engine.steps import StepStore, StepTape

N = 20
ROW = 4 * N  # bytes


def row(number: int) -> Any:
    return np.full(N, number, np.float32)


@given(st.integers(0, 6), st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["draw", "mask", "force"]))))
def test_a_tape_holds_what_was_drawn_until_it_is_overwritten(rows: int, steps: list[tuple[int, str]]) -> None:
    """Of several samples that are written by turns: as a list of all rows says, but for the oldest ones.

    One row less than there is memory for is kept: the oldest may be under the pen.
    """
    store = StepStore(N, rows * ROW)
    tapes = [StepTape(store) for _ in range(3)]
    told: list[list[tuple[int, Any] | None]] = [[], [], []]
    drawn = 0
    for sample, how in steps:
        if how == "force":
            tapes[sample].force()
            told[sample].append(None)
            continue
        tapes[sample].draw(row(drawn))
        allowed = None
        if how == "mask":
            allowed = np.arange(N) % (drawn + 2) == 0
            tapes[sample].mask(np.packbits(allowed, bitorder="little"))
        told[sample].append((drawn, allowed))
        drawn += 1
    oldest = drawn - (max(2, rows) - 1)
    for tape, expected in zip(tapes, told, strict=True):
        assert len(tape) == len(expected)
        for index, one in enumerate(expected):
            step = tape.step(index)
            assert step.forced == (one is None)
            if one is None or one[0] < oldest:
                assert (step.logits, step.allowed) == (None, None)
                continue
            assert step.logits is not None
            assert (step.logits == row(one[0])).all()
            if one[1] is None:
                assert step.allowed is None
            else:
                assert step.allowed is not None
                assert (step.allowed == one[1]).all()
        for end in range(len(expected) + 1):
            numbers = [one[0] for one in expected[:end] if one is not None]
            assert tape.draws(end) == len(numbers)
            assert tape.holds(end) == all(number >= oldest for number in numbers)


def test_a_row_that_is_handed_out_is_a_copy() -> None:
    """What is read later does not change with what is written; nor does the row that was put."""
    store = StepStore(N, 10 * ROW)
    logits = row(1)
    tape = StepTape(store)
    tape.draw(logits)
    logits[:] = 5
    first = tape.step(0).logits
    assert first is not None
    first[:] = 7
    again = tape.step(0).logits
    assert again is not None
    assert (again == row(1)).all()


def test_memory_is_taken_at_the_first_row_and_given_back_at_the_end() -> None:
    """As much as the budget, then nothing is kept any more."""
    store = StepStore(N, 10 * ROW + 3)
    assert store.nbytes == 0
    tape = StepTape(store)
    tape.draw(row(0))
    assert store.nbytes == 10 * ROW
    store.close()
    assert store.nbytes == 0
    assert not tape.holds(1)
    assert tape.step(0).logits is None


class Overtaken(StepStore):
    """A store that another thread writes on between the first look of a reader and the second."""

    def kept(self, number: int) -> bool:
        kept = super().kept(number)
        for other in range(self.capacity):
            self.put(row(100 + other))
        return kept


def test_a_row_overwritten_while_it_is_copied_is_not_handed_out() -> None:
    """It may be half of one and half of the other."""
    store = Overtaken(N, 4 * ROW)
    assert store.get(store.put(row(0))) is None
