"""The options of a call as keywords: what `**options` stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

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


class ChatOptions(CallOptions, total=False):
    """What a chat takes besides. `Model.chat` says what each means."""

    tools: Sequence[Callable[..., Any] | Mapping[str, Any]] | None
    tool_choice: str | Mapping[str, Any] | None
    parallel_tool_calls: bool | None
    tools_auto: bool
    tool_rounds: int
    tools_as_text: bool


class StructuredOptions(CallOptions, total=False):
    """What a structured call takes besides."""

    pressure: bool


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


CHAT_DEFAULTS: dict[str, Any] = {
    "tools": None,
    "tool_choice": "auto",
    "parallel_tool_calls": None,
    "tools_auto": False,
    "tool_rounds": ROUNDS,
    "tools_as_text": False,
}


def shows(options: type) -> Callable[[F], F]:
    """Return a decorator that spells `**options` out in a call's signature."""
    return spelled_out(options, DEFAULTS | CHAT_DEFAULTS, "model.sampling")
