"""Names that are meant: one like it, in small or large letters, or a longer one that begins so."""

from __future__ import annotations

import pytest

from llama_magic.request.stages import PARAMETERS
from llama_magic.words.names import hint, meant


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("temprature", "temperature"),
        ("TOP_K", "top_k"),
        ("Temp", "temperature"),
        ("pres", "presence_penalty"),
    ],
)
def test_the_nearest_name_is_hinted_at(word: str, found: str) -> None:
    """A misspelt one, one in other letters, the beginning of one."""
    assert hint(word, PARAMETERS) == f" Did you mean {found}?"
    assert meant(word, PARAMETERS) == f"Did you mean {found}?"


def test_where_no_name_is_near_all_are_listed() -> None:
    """A single letter begins too many; what begins with an underscore is not meant."""
    assert hint("t", PARAMETERS) == hint("secret", ["_secret"]) == ""
    assert meant("t", ["one", "two", "three"]) == "Known: one, three, two."
    assert hint("fit-check", ["fit", "load-all", "load"]) == ""
    assert hint("load-check", ["fit", "load"]) == " Did you mean load?"
