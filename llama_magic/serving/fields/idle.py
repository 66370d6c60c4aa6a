"""Fields of other servers that are taken where they change nothing here, and refused at any other value.

Front ends send them with every request: clients of llama-server, of vLLM, of text-generation-webui.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

_WINDOW = "A prompt over the window is refused, so nothing is cut."


_Empty = Annotated[list[Any], Field(max_length=0)]


def _only(number: float) -> Any:
    return Annotated[float, Field(ge=number, le=number)]


class Idle(NamedTuple):
    """A field: its type, the value that is taken ("" for any), and why, or what to write instead."""

    type: Any
    value: str
    why: str


_THINKS = "Thinking stands in reasoning_content; chat_template_kwargs turns it off, where the template can."
_NO_STAGE = "There is no such sampler; min_p and top_p are its kin."
_REPEAT = "Write repeat_penalty, and repeat_last_n: over how many tokens."
IDLE: Mapping[str, Idle] = {
    # llama-server
    "reasoning_format": Idle(Literal["auto", "deepseek"], '"auto"', _THINKS),
    "thinking_budget_tokens": Idle(Literal[-1], "-1", _THINKS),
    "reasoning_budget": Idle(Literal[-1], "-1", _THINKS),
    "backend_sampling": Idle(bool, "", "Where tokens are drawn changes none."),
    "id_slot": Idle(int, "", "What can be reused is found by itself."),
    "n_keep": Idle(int, "", _WINDOW),
    "n_discard": Idle(int, "", _WINDOW),
    "n_indent": Idle(Literal[0], "0", "A regex says how lines begin."),
    "t_max_predict_ms": Idle(_only(0), "0", "Close the connection: what is written stops then."),
    "lora": Idle(_Empty, "[]", "Adapters are chosen when a model is loaded."),
    "typ_p": Idle(_only(1), "1", "Write typical_p."),
    "tfs_z": Idle(_only(1), "1", _NO_STAGE),
    "penalize_nl": Idle(Literal[False], "false", "logit_bias on the token of the line break does so."),
    "parse_tool_calls": Idle(Literal[True], "true", "Leave tools out to have the text as it is."),
    # vLLM
    "include_reasoning": Idle(Literal[True], "true", _THINKS),
    "skip_special_tokens": Idle(Literal[True], "true", "/completion takes preserved_tokens."),
    "spaces_between_special_tokens": Idle(bool, "", "There are none in a text."),
    "include_stop_str_in_output": Idle(Literal[False], "false", "Add it to the text."),
    "stop_token_ids": Idle(_Empty, "[]", "Write stop, with their texts."),
    "repetition_penalty": Idle(_only(1), "1", _REPEAT),
    "length_penalty": Idle(_only(1), "1", "Answers are drawn; n gives several."),
    "use_beam_search": Idle(Literal[False], "false", "Answers are drawn; n gives several."),
    "priority": Idle(Literal[0], "0", "Requests are answered as they come."),
    "request_id": Idle(str, "", "It says nothing of the answer."),
    # others
    "top_a": Idle(_only(0), "0", _NO_STAGE),
    "tfs": Idle(_only(1), "1", _NO_STAGE),
    "guidance_scale": Idle(_only(1), "1", "There is no guidance by a second prompt."),
    "negative_prompt": Idle(Literal[""], '""', "There is no guidance by a second prompt."),
    "ban_eos_token": Idle(Literal[False], "false", "Write ignore_eos."),
    "prompt_cache_retention": Idle(str, "", "What can be reused is found by itself."),
}  # fmt: skip
