"""What a caller gave: whole numbers, NumPy's too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import llama_magic as lm
from llama_magic.loading.options import LoadOptions
from llama_magic.testing import scripted_model
from llama_magic.words.given import at_least, whole_number


@pytest.mark.parametrize("odd", [True, 2.0, "2", None, np.array([1, 2]), np.float32(2)])
def test_what_is_no_whole_number_is_named(odd: Any) -> None:
    """True is none, and no float is, whole or not."""
    with pytest.raises(lm.InputTypeError, match=r"^n is .*expected a whole number of draws\.$"):
        whole_number("n", odd, " of draws")
    with pytest.raises(lm.OptionError, match=r"^n is .*expected a whole number, 1 or more\.$"):
        at_least(1, "n", odd)


class Unsaid:
    def __init__(self) -> None:
        self.missing: Any

    def __repr__(self) -> str:
        return f"Unsaid({self.missing})"


@pytest.mark.parametrize(("odd", "said"), [(Unsaid(), "<Unsaid>"), ("9" * 5000, "9…;"), ([1] * 999, ", 1")])
def test_what_is_quoted_is_bounded_and_never_raises(odd: Any, said: str) -> None:
    """A value whose own words fail, or have no end, is still the value that is named."""
    model = scripted_model()
    for call in (
        lambda: model.complete("x", max_tokens=odd),
        lambda: model.complete("x", temperature=odd),
        lambda: model.complete("x", seed=odd),
        lambda: model.complete("x", timeout=odd),
    ):
        with pytest.raises(lm.LlamaMagicError) as caught:
            call()
        assert len(str(caught.value)) < 400
        assert said in str(caught.value)


@pytest.mark.parametrize("name", ["max_tokens", "n", "seed", "top_k", "temperature", "logprobs", "timeout"])
def test_more_digits_than_python_writes_are_named(name: str) -> None:
    """Whole numbers of 5,000 digits, which `str` refuses, are refused by the option's name."""
    for number in (10**5000, -(10**5000)):
        with pytest.raises(lm.LlamaMagicError, match=rf"^{name} is a whole number of 16,610 bits; expected"):
            scripted_model().complete("x", **{name: number})


def test_a_message_quotes_no_more_than_can_be_read() -> None:
    """Of what was given ever so long the middle is left out; what was expected, and the remedy, stand."""
    error = lm.OptionError(f"x is {'9' * 10**6}; expected less.", remedy="Known: " + "a, " * 10**6 + "b.")
    assert len(str(error)) < 6100
    assert error.message.startswith("x is 999")
    assert error.message.endswith("99; expected less.")
    assert str(error).endswith("a, b.")


def test_numbers_of_numpy_become_pythons_own() -> None:
    """What is kept of them can be written as JSON."""
    taken = LoadOptions.read({"threads": np.int64(2), "gpu_layers": np.int8(-1)})
    for value in (
        whole_number("n", np.int8(3)),
        at_least(0, "n", np.uint64(0)),
        taken.threads,
        taken.gpu_layers,
    ):
        assert type(value) is int
    with pytest.raises(lm.OptionError, match=r"^n is .*0.*; expected a whole number, 1 or more\.$"):
        at_least(1, "n", np.int64(0))
