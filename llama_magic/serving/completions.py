"""`/v1/completions`: texts to continue, one or many, or their tokens."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from llama_magic.request.request import row_seed
from llama_magic.serving import asking, held
from llama_magic.serving.answers import merged
from llama_magic.serving.exchange import PING, Exchange, event, now
from llama_magic.serving.fields.completions import Completion as Asked
from llama_magic.serving.refusals import Refusal
from llama_magic.serving.state import fingerprint
from llama_magic.serving.telling import Told, reason_of, timings_of, usage_of

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.logprobs import TokenLogprob
    from llama_magic.model.model import Model
    from llama_magic.model.results import Completion
    from llama_magic.serving.answers import ServedAnswer

DEFAULT_MAX_TOKENS = 16  # OpenAI's


async def completions(exchange: Exchange, asked: Asked) -> None:
    """Continue one or more texts."""
    model = exchange.state.model(asked.model)
    n = asked.n or 1
    if asked.best_of is not None and asked.best_of != n:
        raise Refusal(
            400, "best_of draws answers that are thrown away; expected what n is, or null.", "best_of"
        )
    if asked.echo and asked.logprobs is not None:
        raise Refusal(400, "echo with logprobs would need those of the prompt, which are not told.", "echo")
    if asked.stream_options is not None and not asked.stream:
        raise Refusal(400, "stream_options needs stream: true.", "stream_options")
    prompts = asking.prompts(asked.prompt)
    prepare = [partial(_prepared, model, asked, prompt, place) for place, prompt in enumerate(prompts)]
    answers = await exchange.ask(
        model, list(prepare), streamed=bool(asked.stream or asked.logprobs is not None)
    )
    writer = _Writer(exchange, asked, model, answers, n)
    if asked.stream:
        await exchange.events(writer.frames())
    else:
        await writer.respond()
    exchange.finish(writer.ended)


def _prepared(model: Model, asked: Asked, given: Any, place: int) -> Assembler:
    prompt = asking.prompt(model, given)
    most = asking.room(model, prompt) if asked.max_tokens == -1 else asked.max_tokens
    options = asking.options(model, asked, most or model.calls.max_tokens or DEFAULT_MAX_TOKENS)
    if asked.n is not None:
        options["n"] = asked.n
    if asked.logprobs is not None:
        options["logprobs"] = asked.logprobs
    if place and asked.seed is not None:
        options["seed"] = row_seed(asked.seed, place)
    held_to = held.of_request(model, asked)
    made: Assembler = asking.naming(
        "prompt", lambda: model.calls.text(prompt, held_to, options), asked.model_fields_set
    )
    return made


class _Writer:
    """Writes the answers to one request; choice `prompt * n + sample` is a sample of a prompt."""

    def __init__(
        self, exchange: Exchange, asked: Asked, model: Model, answers: Sequence[ServedAnswer], n: int
    ) -> None:
        self._exchange = exchange
        self._answers = answers
        self._n = n
        self._told = [Told(model, asked.logprobs is not None) for _ in range(len(answers) * n)]
        self._offsets = [0] * len(self._told)
        self._echo = [answer.assembler.terms.prompt.text if asked.echo else "" for answer in answers]
        self._timed = bool(asked.timings_per_token)
        self._usage = asked.stream_options is not None and bool(asked.stream_options.include_usage)
        self._head = {
            "id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion", "created": now(),
            "model": model.name, "system_fingerprint": fingerprint(model),
        }  # fmt: skip
        self.ended = ""

    async def respond(self) -> None:
        """Answer when all is written."""
        async for place, chunks in merged(self._answers):
            for chunk in chunks:
                self._told[place * self._n + chunk.sample].add(chunk)
        made = [answer.completions() for answer in self._answers]
        choices = [
            self._choice(place * self._n + index, self._echo[place] + one.text, self._reason(one))
            for place, samples in enumerate(made)
            for index, one in enumerate(samples)
        ]
        body = {**self._head, "choices": choices, "usage": usage_of(*made), **self._timings()}
        await self._exchange.respond(body, self.ended)

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield the events of a stream."""
        for place, text in enumerate(self._echo):
            if text:
                yield b"".join(self._frame(place * self._n + index, text, None) for index in range(self._n))
        async for place, chunks in merged(self._answers):
            texts: dict[int, str] = {}
            for chunk in chunks:
                number = place * self._n + chunk.sample
                self._told[number].add(chunk)
                texts[number] = texts.get(number, "") + chunk.delta
            frames = [self._frame(number, text, None) for number, text in texts.items() if text]
            if frames or not chunks:
                yield b"".join(frames) or PING
        made = [answer.completions() for answer in self._answers]
        for place, samples in enumerate(made):
            for index, one in enumerate(samples):
                yield self._frame(place * self._n + index, "", self._reason(one))
        if self._usage:
            yield event({**self._head, "choices": [], "usage": usage_of(*made)})
        yield b"data: [DONE]\n\n"

    def _reason(self, made: Completion[Any]) -> str:
        reason = reason_of(made)
        self.ended = self.ended or reason
        return "stop" if reason == "tool_calls" else reason

    def _frame(self, number: int, text: str, reason: str | None) -> bytes:
        usage = {"usage": None} if self._usage else {}
        return event(
            {**self._head, "choices": [self._choice(number, text, reason)], **usage, **self._timings()}
        )

    def _timings(self) -> dict[str, Any]:
        return {"timings": timings_of(self._exchange.row)} if self._timed else {}

    def _choice(self, number: int, text: str, reason: str | None) -> dict[str, Any]:
        told = self._told[number]
        logprobs = None
        if told.wanted and text:
            logprobs = self._logprobs(number, told.take_tokens())
        return {"index": number, "text": text, "logprobs": logprobs, "finish_reason": reason}

    def _logprobs(self, number: int, tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
        """Return the older form of log-probabilities, in columns; `text_offset` in characters of the text."""
        offsets = []
        for token in tokens:
            offsets.append(self._offsets[number])
            self._offsets[number] += len(token.text)
        return {
            "tokens": [token.text for token in tokens],
            "token_logprobs": [max(token.logprob, -9999.0) for token in tokens],
            "top_logprobs": [_likeliest(token) for token in tokens],
            "text_offset": offsets,
        }


def _likeliest(token: TokenLogprob) -> dict[str, float]:
    """Return the alternatives by text; what was drawn is always among them, as OpenAI has it."""
    shown = {text: max(value, -9999.0) for _, text, value in token.top}
    shown.setdefault(token.text, max(token.logprob, -9999.0))
    return shown
