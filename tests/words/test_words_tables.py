"""What counts as a number in a table."""

from __future__ import annotations

from llama_magic.words.tables import is_number


def test_figures_with_their_units_are_numbers() -> None:
    """They are set flush right as numbers are; ids and counts with words, versions and truths are not."""
    for value in (1, 0.5, "1.59 MB", "854 kB", "49,152", "12 %", "12%", "0.4 s"):
        assert is_number(value), value
    for value in (True, None, "", "Q4_0", "1.59 MB at 4,096", "3 tokens", "0.3.36", "–", "4 of 5"):
        assert not is_number(value), value
