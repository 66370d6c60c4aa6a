"""From the fields of a request to a call on a model: options, constraint, tools, messages."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llama_magic.errors import LlamaMagicError
from llama_magic.model.asked import Beside
from llama_magic.model.thinking import Thinking
from llama_magic.request.stages import PARAMETERS
from llama_magic.serving.fields.common import SamplingFields
from llama_magic.serving.fields.tools import INPUT
from llama_magic.serving.refusals import Refusal, refusal_of

if TYPE_CHECKING:
    from llama_magic.formatters import Formatter
    from llama_magic.model.answer import Assembler
    from llama_magic.model.model import Model
    from llama_magic.serving.fields.chat import Message
    from llama_magic.structured import Constraint

_EFFORT = "reasoning_effort"


def options(model: Model, asked: SamplingFields, max_tokens: int | None) -> dict[str, Any]:
    """Return the options of a call: what a request says of drawing and ending, where it says something."""
    for name in ("num_ctx", "truncation_length"):
        if (most := getattr(asked, name) or 0) > model.window:
            words = f"{name} is {most:,}; the window holds {model.window:,} tokens, and is set when"
            raise Refusal(400, f"{words} the model is loaded.", name)
    given: dict[str, Any] = {
        name: value for name in PARAMETERS if (value := getattr(asked, name, None)) is not None
    }
    if asked.logit_bias is not None:
        given["logit_bias"] = _bias(asked.logit_bias)
    for name in ("seed", "stop", "min_tokens", "ignore_eos"):
        if (value := getattr(asked, name)) is not None:
            given[name] = value
    if asked.stop is not None:
        given["stop"] = [asked.stop] if isinstance(asked.stop, str) else asked.stop
    if asked.cache_prompt is False:
        given["reuse"] = False
    if max_tokens is not None:
        given["max_tokens"] = max_tokens
    return given


def _bias(given: Mapping[str, float] | Sequence[tuple[int, float]]) -> dict[int, float]:
    pairs = given.items() if isinstance(given, Mapping) else given
    made: dict[int, float] = {}
    for token, bias in pairs:
        if not (isinstance(token, int) or (str(token).isascii() and str(token).isdecimal())):
            raise Refusal(
                400, f"logit_bias names {str(token)[:50]!r}; expected the id of a token.", "logit_bias"
            )
        made[int(token)] = -math.inf if bias is False else bias
    return made


def naming(param: str, work: Callable[[], Any], fields: Collection[str] = ()) -> Any:
    """Return what `work` returns; a refusal names a field: one of `fields` that it speaks of, or `param`."""
    try:
        return work()
    except LlamaMagicError as error:
        refusal = refusal_of(error).about(fields)
        # A window that is full is said in its own way, and a model that is closed is no field's fault.
        if refusal.status == 400 and not refusal.type and refusal.param is None:
            refusal.param, refusal.message = param, f"{param}: {refusal.message}"
        raise refusal from None


def prompts(given: str | Sequence[Any]) -> list[Any]:
    """Return each prompt of a request: a list is several, unless one of its members is a token."""
    if isinstance(given, str) or any(isinstance(part, int) for part in given):
        return [given]
    return list(given)


def prompt(model: Model, given: str | Sequence[int | str]) -> str | list[int]:
    """Return a text, or tokens; of a mixed list each text is cut by itself, with BOS where it begins."""
    if isinstance(given, str):
        return given
    tokens: list[int] = []
    for place, part in enumerate(given):
        if isinstance(part, int):
            tokens.append(part)
        else:
            made = model.tokenize(part)
            tokens += made if not place else made[len(model.tokenize("")) :]
    return tokens


def room(model: Model, prompt: str | list[int]) -> int:
    """Return how many tokens the window has for an answer."""
    return max(1, model.window - (model.count_tokens(prompt) if isinstance(prompt, str) else len(prompt)))


def messages(given: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as formatters take them."""
    return [_message(message, place) for place, message in enumerate(given)]


def _message(message: Message, place: int) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role}
    if isinstance(message.content, list):
        plain["content"] = [
            {"type": "text", "text": part.text if part.type != "refusal" else part.refusal}
            for part in message.content
        ]
    elif message.content is not None:
        plain["content"] = message.content
    elif not message.tool_calls:
        text = message.refusal
        if text is None:
            raise Refusal(400, f"messages[{place}] has no content.", f"messages[{place}].content")
        plain["content"] = text
    if message.tool_calls:
        plain["tool_calls"] = [as_function(call.model_dump()) for call in message.tool_calls]
    thought = message.reasoning_content or message.reasoning
    said = {"name": message.name, "tool_call_id": message.tool_call_id, "reasoning_content": thought}
    plain |= {name: value for name, value in said.items() if value is not None}
    return plain


def as_function(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call of an earlier answer as templates take it."""
    if call["type"] != "custom":
        function = {name: call["function"][name] for name in ("name", "arguments")}
        return {"id": call["id"], "type": "function", "function": function}
    arguments = json.dumps({INPUT: call["custom"]["input"]}, ensure_ascii=False)
    function = {"name": call["custom"]["name"], "arguments": arguments}
    return {"id": call["id"], "type": "function", "function": function}


def variables(formatter: Formatter, given: Mapping[str, Any] | None, effort: str | None) -> dict[str, Any]:
    """Return the variables of the template. Raises `Refusal` for one that it does not read."""
    template = getattr(formatter, "template", None)
    known = template.variables if template is not None else None
    off = formatter.thinking_off_variables
    if effort == "none" and off and _EFFORT not in (known or ()):
        return variables(formatter, {**off, **(given or {})}, None)
    wanted = {**(given or {}), **({_EFFORT: effort} if effort is not None else {})}
    for name in wanted:
        field = _EFFORT if name == _EFFORT and effort is not None else f"chat_template_kwargs.{name}"
        reads = name in known if known is not None else name in (formatter.thinking_off_variables or {})
        if not reads and not (known is None and name == _EFFORT and formatter.name == "gpt_oss"):
            raise Refusal(400, f"{field}: the template of this model does not read it.", field)
    return wanted


def chat(
    model: Model,
    conversation: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    beside: Beside,
    held_to: Constraint | None,
) -> Assembler:
    """Prepare the answer to a conversation."""
    thinking = None
    beside = replace(beside, either=bool(held_to is not None and beside.tools))
    if held_to is not None:
        thinking = Thinking.choose(model.formatter, False, beside.template_variables)
    return model.calls.chat("chat", conversation, held_to, options, beside, thinking)
