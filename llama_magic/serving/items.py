"""A response as OpenAI's API writes it: items one after the other, whole or as numbered events."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from llama_magic.request.messages import assistant_message
from llama_magic.serving.exchange import PING, event, now
from llama_magic.serving.fields.responses import FlatSchema
from llama_magic.serving.fields.responses import Response as Asked
from llama_magic.serving.fields.tools import custom_names
from llama_magic.serving.telling import Told, called, usage_of

if TYPE_CHECKING:
    from llama_magic.model.model import Model
    from llama_magic.model.results import Chunk, Completion
    from llama_magic.serving.answers import ServedAnswer


class ResponseWriter:
    """Writes one response. `ended` is how it ended."""

    def __init__(self, answer: ServedAnswer, asked: Asked, model: Model, logprobs: bool) -> None:
        self._answer = answer
        self._asked = asked
        self._model = model
        self._told = Told(model, logprobs)
        self._id = f"resp_{secrets.token_hex(12)}"
        self._items = _Items()
        self._custom = custom_names(asked.tools)
        self._created = now()
        self.ended = ""

    async def body(self) -> dict[str, Any]:
        """Return the body when all is written."""
        told = self._told
        async for chunks in self._answer.chunks():
            for chunk in chunks:
                told.add(chunk)
        (made,) = self._answer.completions()
        return self._body(made, self._written(made, told.take() if told.wanted else []))

    def _written(self, made: Completion[Any], logprobs: list[Any]) -> list[dict[str, Any]]:
        """Return what was written: a reasoning, a message, calls."""
        items: list[dict[str, Any]] = []
        if made.thinking:
            items.append(self._items.reasoning(made.thinking))
        calls = assistant_message("", made.tool_calls)
        text = made.text + str(calls["content"])
        if text.strip() or not calls.get("tool_calls"):
            items.append(self._items.message(text, _status(made), logprobs))
        return [*items, *(_called(call, self._custom) for call in calls.get("tool_calls", ()))]

    def _body(self, made: Completion[Any] | None, output: list[dict[str, Any]]) -> dict[str, Any]:
        asked = self._asked
        status = _status(made)
        if made is not None:
            self.ended = (
                "tool_calls"
                if any(i["type"] in ("function_call", "custom_tool_call") for i in output)
                else made.finish_reason
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

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield the events, in OpenAI's order."""
        events = _Numbered()
        begun = self._body(None, [])
        yield events.made("response.created", response=begun)
        yield events.made("response.in_progress", response=begun)
        stream = _ItemStream(self._items, self._told, events, self._custom)
        async for chunks in self._answer.chunks():
            frames = [frame for chunk in chunks for frame in stream.of(chunk)]
            if frames or not chunks:
                yield b"".join(frames) or PING
        (made,) = self._answer.completions()
        if not stream.output and not stream.saying:
            yield b"".join(stream.begin("text"))  # a message, though nothing is said in it
        yield b"".join(stream.close(_status(made)))
        body = self._body(made, stream.output)
        kind = "response.incomplete" if body["status"] == "incomplete" else "response.completed"
        yield events.made(kind, response=body)


class _Items:
    """The items of one response, under the ids that they have there: one reasoning, one message."""

    def __init__(self) -> None:
        self.message_id = f"msg_{secrets.token_hex(12)}"
        self.reasoning_id = f"rs_{secrets.token_hex(12)}"

    def reasoning(self, text: str) -> dict[str, Any]:
        content = [{"type": "reasoning_text", "text": text}]
        return {
            "type": "reasoning",
            "id": self.reasoning_id,
            "summary": [],
            "content": content,
            "status": "completed",
        }

    def message(self, text: str, status: str, logprobs: list[Any]) -> dict[str, Any]:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}
        return {
            "type": "message",
            "id": self.message_id,
            "role": "assistant",
            "status": status,
            "content": [part],
        }


class _Numbered:
    """Makes the events of one stream, which count from 0."""

    def __init__(self) -> None:
        self._number = 0

    def made(self, kind: str, **body: Any) -> bytes:
        made = event({"type": kind, "sequence_number": self._number, **body}, kind)
        self._number += 1
        return made


class _ItemStream:
    """The items as events, one after the other: what is begun is closed before the next begins."""

    def __init__(self, items: _Items, told: Told, events: _Numbered, custom: frozenset[str]) -> None:
        self._items = items
        self._custom = custom
        self._told = told
        self._event = events.made
        self.output: list[dict[str, Any]] = []  # those that are through
        self.saying = ""  # "text" or "thinking", what is being written
        self._text = ""
        self._logprobs: list[Any] = []

    def of(self, chunk: Chunk) -> list[bytes]:
        """Return the events of a chunk."""
        frames: list[bytes] = []
        self._told.add(chunk)
        if chunk.thinking:
            frames += self.begin("thinking")
            self._text += chunk.thinking
            frames.append(self._delta("response.reasoning_text.delta", chunk.thinking))
        if chunk.delta and (chunk.delta.strip() or self.saying == "text"):
            frames += self.begin("text")
            self._text += chunk.delta
            told = self._told.take() if self._told.wanted else []
            self._logprobs += told
            frames.append(self._delta("response.output_text.delta", chunk.delta, logprobs=told))
        for call in chunk.tool_calls:
            if call["name"]:
                frames += [*self.close("completed"), *self._call(call)]
        return frames

    def _delta(self, kind: str, text: str, **more: Any) -> bytes:
        item = self._items.reasoning_id if self.saying == "thinking" else self._items.message_id
        place = {"item_id": item, "output_index": len(self.output), "content_index": 0}
        return self._event(kind, **place, delta=text, **more)

    def begin(self, what: str) -> list[bytes]:
        """Begin an item, "text" or "thinking", unless it is the one that is being written."""
        if self.saying == what:
            return []
        frames = self.close("completed")
        self.saying, self._text, self._logprobs = what, "", []
        place = len(self.output)
        if what == "thinking":
            item = {**self._items.reasoning(""), "content": [], "status": "in_progress"}
            return [*frames, self._event("response.output_item.added", output_index=place, item=item)]
        item = {**self._items.message("", "in_progress", []), "content": []}
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
        place = len(self.output)
        if what == "thinking":
            item = self._items.reasoning(self._text)
            where = {"item_id": item["id"], "output_index": place, "content_index": 0}
            frames = [self._event("response.reasoning_text.done", **where, text=self._text)]
        else:
            item = self._items.message(self._text, status, self._logprobs)
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
        item, place = _called(made, self._custom), len(self.output)
        self.output.append(item)
        where = {"item_id": item["id"], "output_index": place}
        is_custom = item["type"] == "custom_tool_call"
        key = "input" if is_custom else "arguments"
        kind = f"response.custom_tool_call_{key}" if is_custom else f"response.function_call_{key}"
        done = {} if is_custom else {"name": item["name"]}
        begun = {**item, key: "", **({} if is_custom else {"status": "in_progress"})}
        return [
            self._event("response.output_item.added", output_index=place, item=begun),
            self._event(f"{kind}.delta", **where, delta=item[key]),
            self._event(f"{kind}.done", **where, **done, **{key: item[key]}),
            self._event("response.output_item.done", output_index=place, item=item),
        ]


def _status(made: Completion[Any] | None) -> str:
    if made is None:
        return "in_progress"
    return "incomplete" if made.finish_reason in ("length", "timeout") else "completed"


def _called(call: dict[str, Any], custom: frozenset[str]) -> dict[str, Any]:
    kind, name, text = called(call, custom)
    item = {"call_id": call["id"], "name": name}
    if kind == "custom":
        return {"type": "custom_tool_call", "id": f"ctc_{call['id']}", **item, "input": text}
    return {
        "type": "function_call", "id": f"fc_{call['id']}", **item, "arguments": text, "status": "completed",
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
    return asked.tool_choice.model_dump(exclude_none=True)


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
