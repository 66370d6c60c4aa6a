"""Fields of other servers that are taken where they change nothing here, and refused at any other value.

Front ends send them with every request: clients of llama-server, of vLLM, of text-generation-webui. Some
send one thing by the names of all servers at once (`SAME`).
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
    "tfs_z": Idle(_only(1), "1", _NO_STAGE),
    "penalize_nl": Idle(Literal[False], "false", "logit_bias on the token of the line break does so."),
    "parse_tool_calls": Idle(Literal[True], "true", "Leave tools out to have the text as it is."),
    # vLLM
    "include_reasoning": Idle(Literal[True], "true", _THINKS),
    "skip_special_tokens": Idle(Literal[True], "true", "/completion takes preserved_tokens."),
    "spaces_between_special_tokens": Idle(bool, "", "There are none in a text."),
    "include_stop_str_in_output": Idle(Literal[False], "false", "Add it to the text."),
    "stop_token_ids": Idle(_Empty, "[]", "Write stop, with their texts."),
    "length_penalty": Idle(_only(1), "1", "Answers are drawn; n gives several."),
    "use_beam_search": Idle(Literal[False], "false", "Answers are drawn; n gives several."),
    "priority": Idle(Literal[0], "0", "Requests are answered as they come."),
    "request_id": Idle(str, "", "It says nothing of the answer."),
    # others
    "top_a": Idle(_only(0), "0", _NO_STAGE),
    "tfs": Idle(_only(1), "1", _NO_STAGE),
    "guidance_scale": Idle(_only(1), "1", "There is no guidance by a second prompt."),
    "negative_prompt": Idle(Literal[""], '""', "There is no guidance by a second prompt."),
    "skew": Idle(_only(0), "0", _NO_STAGE),
    "smoothing_factor": Idle(_only(0), "0", _NO_STAGE),
    "smoothing_curve": Idle(float, "", "It shapes smoothing_factor, which there is none of."),
    "rep_pen_slope": Idle(_only(1), "1", "repeat_last_n says over how many tokens; each counts the same."),
    "max_tokens_second": Idle(_only(0), "0", "It is written as fast as it can be."),
    "add_bos_token": Idle(Literal[True], "true", "Write the prompt as tokens: none is put in front of them."),
    "custom_token_bans": Idle(Literal[""], '""', "Write logit_bias: [[id, false]] bars a token."),
    "banned_strings": Idle(_Empty, "[]", "regex and grammar say what may be written."),
    "legacy_api": Idle(Literal[False], "false", "There is one form of each path."),
    "api_type": Idle(str, "", "It says which kind of server the client takes this one for."),
    "api_server": Idle(str, "", "It says where the client thinks that this server is."),
    "prompt_cache_retention": Idle(str, "", "What can be reused is found by itself."),
}  # fmt: skip


class Same(NamedTuple):
    """Another name of a field: taken where it says what that says, or `off`, which asks for nothing."""

    of: tuple[str, ...]  # what it is called here; a limit is called otherwise at each path
    off: Any = None


_REPEAT = ("repeat_penalty",)
_OVER = ("repeat_last_n",)
_LIMIT = ("n_predict", "max_tokens", "max_completion_tokens", "max_output_tokens")
SAME: Mapping[str, Same] = {
    "typ_p": Same(("typical_p",), 1),
    "typical": Same(("typical_p",), 1),
    "repetition_penalty": Same(_REPEAT, 1),
    "rep_pen": Same(_REPEAT, 1),
    "repetition_penalty_range": Same(_OVER),
    "rep_pen_range": Same(_OVER),
    "nsigma": Same(("top_n_sigma",), 0),
    "mirostat_mode": Same(("mirostat",), 0),
    "stopping_strings": Same(("stop",), []),
    "ban_eos_token": Same(("ignore_eos",), False),
    "sampler_seed": Same(("seed",), -1),
    "grammar_string": Same(("grammar",), ""),
    "max_new_tokens": Same(_LIMIT),
    "num_predict": Same(_LIMIT),
}
