"""The options of a call as keywords: what `**options` stands for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, get_args

from llama_magic.doors import as_written
from llama_magic.model.guard import Overflow
from llama_magic.model.tools import ROUNDS
from llama_magic.request.sampling import Sampling
from llama_magic.request.stages import SamplingOptions
from llama_magic.words.signature import F, spelled_out

Speculate = Literal["auto", "off"]
SPECULATE: tuple[Speculate, ...] = get_args(Speculate)


class CallOptions(SamplingOptions, total=False):
    """What every call takes. `Model.complete` says what each means."""

    max_tokens: int | None
    seed: int | None
    stop: str | Sequence[str] | None
    logprobs: int | None
    overflow: Overflow
    reuse: bool
    min_tokens: int
    ignore_eos: bool
    timeout: float | None
    tag: str | None
    prefill: str | None
    drop_thinking: bool
    speculate: Speculate
    sampling: Sampling | None


class CompleteOptions(CallOptions, total=False):
    """What `Model.complete` takes besides, which says what each means."""

    instruct: bool
    system: str | None
    grammar: str | None
    regex: str | None
    choices: Sequence[Any] | None


class ChatOptions(CallOptions, total=False):
    """What `Model.chat` takes besides, which says what each means."""

    grammar: str | None
    regex: str | None
    choices: Sequence[Any] | None
    template_variables: Mapping[str, Any] | None
    tools: Sequence[Callable[..., Any] | Mapping[str, Any]] | None
    tool_choice: str | Mapping[str, Any] | None
    parallel_tool_calls: bool | None
    tools_auto: bool
    tool_rounds: int
    tools_as_text: bool


class StructuredOptions(CallOptions, total=False):
    """What any call takes, and a structured one besides."""

    pressure: bool


class SchemaOptions(StructuredOptions, total=False):
    """What `Model.structured` takes, which says what each means."""

    system: str | None
    retries: int
    thinking: bool
    show_schema: bool
    template_variables: Mapping[str, Any] | None


DEFAULTS: dict[str, Any] = {
    "max_tokens": None,
    "seed": None,
    "stop": None,
    "logprobs": None,
    "overflow": "error",
    "reuse": True,
    "min_tokens": 0,
    "ignore_eos": False,
    "timeout": None,
    "tag": None,
    "prefill": None,
    "drop_thinking": False,
    "speculate": "auto",
    "sampling": None,
    "pressure": False,
}

# What a method takes itself, before the options of a call.
OF_A_TEXT: dict[str, Any] = {"instruct": False, "system": None}
OF_A_CONSTRAINT: dict[str, Any] = {"grammar": None, "regex": None, "choices": None}
OF_A_SCHEMA: dict[str, Any] = {
    "system": None,
    "retries": 0,
    "thinking": False,
    "show_schema": False,
    "template_variables": None,
}
OF_A_CHAT: dict[str, Any] = {
    "template_variables": None,
    "tools": None,
    "tool_choice": "auto",
    "parallel_tool_calls": None,
    "tools_auto": False,
    "tool_rounds": ROUNDS,
    "tools_as_text": False,
}


# Options that do nothing without another one: what each needs, and what is said where that is not there.
_NEEDS = {
    **dict.fromkeys(("tool_choice", "parallel_tool_calls", "tools_as_text"), "tools"),
    **dict.fromkeys(("tools_auto", "tool_rounds"), "functions"),
    **dict.fromkeys(("retries", "thinking", "show_schema"), "schema"),
    "pressure": "constraint",
}
_MISSING = {
    "tools": "no tools are given",
    "functions": "no tool is a function, to be run here",
    "schema": "there is no schema",
    "constraint": "nothing constrains the answer",
}


def idle(options: Mapping[str, Any], there: Collection[str]) -> tuple[str, ...]:
    """Say which options were given and do nothing, for what they need is not among what is `there`.

    A default is no wish.
    """
    return tuple(
        f"{as_written(name)} does nothing: {_MISSING[need]}."
        for name, need in _NEEDS.items()
        if need not in there and _is_wish(options.get(name), _SHOWN[name])
    )


def _is_wish(value: Any, default: Any) -> bool:
    """Whether a value is given, and no default; what is of another type (an array) is refused elsewhere."""
    return isinstance(value, (bool, int, float, str, dict)) and value != default


_SHOWN = OF_A_TEXT | OF_A_CONSTRAINT | OF_A_SCHEMA | DEFAULTS | OF_A_CHAT


def taken(options: dict[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Take from `options` those that `defaults` names, and return them; what was not given is the default."""
    return {name: options.pop(name, default) for name, default in defaults.items()}


def shows(options: type) -> Callable[[F], F]:
    """Return a decorator that spells `**options` out in a call's signature."""
    return spelled_out(options, _SHOWN, "model.sampling")
