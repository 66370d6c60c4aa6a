"""`/v1/chat/completions`: conversations, whole or streamed, with tools, schemas, log-probabilities."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from llama_magic.request.messages import assistant_message
from llama_magic.serving import asking, held, offering
from llama_magic.serving.exchange import PING, Exchange, event, now
from llama_magic.serving.fields.chat import ChatCompletion
from llama_magic.serving.fields.tools import custom_names
from llama_magic.serving.refusals import Refusal
from llama_magic.serving.state import fingerprint
from llama_magic.serving.telling import Told, called, progress_of, reason_of, timings_of, usage_of

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.model import Model
    from llama_magic.model.results import Chunk, Completion
    from llama_magic.serving.answers import ServedAnswer
    from llama_magic.serving.log import LoggedRequest


async def chat_completions(exchange: Exchange, asked: ChatCompletion) -> None:
    """Answer a conversation."""
    model = exchange.state.model(asked.model)
    if asked.top_logprobs and not asked.logprobs:
        raise Refusal(400, "top_logprobs needs logprobs: true.", "top_logprobs")
    if asked.stream_options is not None and not asked.stream:
        raise Refusal(400, "stream_options needs stream: true.", "stream_options")
    prepare = partial(prepared, model, asked, exchange.state.limits.max_tokens)
    progress, streamed = bool(asked.stream and asked.return_progress), bool(asked.stream or asked.logprobs)
    (answer,) = await exchange.ask(model, [prepare], streamed=streamed, progress=progress)
    custom = custom_names(asked.tools)
    head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": now(), "model": model.name}
    if asked.stream:
        usage = asked.stream_options is not None and bool(asked.stream_options.include_usage)
        timed = exchange.row if asked.timings_per_token else None
        writer = _Stream(answer, head, bool(asked.logprobs), usage, custom, timed)
        await exchange.events(writer.frames())
        exchange.finish(writer.ended)
        return
    told = [Told(model, bool(asked.logprobs)) for _ in range(answer.assembler.request.n)]
    async for chunks in answer.chunks():
        for chunk in chunks:
            told[chunk.sample].add(chunk)
    made = answer.completions()
    choices = [_choice(index, one, told[index], custom) for index, one in enumerate(made)]
    body = {**head, "object": "chat.completion", "system_fingerprint": fingerprint(model)}
    body |= {"choices": choices, "usage": usage_of(made)}
    if asked.timings_per_token:
        body["timings"] = timings_of(exchange.row)
    await exchange.respond(body, choices[0]["finish_reason"])


async def input_tokens(exchange: Exchange, asked: ChatCompletion) -> None:
    """Count a conversation as it would be asked, and write nothing."""
    model = exchange.state.model(asked.model)
    prepare = partial(prepared, model, asked, exchange.state.limits.max_tokens)
    counted = len((await exchange.state.to_thread(prepare)).request.prompt)
    await exchange.respond({"object": "response.input_tokens", "input_tokens": counted})


def prepared(model: Model, asked: ChatCompletion, max_tokens: int | None) -> Assembler:
    """Return the call that a request is. On a thread beside the loop."""
    most = asked.max_completion_tokens or asked.max_tokens or max_tokens
    options = asking.options(model, asked, most)
    if asked.n is not None:
        options["n"] = asked.n
    if asked.logprobs:
        options["logprobs"] = asked.top_logprobs or 0
    variables = asking.variables(model.formatter, asked.chat_template_kwargs, asked.reasoning_effort)
    _check_end(asked)
    if asked.continue_final_message is not None:
        variables["continue_final"] = asked.continue_final_message
    beside = offering.beside(model, asked, variables)
    return asking.chat(model, asking.messages(asked.messages), options, beside, held.of_request(model, asked))


def _check_end(asked: ChatCompletion) -> None:
    """Raise `Refusal` for an end of the prompt that is none. Clients of vLLM say both, as opposites."""
    goes_on, opens = asked.continue_final_message, asked.add_generation_prompt
    if goes_on and opens:
        words = "continue_final_message and add_generation_prompt exclude each other."
        raise Refusal(400, words, "continue_final_message")
    if opens is False and (goes_on is False or asked.messages[-1].role != "assistant"):
        words = "add_generation_prompt: false is for a last message of the assistant, which is gone on from."
        raise Refusal(400, words, "add_generation_prompt")


def _choice(index: int, made: Completion[Any], told: Told, custom: frozenset[str]) -> dict[str, Any]:
    calls = [call for call in made.tool_calls if call["name"]]
    message = {**assistant_message(made.text, made.tool_calls), "refusal": None}
    if calls:
        message["tool_calls"] = [_told_call(call, custom) for call in message["tool_calls"]]
    if calls and not made.text.strip():
        message["content"] = None
    if made.thinking:
        message["reasoning_content"] = made.thinking
    logprobs = {"content": told.take(), "refusal": None} if told.wanted else None
    return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason_of(made)}


def _told_call(call: dict[str, Any], custom: frozenset[str]) -> dict[str, Any]:
    kind, name, text = called(call, custom)
    of_kind = {"name": name, "input" if kind == "custom" else "arguments": text}
    return {"id": call["id"], "type": kind, kind: of_kind}


class _Stream:
    """The events of one conversation's answers. `ended` is how the first of them ended."""

    def __init__(
        self,
        answer: ServedAnswer,
        head: dict[str, Any],
        logprobs: bool,
        usage: bool,
        custom: frozenset[str],
        timed: LoggedRequest | None,
    ) -> None:
        self._answer = answer
        self._timed = timed
        self._head = {
            **head, "object": "chat.completion.chunk", "system_fingerprint": fingerprint(answer.model),
        }  # fmt: skip
        self._usage = usage
        self._custom = custom
        self._told = [Told(answer.model, logprobs) for _ in range(answer.assembler.request.n)]
        self._calls = [0] * len(self._told)
        self.ended = ""

    async def frames(self) -> AsyncIterator[bytes]:
        for index in range(len(self._told)):
            yield self._frame(index, {"role": "assistant", "content": None})
        async for chunks in self._answer.chunks():
            if self._answer.read is not None:
                yield self._frame(0, {}, prompt_progress=progress_of(self._answer.read, self._answer.row))
            if chunks or self._answer.read is None:
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
        return self._frame(sample, {"tool_calls": [{"index": number, **_told_call(made, self._custom)}]})

    def _frame(
        self,
        index: int,
        delta: dict[str, Any],
        *,
        reason: str | None = None,
        logprobs: Told | None = None,
        **more: Any,
    ) -> bytes:
        found = None
        if logprobs is not None and logprobs.wanted and delta.get("content"):
            found = {"content": logprobs.take(), "refusal": None}
        choice = {"index": index, "delta": delta, "logprobs": found, "finish_reason": reason}
        if self._usage:
            more["usage"] = None
        if self._timed is not None and self._timed.first:
            more["timings"] = timings_of(self._timed)
        return event({**self._head, "choices": [choice], **more})
