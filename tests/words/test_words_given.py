"""What a caller gave: whole numbers, NumPy's too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import llama_magic as lm
from llama_magic.loading.options import LoadOptions
from llama_magic.words.given import at_least, whole_number


@pytest.mark.parametrize("odd", [True, 2.0, "2", None, np.array([1, 2]), np.float32(2)])
def test_what_is_no_whole_number_is_named(odd: Any) -> None:
    """True is none, and no float is, whole or not."""
    with pytest.raises(lm.InputTypeError, match=r"^n is .*expected a whole number of draws\.$"):
        whole_number("n", odd, " of draws")
    with pytest.raises(lm.OptionError, match=r"^n is .*expected a whole number, 1 or more\.$"):
        at_least(1, "n", odd)


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
