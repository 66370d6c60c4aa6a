"""`/v1/responses`: conversations in OpenAI's newer form. Nothing is kept, so nothing can be referred to."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from llama_magic.model.asked import Beside
from llama_magic.serving import asking
from llama_magic.serving.exchange import Exchange
from llama_magic.serving.fields.responses import (
    FlatSchema,
    FunctionCall,
    FunctionOutput,
    InputMessage,
    Item,
    PlainObject,
)
from llama_magic.serving.fields.responses import Response as Asked
from llama_magic.serving.items import ResponseWriter
from llama_magic.serving.refusals import Refusal

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.model import Model
    from llama_magic.structured import Constraint


async def responses(exchange: Exchange, asked: Asked) -> None:
    """Answer a conversation."""
    model = exchange.state.model(asked.model)
    wanted = asked.top_logprobs is not None or bool(asked.include)
    prepare = partial(_prepared, model, asked, exchange.state.limits.max_tokens, wanted)
    (answer,) = await exchange.ask(model, [prepare], streamed=bool(asked.stream or wanted))
    writer = ResponseWriter(answer, asked, model, wanted)
    if asked.stream:
        await exchange.events(writer.frames())
    else:
        await exchange.respond(await writer.body())
    exchange.finish(writer.ended)


def _prepared(model: Model, asked: Asked, max_tokens: int | None, wanted: bool) -> Assembler:
    options = asking.options(asked, asked.max_output_tokens or max_tokens)
    if wanted:
        options["logprobs"] = asked.top_logprobs or 0
    if asked.truncation == "auto":
        options["overflow"] = "drop-oldest"
    effort = asked.reasoning.effort if asked.reasoning is not None else None
    tools = [
        {"type": "function", "function": tool.model_dump(exclude_none=True, exclude={"type"})}
        for tool in asked.tools or ()
    ]
    choice = asked.tool_choice if isinstance(asked.tool_choice, (str, type(None))) else asked.tool_choice.name
    if choice not in (None, "none", "auto") and not tools:
        raise Refusal(400, "tool_choice needs tools.", "tool_choice")
    beside = Beside(
        tools=tools or None,
        tool_choice=choice or "auto",
        parallel_tool_calls=asked.parallel_tool_calls if tools else None,
        tools_as_text=True,
        template_variables=asking.variables(model.formatter, None, effort),
    )
    return asking.chat(model, _conversation(asked), options, beside, _held_to(model, asked))


def _held_to(model: Model, asked: Asked) -> Constraint | None:
    form = asked.text.format if asked.text is not None else None
    if isinstance(form, PlainObject):
        return asking.constraint(model, "text.format", schema={"type": "object"})
    if isinstance(form, FlatSchema):
        where = "text.format.schema"
        return asking.constraint(model, where, schema=form.schema_, strict=bool(form.strict))
    return None


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
    elif isinstance(item, FunctionCall):
        call = {
            "id": item.call_id,
            "type": "function",
            "function": {"name": item.name, "arguments": item.arguments},
        }
        last = found[-1] if found else {}
        if last.get("role") != "assistant":
            last = {"role": "assistant", "content": ""}
            found.append(last)
        last.setdefault("tool_calls", []).append(call)
    elif isinstance(item, FunctionOutput):
        found.append({"role": "tool", "tool_call_id": item.call_id, "content": _text(item.output)})


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.text if part.type != "refusal" else part.refusal for part in content)
