"""`/v1/chat/completions`: conversations, whole or streamed, with tools, schemas, log-probabilities."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from llama_magic.model.asked import Beside
from llama_magic.request.messages import assistant_message
from llama_magic.serving import asking
from llama_magic.serving.exchange import PING, Exchange, event, now
from llama_magic.serving.fields.chat import ChatCompletion, ObjectFormat, SchemaFormat
from llama_magic.serving.refusals import Refusal
from llama_magic.serving.state import fingerprint
from llama_magic.serving.telling import Told, reason_of, usage_of

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.model import Model
    from llama_magic.model.results import Chunk, Completion
    from llama_magic.serving.answers import ServedAnswer
    from llama_magic.structured import Constraint


async def chat_completions(exchange: Exchange, asked: ChatCompletion) -> None:
    """Answer a conversation."""
    model = exchange.state.model(asked.model)
    if asked.top_logprobs is not None and not asked.logprobs:
        raise Refusal(400, "top_logprobs needs logprobs: true.", "top_logprobs")
    if asked.stream_options is not None and not asked.stream:
        raise Refusal(400, "stream_options needs stream: true.", "stream_options")
    prepare = partial(prepared, model, asked, exchange.state.limits.max_tokens)
    (answer,) = await exchange.ask(model, [prepare], streamed=bool(asked.stream or asked.logprobs))
    head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": now(), "model": model.name}
    if asked.stream:
        usage = asked.stream_options is not None and bool(asked.stream_options.include_usage)
        writer = _Stream(answer, head, bool(asked.logprobs), usage)
        await exchange.events(writer.frames())
        exchange.finish(writer.ended)
        return
    told = [Told(model, bool(asked.logprobs)) for _ in range(answer.assembler.request.n)]
    async for chunks in answer.chunks():
        for chunk in chunks:
            told[chunk.sample].add(chunk)
    made = answer.completions()
    choices = [_choice(index, one, told[index]) for index, one in enumerate(made)]
    body = {**head, "object": "chat.completion", "system_fingerprint": fingerprint(model)}
    await exchange.respond({**body, "choices": choices, "usage": usage_of(made)}, choices[0]["finish_reason"])


async def input_tokens(exchange: Exchange, asked: ChatCompletion) -> None:
    """Count a conversation as it would be asked, and write nothing."""
    model = exchange.state.model(asked.model)
    prepare = partial(prepared, model, asked, exchange.state.limits.max_tokens)
    counted = len((await exchange.state.aside(prepare)).request.prompt)
    await exchange.respond({"object": "response.input_tokens", "input_tokens": counted})


def prepared(model: Model, asked: ChatCompletion, max_tokens: int | None) -> Assembler:
    """Return the call that a request is. On a thread beside the loop."""
    most = asked.max_completion_tokens or asked.max_tokens or max_tokens
    options = asking.options(asked, most)
    if asked.n is not None:
        options["n"] = asked.n
    if asked.logprobs:
        options["logprobs"] = asked.top_logprobs or 0
    variables = asking.variables(model.formatter, asked.chat_template_kwargs, asked.reasoning_effort)
    if asked.continue_final_message is not None:
        if asked.continue_final_message and asked.add_generation_prompt:
            raise Refusal(
                400,
                "continue_final_message and add_generation_prompt exclude each other.",
                "continue_final_message",
            )
        variables["continue_final"] = asked.continue_final_message
    tools = [tool.model_dump(exclude_none=True) for tool in asked.tools or ()]
    choice = (
        asked.tool_choice
        if isinstance(asked.tool_choice, str)
        else asked.tool_choice and asked.tool_choice.function.name
    )
    if asked.tool_choice is not None and not tools and choice not in ("none", "auto"):
        raise Refusal(400, "tool_choice needs tools.", "tool_choice")
    if choice not in (None, "none", "auto", "required", *(tool["function"]["name"] for tool in tools)):
        raise Refusal(400, f"tool_choice names {choice!r}, which is none of the tools.", "tool_choice")
    beside = Beside(
        tools=tools or None,
        tool_choice=choice or "auto",
        parallel_tool_calls=asked.parallel_tool_calls if tools else None,
        tools_as_text=True,
        template_variables=variables,
    )
    return asking.chat(model, asking.messages(asked.messages), options, beside, _held_to(model, asked))


def _held_to(model: Model, asked: ChatCompletion) -> Constraint | None:
    """Return what the answer is held to."""
    form = asked.response_format
    ways = {
        "response_format": form is not None and form.type != "text",
        "json_schema": asked.json_schema is not None,
        "grammar": asked.grammar is not None,
        "regex": asked.regex is not None,
    }
    given = [name for name, is_given in ways.items() if is_given]
    if len(given) > 1:
        raise Refusal(
            400, f"{' and '.join(given)} stand together; an answer is held to one of them.", given[1]
        )
    if given and given[0] != "response_format":
        return asking.text_constraint(model, asked)
    if isinstance(form, ObjectFormat):
        schema = {"type": "object"} if form.schema_ is None else form.schema_
        return asking.constraint(model, "response_format.schema", schema=schema)
    if isinstance(form, SchemaFormat):
        inner = form.json_schema
        if inner.schema_ is None:
            raise Refusal(
                400, "response_format.json_schema has no schema.", "response_format.json_schema.schema"
            )
        where = "response_format.json_schema.schema"
        return asking.constraint(model, where, schema=inner.schema_, strict=bool(inner.strict))
    return None


def _choice(index: int, made: Completion[Any], told: Told) -> dict[str, Any]:
    calls = [call for call in made.tool_calls if call["name"]]
    message = {**assistant_message(made.text, made.tool_calls), "refusal": None}
    if calls and not made.text.strip():
        message["content"] = None
    if made.thinking:
        message["reasoning_content"] = made.thinking
    logprobs = {"content": told.take(), "refusal": None} if told.wanted else None
    return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason_of(made)}


class _Stream:
    """The events of one conversation's answers. `ended` is how the first of them ended."""

    def __init__(self, answer: ServedAnswer, head: dict[str, Any], logprobs: bool, usage: bool) -> None:
        self._answer = answer
        self._head = {
            **head, "object": "chat.completion.chunk", "system_fingerprint": fingerprint(answer.model),
        }  # fmt: skip
        self._usage = usage
        self._told = [Told(answer.model, logprobs) for _ in range(answer.assembler.request.n)]
        self._calls = [0] * len(self._told)
        self.ended = ""

    async def frames(self) -> AsyncIterator[bytes]:
        for index in range(len(self._told)):
            yield self._frame(index, {"role": "assistant", "content": None})
        async for chunks in self._answer.chunks():
            yield b"".join(self._of(chunks)) if chunks else PING
        made = self._answer.completions()
        for index, one in enumerate(made):
            reason = reason_of(one)
            self.ended = self.ended or reason
            yield self._frame(index, {}, reason=reason)
        if self._usage:
            yield event({**self._head, "choices": [], "usage": usage_of(made)})
        yield b"data: [DONE]\n\n"

    def _of(self, chunks: Sequence[Chunk]) -> list[bytes]:
        """Return the events of chunks that came together: what one sample wrote is one event."""
        frames: list[bytes] = []
        texts: dict[int, dict[str, str]] = {}
        for chunk in chunks:
            self._told[chunk.sample].add(chunk)
            for name, text in (("content", chunk.delta), ("reasoning_content", chunk.thinking)):
                if text:
                    of_sample = texts.setdefault(chunk.sample, {})
                    of_sample[name] = of_sample.get(name, "") + text
            for call in chunk.tool_calls:
                if call["name"]:
                    frames.append(self._call(chunk.sample, call))
        told = self._told
        return [*(self._frame(i, delta, logprobs=told[i]) for i, delta in texts.items()), *frames]

    def _call(self, sample: int, call: dict[str, Any]) -> bytes:
        (made,) = assistant_message("", [call])["tool_calls"]
        number = self._calls[sample]
        self._calls[sample] += 1
        return self._frame(sample, {"tool_calls": [{"index": number, **made}]})

    def _frame(
        self, index: int, delta: dict[str, Any], *, reason: str | None = None, logprobs: Told | None = None
    ) -> bytes:
        found = None
        if logprobs is not None and logprobs.wanted and delta.get("content"):
            found = {"content": logprobs.take(), "refusal": None}
        choice = {"index": index, "delta": delta, "logprobs": found, "finish_reason": reason}
        return event({**self._head, "choices": [choice], **({"usage": None} if self._usage else {})})
