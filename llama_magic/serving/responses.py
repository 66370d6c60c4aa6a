"""`/v1/responses`: conversations in OpenAI's newer form. Nothing is kept, so nothing can be referred to."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

from llama_magic.model.asked import Beside
from llama_magic.request.messages import assistant_message
from llama_magic.serving import asking
from llama_magic.serving.exchange import PING, Exchange, event, now
from llama_magic.serving.fields.responses import (
    FlatSchema,
    FunctionCall,
    FunctionOutput,
    InputMessage,
    Item,
    PlainObject,
)
from llama_magic.serving.fields.responses import Response as Asked
from llama_magic.serving.refusals import Refusal
from llama_magic.serving.telling import Told, usage_of

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.model import Model
    from llama_magic.model.results import Completion
    from llama_magic.serving.answers import Answer
    from llama_magic.structured import Constraint


async def responses(exchange: Exchange, asked: Asked) -> None:
    """Answer a conversation."""
    model = exchange.state.model(asked.model)
    wanted = asked.top_logprobs is not None or bool(asked.include)
    prepare = partial(_prepared, model, asked, exchange.state.limits.max_tokens, wanted)
    (answer,) = await exchange.ask(model, [prepare], streamed=bool(asked.stream or wanted))
    writer = _Writer(answer, asked, model, wanted)
    if asked.stream:
        await exchange.events(writer.frames())
    else:
        await exchange.whole(await writer.whole())
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


class _Writer:
    """Writes one response. `ended` is how it ended."""

    def __init__(self, answer: Answer, asked: Asked, model: Model, logprobs: bool) -> None:
        self._answer = answer
        self._asked = asked
        self._model = model
        self._told = Told(model, logprobs)
        self._id = f"resp_{secrets.token_hex(12)}"
        self._message = f"msg_{secrets.token_hex(12)}"
        self._thought = f"rs_{secrets.token_hex(12)}"
        self._created = now()
        self._number = 0
        self.ended = ""

    async def whole(self) -> dict[str, Any]:
        """Return the body when all is written."""
        told = self._told
        async for chunks in self._answer.chunks():
            for chunk in chunks:
                told.add(chunk)
        (made,) = self._answer.completions()
        return self._body(made, self._items(made, told.take() if told.wanted else []))

    def _items(self, made: Completion[Any], logprobs: list[Any]) -> list[dict[str, Any]]:
        """Return what was written: a reasoning, a message, calls."""
        items: list[dict[str, Any]] = []
        if made.thinking:
            items.append(self._reasoning(made.thinking))
        calls = assistant_message("", made.tool_calls)
        text = made.text + str(calls["content"])
        if text.strip() or not calls.get("tool_calls"):
            items.append(self._said(text, self._status(made), logprobs))
        return [*items, *(_called(call) for call in calls.get("tool_calls", ()))]

    def _reasoning(self, text: str) -> dict[str, Any]:
        content = [{"type": "reasoning_text", "text": text}]
        return {
            "type": "reasoning",
            "id": self._thought,
            "summary": [],
            "content": content,
            "status": "completed",
        }

    def _said(self, text: str, status: str, logprobs: list[Any]) -> dict[str, Any]:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}
        return {
            "type": "message",
            "id": self._message,
            "role": "assistant",
            "status": status,
            "content": [part],
        }

    def _status(self, made: Completion[Any] | None) -> str:
        if made is None:
            return "in_progress"
        return "incomplete" if made.finish_reason in ("length", "timeout") else "completed"

    def _body(self, made: Completion[Any] | None, output: list[dict[str, Any]]) -> dict[str, Any]:
        asked = self._asked
        status = self._status(made)
        if made is not None:
            self.ended = (
                "tool_calls" if any(i["type"] == "function_call" for i in output) else made.finish_reason
            )
        sampling = self._answer.assembler.request.sampling
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": asked.instructions,
            "max_output_tokens": asked.max_output_tokens,
            "model": self._model.name,
            "output": output,
            "parallel_tool_calls": asked.parallel_tool_calls is not False,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "store": False,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "text": {"format": _format(asked)},
            "tool_choice": _choice(asked),
            "tools": [tool.model_dump() for tool in asked.tools or ()],
            "top_logprobs": asked.top_logprobs or 0,
            "truncation": asked.truncation or "disabled",
            "metadata": asked.metadata or {},
            "usage": None if made is None else _usage(made, self._reasoned(made)),
            "user": asked.user,
        }

    def _reasoned(self, made: Completion[Any]) -> int:
        """Return how many tokens the thinking has, cut anew without the marks around it."""
        return len(self._model.backend.tokenizer.tokenize(made.thinking)) if made.thinking else 0

    # --- streamed ---------------------------------------------------------------------------

    def _event(self, kind: str, **body: Any) -> bytes:
        made = event({"type": kind, "sequence_number": self._number, **body}, kind)
        self._number += 1
        return made

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield the events, in OpenAI's order."""
        begun = self._body(None, [])
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)
        parts = _Parts(self)
        async for chunks in self._answer.chunks():
            frames = [frame for chunk in chunks for frame in parts.of(chunk)]
            if frames or not chunks:
                yield b"".join(frames) or PING
        (made,) = self._answer.completions()
        if not parts.output and not parts.saying:
            yield b"".join(parts.begin_message())
        yield b"".join(parts.close(self._status(made)))
        body = self._body(made, parts.output)
        kind = "response.incomplete" if body["status"] == "incomplete" else "response.completed"
        yield self._event(kind, response=body)


class _Parts:
    """The output items of a stream, one after the other: what is begun is closed before the next begins."""

    def __init__(self, writer: _Writer) -> None:
        self._writer = writer
        self._event = writer._event
        self.output: list[dict[str, Any]] = []  # those that are through
        self.saying = ""  # "text" or "thinking", what is being written
        self._text = ""
        self._logprobs: list[Any] = []

    def of(self, chunk: Any) -> list[bytes]:
        """Return the events of a chunk."""
        frames: list[bytes] = []
        self._writer._told.add(chunk)
        if chunk.thinking:
            frames += self._begin("thinking")
            self._text += chunk.thinking
            frames.append(self._delta("response.reasoning_text.delta", chunk.thinking))
        if chunk.delta and (chunk.delta.strip() or self.saying == "text"):
            frames += self._begin("text")
            self._text += chunk.delta
            told = self._writer._told.take() if self._writer._told.wanted else []
            self._logprobs += told
            frames.append(self._delta("response.output_text.delta", chunk.delta, logprobs=told))
        for call in chunk.tool_calls:
            if call["name"]:
                frames += [*self.close("completed"), *self._call(call)]
        return frames

    def begin_message(self) -> list[bytes]:
        """Begin a message, though nothing is said in it."""
        return self._begin("text")

    def _delta(self, kind: str, text: str, **more: Any) -> bytes:
        item = self._writer._thought if self.saying == "thinking" else self._writer._message
        place = {"item_id": item, "output_index": len(self.output), "content_index": 0}
        return self._event(kind, **place, delta=text, **more)

    def _begin(self, what: str) -> list[bytes]:
        if self.saying == what:
            return []
        frames = self.close("completed")
        self.saying, self._text, self._logprobs = what, "", []
        writer, place = self._writer, len(self.output)
        if what == "thinking":
            item = {**writer._reasoning(""), "content": [], "status": "in_progress"}
            return [*frames, self._event("response.output_item.added", output_index=place, item=item)]
        item = {**writer._said("", "in_progress", []), "content": []}
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        where = {"item_id": item["id"], "output_index": place, "content_index": 0}
        return [
            *frames,
            self._event("response.output_item.added", output_index=place, item=item),
            self._event("response.content_part.added", **where, part=part),
        ]

    def close(self, status: str) -> list[bytes]:
        """End what is being written."""
        what, self.saying = self.saying, ""
        if not what:
            return []
        writer, place = self._writer, len(self.output)
        if what == "thinking":
            item = writer._reasoning(self._text)
            where = {"item_id": item["id"], "output_index": place, "content_index": 0}
            frames = [self._event("response.reasoning_text.done", **where, text=self._text)]
        else:
            item = writer._said(self._text, status, self._logprobs)
            where = {"item_id": item["id"], "output_index": place, "content_index": 0}
            done = {"text": self._text, "logprobs": self._logprobs}
            frames = [
                self._event("response.output_text.done", **where, **done),
                self._event("response.content_part.done", **where, part=item["content"][0]),
            ]
        self.output.append(item)
        return [*frames, self._event("response.output_item.done", output_index=place, item=item)]

    def _call(self, call: dict[str, Any]) -> list[bytes]:
        (made,) = assistant_message("", [call])["tool_calls"]
        item, place = _called(made), len(self.output)
        self.output.append(item)
        where = {"item_id": item["id"], "output_index": place}
        begun = {**item, "arguments": "", "status": "in_progress"}
        kind = "response.function_call_arguments"
        return [
            self._event("response.output_item.added", output_index=place, item=begun),
            self._event(f"{kind}.delta", **where, delta=item["arguments"]),
            self._event(f"{kind}.done", **where, name=item["name"], arguments=item["arguments"]),
            self._event("response.output_item.done", output_index=place, item=item),
        ]


def _called(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {
        "type": "function_call", "id": f"fc_{call['id']}", "call_id": call["id"], "name": function["name"],
        "arguments": function["arguments"], "status": "completed",
    }  # fmt: skip


def _format(asked: Asked) -> dict[str, Any]:
    form = asked.text.format if asked.text is not None else None
    if form is None:
        return {"type": "text"}
    made = form.model_dump(by_alias=True, exclude_none=True)
    return {"name": "answer", **made} if isinstance(form, FlatSchema) else made


def _choice(asked: Asked) -> Any:
    if asked.tool_choice is None or isinstance(asked.tool_choice, str):
        return asked.tool_choice or "auto"
    return {"type": "function", "name": asked.tool_choice.name}


def _usage(made: Completion[Any], reasoning: int) -> dict[str, Any]:
    found = usage_of([made])
    cached = made.usage.cached_tokens
    return {
        "input_tokens": found["prompt_tokens"],
        "input_tokens_details": {
            "cached_tokens": cached,
            "cache_write_tokens": found["prompt_tokens"] - cached,
        },
        "output_tokens": found["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": found["total_tokens"],
    }
