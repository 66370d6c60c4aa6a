"""Amounts are said as people say them, in one way everywhere."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_magic.words.amounts import count, duration, size

SCALE = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (69_120, "69.1 kB"),
        (98_362_432, "98.4 MB"),
        (999_600_000, "1 GB"),
        (4_370_000_000, "4.37 GB"),
        (5_000_000_000_000_000, "5,000 TB"),
        (None, "size unknown"),
    ],
)
def test_sizes_are_written_as_people_write_them(amount: int | None, text: str) -> None:
    """Three digits, powers of 1000, never `1e+03`."""
    assert size(amount) == text


@given(st.integers(0, 999 * 10**12))
def test_a_size_means_what_it_says(amount: int) -> None:
    """The number and unit are the amount, to half of the third digit; no number reaches 1,000."""
    number, unit = size(amount).split()
    assert re.fullmatch(r"\d{1,3}|\d{1,2}\.\d{1,2}", number)
    assert float(number) * SCALE[unit] == pytest.approx(amount, rel=0.006)


def test_counts_and_durations() -> None:
    """Parameters and times are said as people say them."""
    numbers = (134_515_008, 7_241_732_096, 1234, 999_600_000, 12)
    assert [count(n) for n in numbers] == ["135 M", "7.24 B", "1.23 k", "1 B", "12"]
    assert [duration(s) for s in (0.42, 59.7, 200, 3900)] == ["0.4 s", "1 min 0 s", "3 min 20 s", "1 h 5 min"]
