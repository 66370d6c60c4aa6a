"""Whatever is given to a call of a model: an answer, or an error of the one tree."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np
import pandas as pd
import pytest

import llama_magic as lm
from llama_magic.words.given import quoted


def _raises(method: str, base: type = object) -> Any:
    """Return an object of which one special method fails, as those of half-made or closed objects do."""

    def fail(*_: Any) -> Any:
        raise ZeroDivisionError("closed")

    fail.__code__ = fail.__code__.replace(co_name=method)
    return type("Bad", (base,), {method: property(fail) if method == "__class__" else fail})()


ODD: tuple[Any, ...] = (
    *(3, -1, 10**30, 0.5, float("nan"), "x", "", b"x", True, "\ud800", "a\0b"),
    *([], [1], ["a"], [None], {}, {"a": 1}, {1: 2}, (), {1}, range(3)),
    *(object(), len, int, type, np.array([1, 2]), np.array(["a"]), np.float32(1), pd.DataFrame({"a": [1]})),
    *(_raises("__class__"), _raises("__getattr__"), _raises("__iter__"), _raises("__len__", str)),
    *(_raises("__eq__", str), _raises("__bool__", list), _raises("__index__", int)),
)
HI = [{"role": "user", "content": "一"}]
OPTIONS = (
    *("n", "stream", "instruct", "system", "grammar", "regex", "choices", "temperature", "top_k", "seed"),
    *("stop", "logprobs", "overflow", "timeout", "tag", "speculate", "reuse", "logit_bias", "samplers"),
    *("dry_sequence_breakers", "mirostat", "max_tokens", "min_tokens", "ignore_eos", "sampling"),
)
CHAT = (
    "tools",
    "tool_choice",
    "tools_auto",
    "tools_as_text",
    "template_variables",
    "prefill",
    "drop_thinking",
)
STRUCTURED = ("retries", "thinking", "show_schema", "pressure", "system", "template_variables")


def _calls(m: Any, answer: Any) -> dict[str, Callable[[Any], Any]]:
    one: dict[str, Any] = {"max_tokens": 1}
    told = [{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f"}}]}, *HI]
    return {
        "complete": lambda odd: m.complete(odd, **one),
        "chat": lambda odd: m.chat(odd, **one),
        "a message": lambda odd: m.chat([odd], **one),
        "a role": lambda odd: m.chat([{"role": odd, "content": "一"}], **one),
        "a content": lambda odd: m.chat([{"role": "user", "content": odd}], **one),
        "a part": lambda odd: m.chat([{"role": "user", "content": [odd]}], **one),
        "tool calls": lambda odd: m.chat([*HI, {**told[0], "tool_calls": odd}, *HI], **one),
        "a tool call": lambda odd: m.chat([*HI, {**told[0], "tool_calls": [odd]}, *HI], **one),
        "structured": lambda odd: m.structured(odd, bool, **one),
        "a schema": m.constraint,
        **{f"constraint {k}": (lambda odd, k=k: m.constraint(**{k: odd})) for k in ("regex", "choices")},
        **{f"con.{k}": (lambda odd, k=k: getattr(m.constraint(bool), k)(odd)) for k in ("accepts", "parse")},
        **{k: (lambda odd, k=k: getattr(m, k)(odd)) for k in ("tokenize", "detokenize", "count_tokens")},
        **{
            k: (lambda odd, k=k: getattr(m, k)(odd)) for k in ("embed", "read", "xray", "rerun", "kv_restore")
        },
        "xray sampling": lambda odd: m.xray("一", odd),
        "kv_fork": lambda odd: m.kv_fork(odd, "b"),
        "a fork's name": lambda odd: m.kv_fork("a", odd),
        "score": lambda odd: m.score("一", odd),
        "alternatives": answer.alternatives,
        "how many": lambda odd: answer.alternatives(0, k=odd),
        "fork": lambda odd: answer.fork(odd, "一", **one),
        "a fork's text": lambda odd: answer.fork(1, odd, **one),
        "r.xray": answer.xray,
        "tree": lm.tree,
        "vote": lm.vote,
        "diff": lambda odd: lm.diff(odd, answer),
        "alias": lambda odd: lm.alias(odd, None),
        "alias for": lambda odd: lm.alias("odd", odd),
        "on_error": lambda odd: lm.map([{"a": 1}], "一", on_error=odd, model=m, **one),
        **{f"option {k}": (lambda odd, k=k: m.complete("一", **{**one, k: odd})) for k in OPTIONS},
        **{f"chat {k}": (lambda odd, k=k: m.chat(HI, **{**one, k: odd})) for k in CHAT},
        **{f"structured {k}": (lambda odd, k=k: m.structured("一", bool, **{k: odd})) for k in STRUCTURED},
        **{
            f"load {k}": (lambda odd, k=k: lm.load(m.path, **{"dry_run": True, k: odd}))
            for k in ("ctx", "gpu_layers", "kv_type", "flash_attn", "rope_scaling", "mmap", "profile")
        },
    }


def test_no_call_raises_anything_foreign(scripted: Any) -> None:
    """Every argument of every public call, given 40 things that it is not: nothing but the one tree."""
    answer = scripted.complete("一", max_tokens=2, seed=1, logprobs=1)
    foreign = []
    for name, call in _calls(scripted, answer).items():
        for odd in ODD:
            try:
                made = call(odd)
                if hasattr(made, "cancel"):
                    made.cancel()
            except lm.LlamaMagicError:
                pass
            except Exception as error:
                foreign.append(f"{name} of {quoted(odd):.40}: {type(error).__name__} {error}")
    assert foreign == []


@pytest.mark.parametrize(
    ("option", "wrong", "said"),
    [
        ("reuse", "no", "reuse is of type str; expected True or False"),
        ("ignore_eos", np.array([1, 2]), "ignore_eos is of type ndarray; expected True or False"),
        ("max_tokens", np.array([1, 2]), "max_tokens is array([1, 2]); expected a whole number"),
        ("stream", 2, "stream is of type int; expected True or False"),
    ],
)
def test_a_wrong_type_is_named(scripted: Any, option: str, wrong: Any, said: str) -> None:
    """The option, what it is, what it should be."""
    with pytest.raises(lm.InputTypeError, match=re.escape(said)):
        scripted.complete("一", **{"max_tokens": 1, option: wrong})


def test_numbers_and_flags_of_numpy_are_taken(scripted: Any) -> None:
    """They mean what Python's own mean."""
    given: dict[str, Any] = {
        "max_tokens": np.int64(3),
        "seed": np.uint32(7),
        "reuse": np.False_,
        "n": np.int8(1),
    }
    assert scripted.complete("一", **given).receipt["seed"] == 7
    assert scripted.complete("一", **given).usage.cached_tokens == 0
    assert len(scripted.complete("一", ignore_eos=np.True_, **given).token_ids) == 3


def test_an_object_whose_own_methods_fail_is_named(scripted: Any) -> None:
    """The method that failed and with what; a tool's own error stays the tool's."""
    with pytest.raises(
        lm.InputTypeError, match=r"given to detokenize .* its __iter__ raised ZeroDiv.*: closed"
    ):
        scripted.detokenize(_raises("__iter__", list))
    with pytest.raises(lm.InputTypeError, match=r"given to map cannot be read: its __iter__ raised"):
        lm.map(_raises("__iter__", list), "一", model=scripted)

    def rows() -> Any:
        yield "一"
        raise KeyError("the caller's")

    with pytest.raises(KeyError, match="the caller's"):
        scripted.embed(rows())


def test_an_iterator_without_end_is_refused(scripted: Any) -> None:
    """Rows, texts, tokens, options, models and answers are taken from an iterator up to a million."""
    endless: dict[str, Callable[[], Any]] = {
        "rows": lambda: lm.map(repeat("a"), "一", model=scripted),
        "options": lambda: lm.decide(["a"], "一", options=repeat("a"), model=scripted),
        "models": lambda: lm.sweep("一", over={}, models=repeat(scripted)),
        "texts": lambda: scripted.embed(repeat("a")),
        "tokens": lambda: scripted.detokenize(repeat(1)),
        "pairs of logit_bias": lambda: scripted.complete("一", logit_bias=repeat((1, 1))),
        "answers": lambda: lm.tree(repeat("a")),
    }
    for what, call in endless.items():
        with pytest.raises(lm.OptionError, match=rf"The {what} are an iterator of more than 1,000,000"):
            call()
    with pytest.raises(lm.OptionError, match="The answers are an iterator"):
        lm.vote(repeat("a"))
