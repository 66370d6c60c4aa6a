"""`/v1/completions`: texts to continue, one or many, or their tokens."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from llama_magic.request.request import row_seed
from llama_magic.serving import asking, held
from llama_magic.serving.answers import merged
from llama_magic.serving.columns import columns
from llama_magic.serving.exchange import PING, Exchange, event, now
from llama_magic.serving.fields.completions import Completion as Asked
from llama_magic.serving.prompt_logprobs import PromptReading, most_of
from llama_magic.serving.refusals import Refusal
from llama_magic.serving.state import fingerprint
from llama_magic.serving.telling import Told, reason_of, timings_of, usage_of, usage_of_reading

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.logprobs import TokenLogprob
    from llama_magic.model.model import Model
    from llama_magic.model.results import Completion
    from llama_magic.serving.answers import ServedAnswer

DEFAULT_MAX_TOKENS = 16  # OpenAI's


async def completions(exchange: Exchange, asked: Asked) -> None:
    """Continue one or more texts, or tell how likely their tokens are."""
    model = exchange.state.model(asked.model)
    _check(asked, model)
    given = asking.prompts(asked.prompt)
    answers: list[ServedAnswer] = []
    if asked.max_tokens == 0:
        exchange.state.admit(len(given))
        exchange.row.model = model.name
        prompts = await exchange.state.to_thread(lambda: [_cut(model, one) for one in given])
        exchange.row.prompt_tokens = sum(len(tokens) for tokens, _ in prompts)
    else:
        prepare = [partial(_prepared, model, asked, prompt, place) for place, prompt in enumerate(given)]
        streamed = bool(asked.stream or asked.logprobs is not None)
        answers = await exchange.ask(model, list(prepare), streamed=streamed)
        prompts = [(one.assembler.request.prompt, one.assembler.terms.prompt.text) for one in answers]
    writer = _Writer(exchange, asked, model, answers, prompts)
    if asked.stream:
        await exchange.events(writer.frames())
    else:
        await writer.respond()
    exchange.finish(writer.ended)


def _check(asked: Asked, model: Model) -> None:
    """Raise `Refusal` for fields that do not go together."""
    n = asked.n or 1
    if asked.best_of is not None and asked.best_of != n:
        raise Refusal(
            400, "best_of draws answers that are thrown away; expected what n is, or null.", "best_of"
        )
    if asked.stream_options is not None and not asked.stream:
        raise Refusal(400, "stream_options needs stream: true.", "stream_options")
    if most_of(asked) is None:
        if asked.max_tokens == 0:
            words = (
                "max_tokens: expected 1 or more, or -1; 0 goes with prompt_logprobs, or echo and logprobs."
            )
            raise Refusal(400, words, "max_tokens")
        return
    field = "prompt_logprobs" if asked.prompt_logprobs is not None else "echo"
    if asked.stream:
        raise Refusal(400, f"{field}: log-probabilities of a prompt are not streamed.", field)
    if model.backend.local is None:
        words = f"{field}: {model.name} writes its tokens elsewhere, and does not say how likely a prompt is."
        raise Refusal(400, words, field)


def _cut(model: Model, given: Any) -> tuple[Sequence[int], str]:
    """Return the tokens and the text of a prompt after which nothing is written."""
    from llama_magic.engine.side import tokens_within  # for weight: llama.cpp

    prompt, tokenizer = asking.prompt(model, given), model.backend.tokenizer
    what = {"what": "The prompt", "purpose": "read"}
    tokens = asking.naming("prompt", lambda: tokens_within(tokenizer, model.window, prompt, **what))
    return tokens, prompt if isinstance(prompt, str) else tokenizer.decode(tokens)


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
    """Writes the answers to one request; choice `prompt * n + sample` is a sample of a prompt.

    `prompts` are their tokens and texts; without `answers` only they are told of.
    """

    def __init__(
        self,
        exchange: Exchange,
        asked: Asked,
        model: Model,
        answers: Sequence[ServedAnswer],
        prompts: Sequence[tuple[Sequence[int], str]],
    ) -> None:
        self._exchange = exchange
        self._answers = answers
        self._prompts = [tokens for tokens, _ in prompts]
        self._reading = None
        if most_of(asked) is not None:
            self._reading = PromptReading(exchange, asked, model, self._prompts)
        self._n = n = asked.n or 1
        self._told = [Told(model, asked.logprobs is not None) for _ in range(len(prompts) * n)]
        self._offsets = [0] * len(self._told)
        self._echo = [text if asked.echo else "" for _, text in prompts]
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
        if not self._answers:
            self.ended = "length"
            choices = [self._choice(i, self._echo[i // self._n], "length") for i in range(len(self._told))]
        if self._reading is not None:
            await self._reading.add_to(choices, made)
        usage = usage_of(*made) if made else usage_of_reading(sum(map(len, self._prompts)))
        body = {**self._head, "choices": choices, "usage": usage, **self._timings()}
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
        """Return the columns of tokens whose text comes next."""
        begin = self._offsets[number]
        self._offsets[number] += sum(len(token.text) for token in tokens)
        return columns(tokens, begin)
