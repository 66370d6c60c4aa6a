"""`/v1/responses`: conversations in OpenAI's newer form. Nothing is kept, so nothing can be referred to."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from llama_magic.serving import asking, held, offering
from llama_magic.serving.exchange import Exchange
from llama_magic.serving.fields.responses import (
    CustomCall,
    FunctionCall,
    FunctionOutput,
    InputMessage,
    Item,
)
from llama_magic.serving.fields.responses import Response as Asked
from llama_magic.serving.items import ResponseWriter
from llama_magic.serving.refusals import Refusal

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.model import Model


async def responses(exchange: Exchange, asked: Asked) -> None:
    """Answer a conversation."""
    model = exchange.state.model(asked.model)
    wanted = asked.top_logprobs is not None or "message.output_text.logprobs" in (asked.include or ())
    prepare = partial(_prepared, model, asked, exchange.state.limits.max_tokens, wanted)
    (answer,) = await exchange.ask(model, [prepare], streamed=bool(asked.stream or wanted))
    writer = ResponseWriter(answer, asked, model, wanted)
    if asked.stream:
        await exchange.events(writer.frames())
    else:
        body = await writer.body()
        await exchange.respond(body, writer.ended)
    exchange.finish(writer.ended)


def _prepared(model: Model, asked: Asked, max_tokens: int | None, wanted: bool) -> Assembler:
    options = asking.options(model, asked, asked.max_output_tokens or max_tokens)
    if wanted:
        options["logprobs"] = asked.top_logprobs or 0
    if asked.truncation == "auto":
        options["overflow"] = "drop-oldest"
    effort = asked.reasoning.effort if asked.reasoning is not None else None
    beside = offering.beside(model, asked, asking.variables(model.formatter, None, effort))
    return asking.chat(model, _conversation(asked), options, beside, held.of_text(model, asked.text))


def _conversation(asked: Asked) -> list[dict[str, Any]]:
    """Return the input as messages; calls of one turn are one message."""
    found: list[dict[str, Any]] = []
    if asked.instructions:
        found.append({"role": "system", "content": asked.instructions})
    if isinstance(asked.input, str):
        return [*found, {"role": "user", "content": asked.input}]
    for item in asked.input:
        _add(found, item)
    if not found:
        raise Refusal(400, "input holds no message.", "input")
    return found


def _add(found: list[dict[str, Any]], item: Item) -> None:
    if isinstance(item, InputMessage):
        found.append({"role": item.role, "content": _text(item.content)})
    elif isinstance(item, (FunctionCall, CustomCall)):
        call: dict[str, Any] = {"id": item.call_id, "type": "function"}
        if isinstance(item, CustomCall):
            call |= {"type": "custom", "custom": {"name": item.name, "input": item.input}}
        else:
            call["function"] = {"name": item.name, "arguments": item.arguments}
        last = found[-1] if found else {}
        if last.get("role") != "assistant":
            last = {"role": "assistant", "content": ""}
            found.append(last)
        last.setdefault("tool_calls", []).append(asking.as_function(call))
    elif isinstance(item, FunctionOutput):
        found.append({"role": "tool", "tool_call_id": item.call_id, "content": _text(item.output)})


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.text if part.type != "refusal" else part.refusal for part in content)
