"""Answers of so many tokens at least, and prompts that are tokens already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llama_magic.errors import ContextOverflowError, InputTypeError, OptionError

GREEDY = {"temperature": 0, "max_tokens": 40}


@pytest.mark.parametrize("seed", [None, 5])
def test_an_answer_has_its_least_tokens(loaded: Callable[..., Any], seed: int | None) -> None:
    """It goes on where it would have ended, with the same tokens until there; its steps can be traced."""
    model = loaded("smollm2")
    ask = [{"role": "user", "content": "Say only: ok"}]
    short = model.chat(ask, seed=seed, **GREEDY)
    length = len(short.token_ids)
    assert short.finish_reason == "stop"
    longer = model.chat(ask, seed=seed, min_tokens=length + 3, **GREEDY)
    assert longer.token_ids[:length] == short.token_ids
    assert len(longer.token_ids) >= length + 3
    assert model.chat(ask, seed=seed, min_tokens=length, **GREEDY).token_ids == short.token_ids
    trace = longer.xray(length)
    assert trace.stages[1].name == "constraint"
    assert trace.drawn.id == longer.token_ids[length]
    assert longer.receipt["asked"]["min_tokens"] == length + 3
    assert longer.receipt["request"] != short.receipt["request"]


def test_a_constraint_holds_beside_it(loaded: Callable[..., Any]) -> None:
    """A constraint that may end early is written on; one that must end first ends the answer."""
    model = loaded("short")
    digits = model.complete("1", regex="[0-9]+", min_tokens=9, **GREEDY)
    assert digits.text.isdecimal()
    assert len(digits.token_ids) >= 9
    assert model.complete("A colour:", choices=["red"], min_tokens=30, **GREEDY).text == "red"


def test_what_stands_against_it_is_refused(loaded: Callable[..., Any]) -> None:
    """Stop texts, and a smaller max_tokens, could end the answer before."""
    model = loaded("short")
    for options, words in (
        ({"min_tokens": 3, "stop": "x"}, "stop texts"),
        ({"min_tokens": 9, "max_tokens": 8}, "max_tokens=8"),
        ({"min_tokens": -1}, "min_tokens is -1"),
    ):
        with pytest.raises(OptionError, match=words):
            model.complete("a", **options)


def test_a_special_token_may_stop_what_has_least_tokens(loaded: Callable[..., Any]) -> None:
    """It cannot be drawn before: the answer is longer than the one that it ends at once."""
    model = loaded("short")
    bias = {model.tokenize("<|im_start|>")[-1]: 100.0}
    how = {**GREEDY, "logit_bias": bias, "stop": "<|im_start|>", "max_tokens": 8}
    assert len(model.complete("a", **how).token_ids) == 0
    made = model.complete("a", min_tokens=5, **how)
    assert (len(made.token_ids), made.finish_reason) == (5, "stop")


def test_tokens_are_continued_as_they_are(loaded: Callable[..., Any]) -> None:
    """The tokens of a text give the answer of the text; others stay as they are cut; odd ones are refused."""
    model = loaded("short")
    ids = model.tokenize("Once upon a time")
    assert model.complete(ids, **GREEDY).token_ids == model.complete("Once upon a time", **GREEDY).token_ids
    cut = [token for letter in "Once" for token in model.tokenize(letter)]
    answer = model.complete(cut, **GREEDY)
    assert (answer.prompt, list(answer.prompt_token_ids)) == ("Once", cut)
    for odd, error in (
        ([], OptionError),
        ([True], InputTypeError),
        ([10**6], OptionError),
        ([-1], OptionError),
    ):
        with pytest.raises(error):
            model.complete(odd)
    with pytest.raises(ContextOverflowError):
        model.complete(ids * 1000)
