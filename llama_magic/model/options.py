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

# Options that do nothing without something else, by what each needs.
_OF_TOOLS: dict[str, Any] = {"tool_choice": "auto", "parallel_tool_calls": None, "tools_as_text": False}
_OF_FUNCTIONS: dict[str, Any] = {"tools_auto": False, "tool_rounds": ROUNDS}
_OF_THE_SCHEMA: dict[str, Any] = {"retries": 0, "thinking": False, "show_schema": False}
_OF_ANY_CONSTRAINT: dict[str, Any] = {"pressure": DEFAULTS["pressure"]}
_NEEDS = {
    "tools": (_OF_TOOLS, "no tools are given"),
    "functions": (_OF_FUNCTIONS, "no tool is a function, to be run here"),
    "schema": (_OF_THE_SCHEMA, "there is no schema"),
    "constraint": (_OF_ANY_CONSTRAINT, "nothing constrains the answer"),
}

# What a method takes itself, before the options of a call.
OF_A_TEXT: dict[str, Any] = {"instruct": False, "system": None}
OF_A_CONSTRAINT: dict[str, Any] = {"grammar": None, "regex": None, "choices": None}
OF_A_SCHEMA: dict[str, Any] = {"system": None, "template_variables": None} | _OF_THE_SCHEMA
OF_A_CHAT: dict[str, Any] = {"template_variables": None, "tools": None} | _OF_TOOLS | _OF_FUNCTIONS


def idle(options: Mapping[str, Any], there: Collection[str]) -> tuple[str, ...]:
    """Say which options were given and do nothing, for what they need is not among what is `there`.

    A default is no wish.
    """
    return tuple(
        f"{as_written(name)} does nothing: {missing}."
        for need, (some, missing) in _NEEDS.items()
        for name, default in some.items()
        if need not in there and _is_wish(options.get(name), default)
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
