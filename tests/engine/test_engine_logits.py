"""What is read off a row of logits, against the whole row sorted and summed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_magic.engine.lanes.logits import LogitRow


@given(st.integers(0, 2**32 - 1), st.integers(1, 700), st.integers(1, 900), st.integers(1, 40))
def test_the_likeliest_are_those_of_the_sorted_row(seed: int, length: int, k: int, values: int) -> None:
    """Of equal ones the smaller id comes first; more than the row has are not given."""
    row = np.random.default_rng(seed).integers(0, values, length).astype(np.float32)
    expected = sorted(range(length), key=lambda i: (-row[i], i))[:k]
    normaliser = LogitRow(row).normaliser
    assert LogitRow(row).top(k) == tuple((i, float(row[i]) - normaliser) for i in expected)


def test_tokens_that_cannot_come_are_last() -> None:
    """Their logarithm is minus infinity."""
    row = np.full(640, -np.inf, np.float32)
    row[[7, 300]] = 1, 2
    assert [token for token, _ in LogitRow(row).top(3)] == [300, 7, 0]
    assert LogitRow(row).top(3)[2][1] == -math.inf


@given(st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=200))
def test_the_normaliser_is_that_of_the_softmax(values: list[float]) -> None:
    """The logarithm of the sum of all exponentials."""
    expected = math.log(math.fsum(math.exp(value) for value in values))
    assert LogitRow(np.array(values, np.float32)).normaliser == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_row_without_a_normaliser_says_so(bad: float) -> None:
    """NaN and infinity come out as they are."""
    found = LogitRow(np.array([bad, bad], np.float32)).normaliser
    assert math.isnan(found) if math.isnan(bad) else found == bad
