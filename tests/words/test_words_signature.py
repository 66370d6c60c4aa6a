"""Calls that fit no signature: the nearest name, in the package's own error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import llama_magic as lm
from llama_magic.errors import InputTypeError
from llama_magic.testing import scripted_model


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda m: m.embed("a", normalise=True),
            "Model.embed has no option 'normalise'. Did you mean normalize",
        ),
        (lambda m: m.embed(["a"], pooling="mean"), "has no option 'pooling'. It takes texts, normalize"),
        (lambda m: m.read("a", max_tokens=3), "Model.read has no option 'max_tokens'. It takes text"),
        (lambda m: m.read(), "Model.read: missing a required argument: 'text'. Write read(text)."),
        (lambda m: m.tokenize("a", add_bos=True), "Model.tokenize has no option 'add_bos'"),
        (lambda m: m.kv_save("a", "b", "c"), "Model.kv_save: too many positional arguments"),
        (lambda m: m.count_tokens(txt="a"), "Model.count_tokens has no option 'txt'. Did you mean text"),
        (
            lambda m: lm.sweep("a", {"b": [1]}, over={}, max_tokens=3),
            "sweep: multiple values for argument 'over'",
        ),
        (lambda m: m.close(now=True), "Model.close has no option 'now'"),
        (
            lambda m: m.complete("a", 5),
            "Model.complete: too many positional arguments. It takes prompt alone",
        ),
        (lambda m: m.acomplete("a", 5), "Model.acomplete: too many positional arguments. It takes prompt"),
        (
            lambda m: m.structured("a"),
            "Model.structured: missing a required argument: 'schema'. Write structured(prompt, schema).",
        ),
        (lambda m: m.close(1), "It takes nothing without a name"),
    ],
)
def test_a_wrong_keyword_of_any_method_is_named(call: Callable[[Any], Any], said: str) -> None:
    """The error is of the one tree, and a TypeError as in any Python library."""
    with pytest.raises(InputTypeError) as caught:
        call(scripted_model())
    assert said in str(caught.value)
    assert isinstance(caught.value, TypeError)


def test_options_of_a_function_want_their_names() -> None:
    """`lm.map(rows, prompt, Schema)` and its kin are refused in the package's own words."""
    for call, said in (
        (
            lambda: lm.map(["a"], "x", dict),
            "map: too many positional arguments. It takes rows and prompt alone",
        ),
        (lambda: lm.decide(["a"], "x"), "argument: 'options'. Write decide(rows, options=…)."),
        (lambda: lm.load("smollm2", 4096), "load: too many positional arguments. It takes source alone"),
    ):
        with pytest.raises(InputTypeError) as caught:
            call()
        assert said in str(caught.value)


def test_a_type_error_inside_a_method_stays_what_it_is() -> None:
    """Only a call that does not fit its signature is explained."""
    with pytest.raises(InputTypeError, match="expected a str"):
        scripted_model().tokenize(5)  # type: ignore[arg-type]
    assert scripted_model().detokenize.__name__ == "detokenize"


@pytest.mark.parametrize("special", ["__ge__", "__le__", "__gt__", "__str__"])
def test_what_cannot_be_looked_at_is_named_by_what_was_asked(special: str) -> None:
    """Whatever the function is called that stands for a special method, and whichever method it is."""

    def refuse(self: Any, *_: Any) -> Any:
        raise RuntimeError("no")

    model: Any = scripted_model({"Hi": "yes"})
    base: type = str if special == "__str__" else float
    held = type("Held", (base,), {special: refuse})("0.5")
    given: dict[str, Any] = {"timeout": held} if special == "__gt__" else {"temperature": held}
    with pytest.raises(InputTypeError, match=f"cannot be read: its {special} raised RuntimeError: no"):
        model.complete(**({"prompt": held} if base is str else {"prompt": "Hi", **given}))
