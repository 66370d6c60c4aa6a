"""Tools on a real model, whose vocabulary and template they must fit; `soak_tools.py` does more of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tool_calls import named_choices


def test_a_named_choice_is_called(loaded: Callable[..., Any], short: Any) -> None:
    """Drawn hot, streamed and not: each answer is one call of the named tool, with arguments that fit."""
    assert named_choices(loaded("smollm2"), 1) == []
    assert named_choices(short, 2) == []


def test_none_writes_no_call_and_auto_may(short: Any) -> None:
    """A model that is pushed to its mark writes it with "auto" and cannot with "none"; seeded as unseeded."""
    ask = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": "<tool_call"}]
    push = {"logit_bias": dict.fromkeys(short.tokenize(">"), 50), "max_tokens": 1, "tools_as_text": True}
    tools = [{"name": "go", "parameters": {"type": "object", "properties": {}}}]
    for seed in (None, 1):
        free = short.chat(ask, tools=tools, seed=seed, **push)
        held = short.chat(ask, tools=tools, seed=seed, tool_choice="none", **push)
        assert free.raw_text == ">"
        assert "<tool_call>" not in f"<tool_call{held.raw_text}"  # " />" is another token, and no mark
