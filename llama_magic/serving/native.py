"""`/completion`: llama-server's own form, in which tokens go in and tokens are told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from llama_magic.request.request import row_seed
from llama_magic.serving import asking, held
from llama_magic.serving.answers import merged
from llama_magic.serving.exchange import PING, Exchange, event
from llama_magic.serving.fields.completions import NativeCompletion
from llama_magic.serving.refusals import Refusal
from llama_magic.serving.telling import Told, progress_of, timings_of

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.model import Model
    from llama_magic.model.results import Chunk, Completion
    from llama_magic.serving.answers import ServedAnswer


async def completion(exchange: Exchange, asked: NativeCompletion) -> None:
    """Continue a text, or several."""
    model = exchange.state.model(asked.model)
    most = exchange.state.limits.max_tokens
    prompts = asking.prompts(asked.prompt)
    prepare = [partial(_prepared, model, asked, prompt, place, most) for place, prompt in enumerate(prompts)]
    wanted = bool(asked.stream or asked.n_probs)
    progress = bool(asked.stream and asked.return_progress)
    answers = await exchange.ask(model, list(prepare), streamed=wanted, progress=progress)
    writers = [_Writer(answer, asked, place) for place, answer in enumerate(answers)]
    if asked.stream:
        await exchange.events(_frames(writers, answers))
        exchange.finish(writers[0].ended)
        return
    async for place, chunks in merged(answers):
        writers[place].add(chunks)
    bodies = [writer.body() for writer in writers]
    await exchange.respond(bodies if len(bodies) > 1 else bodies[0], writers[0].ended)


async def _frames(writers: Sequence[_Writer], answers: Sequence[ServedAnswer]) -> AsyncIterator[bytes]:
    """Yield the events of all answers as they come: a part of a text each, and at last an end of each."""
    async for place, chunks in merged(answers):
        yield writers[place].frames(chunks) or PING
    for writer in writers:
        yield writer.end()


def _prepared(
    model: Model, asked: NativeCompletion, given: Any, place: int, max_tokens: int | None
) -> Assembler:
    prompt = asking.prompt(model, given)
    most = asking.room(model, prompt) if asked.n_predict == -1 else asked.n_predict
    options = asking.options(model, asked, most or max_tokens)
    if asked.n_probs:
        options["logprobs"] = asked.n_probs
    if place and asked.seed is not None:
        options["seed"] = row_seed(asked.seed, place)
    held_to = held.of_request(model, asked)
    visible = frozenset(_special(model, text) for text in asked.preserved_tokens or ())
    made: Assembler = asking.naming(
        "prompt", lambda: model.calls.text(prompt, held_to, options), asked.model_fields_set
    )
    made.request.visible_ids |= visible
    return made


def _special(model: Model, text: str) -> int:
    token = model.backend.tokenizer.special_id(text)
    if token is None:
        raise Refusal(400, f"preserved_tokens names {text[:80]!r}, which is no token.", "preserved_tokens")
    return token


class _Writer:
    """Writes one answer, the one at `place`. `ended` is how it ended."""

    def __init__(self, answer: ServedAnswer, asked: NativeCompletion, place: int) -> None:
        self._answer = answer
        self._asked = asked
        self._place = place
        self._told = Told(answer.model, bool(asked.n_probs))
        self._probabilities: list[dict[str, Any]] = []
        self._tokens = 0
        self.ended = ""

    def add(self, chunks: Sequence[Chunk]) -> None:
        """Keep what the body tells of the tokens."""
        for chunk in chunks:
            self._probabilities += self._probabilities_of(chunk)

    def body(self) -> dict[str, Any]:
        """Return the body when all is written."""
        (made,) = self._answer.completions()
        body = {**self._end(made), "content": made.text}
        body["tokens"] = list(made.token_ids) if self._asked.return_tokens else []
        if self._told.wanted:
            body["completion_probabilities"] = self._probabilities
        return body

    def frames(self, chunks: Sequence[Chunk]) -> bytes:
        """Return the events of what was written."""
        read = self._answer.read
        begun = (
            [] if read is None else [self._event("", [], prompt_progress=progress_of(read, self._answer.row))]
        )
        return b"".join([*begun, *map(self._frame, chunks)])

    def end(self) -> bytes:
        """Return the last event."""
        (made,) = self._answer.completions()
        return event({**self._end(made), "content": "", "tokens": []})

    def _frame(self, chunk: Chunk) -> bytes:
        if not chunk.token_ids and not chunk.delta:
            return b""
        self._tokens += len(chunk.token_ids)
        more: dict[str, Any] = {}
        if self._told.wanted:
            more["completion_probabilities"] = self._probabilities_of(chunk)
        if self._asked.timings_per_token:
            more["timings"] = timings_of(self._answer.row)
        return self._event(chunk.delta, chunk.token_ids, **more)

    def _event(self, text: str, tokens: Sequence[int], **more: Any) -> bytes:
        return event(
            {
                "index": self._place,
                "content": text,
                "tokens": list(tokens) if self._asked.return_tokens is not False else [],
                "stop": False,
                "id_slot": -1,
                "tokens_predicted": self._tokens,
                "tokens_evaluated": len(self._answer.assembler.request.prompt),
                **more,
            }
        )

    def _probabilities_of(self, chunk: Chunk) -> list[dict[str, Any]]:
        """Return those of the tokens of a chunk, whatever became of their text."""
        if not self._told.wanted:
            return []
        found = self._told.shown(chunk.logprobs)
        for one, shown in zip(chunk.logprobs, found, strict=True):
            shown["id"] = one.token_id
            for (token, _, _), entry in zip(one.top, shown["top_logprobs"], strict=True):
                entry["id"] = token
        return found

    def _end(self, made: Completion[Any]) -> dict[str, Any]:
        stopped = "word" if made.stop is not None else "eos"
        kind = {"stop": stopped, "length": "limit", "timeout": "limit"}.get(made.finish_reason, "none")
        self.ended = made.finish_reason
        usage, times = made.usage, made.timings
        writing = times.total_s - times.first_token_s
        return {
            "index": self._place,
            "stop": True,
            "id_slot": -1,
            "model": made.model,
            "tokens_predicted": usage.completion_tokens,
            "tokens_evaluated": usage.prompt_tokens,
            "tokens_cached": usage.prompt_tokens + usage.completion_tokens,
            "generation_settings": {
                **made.sampling.to_dict(),
                "seed": made.seed,
                "n_predict": made.budget.max_tokens,
            },
            "prompt": made.prompt,
            "has_new_line": "\n" in made.text,
            "truncated": False,
            "stop_type": kind,
            "stopping_word": made.stop or "",
            "timings": {
                "cache_n": usage.cached_tokens,
                "prompt_n": usage.prompt_tokens - usage.cached_tokens,
                "prompt_ms": times.prompt_s * 1000,
                "predicted_n": usage.completion_tokens,
                "predicted_ms": max(0.0, writing) * 1000,
                "predicted_per_second": times.tokens_per_second,
            },
        }
