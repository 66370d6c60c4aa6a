"""How likely tokens of prompts are: `prompt_logprobs`, as vLLM has it, and OpenAI's `echo` with `logprobs`.

They are read where `model.score` reads, some at a time, in turn with those of other requests: nobody waits
for longer than one window of them takes. What prompts of a request begin with alike is read once.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from llama_magic.microscope.tokens import piece_text
from llama_magic.model.logprobs import TokenLogprob, TopLogprob
from llama_magic.serving.columns import LEAST, columns, offsets
from llama_magic.serving.refusals import Refusal, busy
from llama_magic.threads import Bound

if TYPE_CHECKING:
    from llama_magic.engine.scoring.reader import Ranked
    from llama_magic.model.model import Model
    from llama_magic.model.results import Completion
    from llama_magic.serving.exchange import Exchange
    from llama_magic.serving.fields.completions import Completion as Asked

MOST = 2**17  # log-probabilities of one request: each is some 70 bytes of its answer
Rows = list[tuple[list[int], list[tuple[int, list[int]]]]]  # a beginning, texts after it with their places


def most_of(asked: Asked) -> int | None:
    """Return how many alternatives of each token of a prompt a request wants told; None where nothing is."""
    asks = [asked.prompt_logprobs, asked.logprobs if asked.echo else None]
    return max((most for most in asks if most is not None), default=None)


class PromptReading:
    """The prompts of one request, as tokens. It waits, is begun and cancelled as an answer is."""

    def __init__(
        self, exchange: Exchange, asked: Asked, model: Model, prompts: Sequence[Sequence[int]]
    ) -> None:
        self.begun = False
        self._exchange = exchange
        self._asked = asked
        self._model = model
        self._prompts = prompts
        self._samples = asked.n or 1
        self._most = most_of(asked) or 0
        self._start = max(1, asked.logprob_start_len or 0)
        self._bound = Bound()
        self._check()
        exchange.add(self)

    def _check(self) -> None:
        """Raise `Refusal` where more would be told than one answer may hold."""
        tokens = sum(max(0, len(prompt) - self._start) for prompt in self._prompts) * self._samples
        if (count := tokens * (self._most + 1)) > MOST:
            words = (
                f"prompt: {count:,} log-probabilities of {tokens:,} tokens would be told; {MOST:,} at most."
            )
            raise Refusal(400, f"{words} Ask for fewer, or for fewer prompts at a time.", "prompt")

    def cancel(self) -> None:
        """Stop now. Any thread."""
        self._bound.end()

    async def add_to(
        self, choices: Sequence[dict[str, Any]], made: Sequence[Sequence[Completion[Any]]]
    ) -> None:
        """Read the prompts, and add to choices what is told of their tokens; `made` are the answers, if any.

        Of an answer that ended before its first token an echo tells of the token of its end, as vLLM's does:
        clients take as many tokens as they asked for off the end.
        """
        tokenizer = self._model.backend.tokenizer
        ends = tokenizer.eog_ids or (tokenizer.eos_id,)
        asked = [
            [list(prompt)] if all(one.token_ids for one in samples) else [[*prompt, end] for end in ends]
            for prompt, samples in itertools.zip_longest(self._prompts, made, fillvalue=())
        ]
        told = iter(await self._read([tokens for some in asked for tokens in some]))

        def add() -> None:
            for place, some in enumerate(asked):
                found = [(tokens, next(told)) for tokens in some]
                prompt = list(zip(self._prompts[place], found[0][1], strict=False))
                end = max(((tokens[-1], of[-1]) for tokens, of in found), key=_likelihood)
                for sample in range(self._samples):
                    answer = made[place][sample].logprobs or [self._token(*end)] if made else ()
                    self._add(choices[place * self._samples + sample], prompt, answer)

        await self._exchange.state.to_thread(add)

    # --- reading ----------------------------------------------------------------------------

    async def _read(self, prompts: Sequence[list[int]]) -> list[list[Ranked | None]]:
        """Return what is told of each token, None where nothing is. Raises `Refusal` once it is cancelled."""
        found: list[list[Ranked | None]] = [[None] * len(prompt) for prompt in prompts]
        state = self._exchange.state
        for portion in portions(prompts, self._start, self._model.window):
            async with self._in_turn():
                told = await state.to_thread(partial(self._score, portion))
            for (_, texts), of_texts in zip(portion, told, strict=True):
                for (place, _), of_text in zip(texts, of_texts, strict=True):
                    found[place][self._start :] = of_text
        return found

    @contextlib.asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[None]:
        state, row = self._exchange.state, self._exchange.row
        most = None if self.begun else state.limits.queue_s
        try:
            async with asyncio.timeout(most):
                await state.turn.acquire()
        except TimeoutError:
            raise busy(f"The request waited {most:g} seconds and was not begun.", 5) from None
        try:
            self.begun, row.began = True, row.began or time.monotonic()
            yield
        finally:
            state.turn.release()

    def _score(self, portion: Rows) -> list[list[list[Ranked]]]:
        """On a thread beside the loop."""
        from llama_magic.engine.scoring.reader import ranked  # for weight: llama.cpp
        from llama_magic.engine.scoring.score import score

        rows = [(begins, [text for _, text in texts]) for begins, texts in portion]
        try:
            with self._bound:
                return score(self._model.backend.local, rows, ranked(self._most))
        except KeyboardInterrupt:  # which is how a bound ends it
            words = "The client went, or the server stopped, before the prompt was read."
            raise Refusal(503, words) from None

    # --- telling ----------------------------------------------------------------------------

    def _add(
        self,
        choice: dict[str, Any],
        prompt: Sequence[tuple[int, Ranked | None]],
        answer: Sequence[TokenLogprob],
    ) -> None:
        """Add to a choice what is told of its prompt, and of all tokens of its answer."""
        asked, tokenizer = self._asked, self._model.backend.tokenizer
        if asked.prompt_logprobs is not None:
            choice["prompt_logprobs"] = [one and self._entries(token, one) for token, one in prompt]
        if asked.echo and asked.logprobs is not None:
            *at, length = offsets(tokenizer, [token for token, _ in prompt])
            told = columns([self._token(token, one) for token, one in prompt]) | {"text_offset": at}
            for place, (_, one) in enumerate(prompt):
                if one is None:
                    told["token_logprobs"][place] = told["top_logprobs"][place] = None
            after = columns(answer, length)
            choice["logprobs"] = {name: [*column, *after[name]] for name, column in told.items()}

    def _entries(self, token: int, one: Ranked) -> dict[str, Any]:
        """Return the entries of `prompt_logprobs` for a token by id: its own first, then the likeliest."""
        top = one.top[: self._asked.prompt_logprobs]
        entries = [(token, one.logprob, one.rank)]
        entries += [(other, value, rank) for rank, (other, value) in enumerate(top, 1) if other != token]
        tokenizer = self._model.backend.tokenizer
        return {
            str(id_): {
                "logprob": max(value, LEAST),
                "rank": rank,
                "decoded_token": piece_text(tokenizer, id_),
            }
            for id_, value, rank in entries
        }

    def _token(self, token: int, one: Ranked | None) -> TokenLogprob:
        tokenizer = self._model.backend.tokenizer
        if one is None:
            return TokenLogprob(token, piece_text(tokenizer, token), 0.0)
        likely = one.top[: self._asked.logprobs]
        top = (TopLogprob(other, piece_text(tokenizer, other), value) for other, value in likely)
        return TokenLogprob(token, piece_text(tokenizer, token), one.logprob, tuple(top))


def _likelihood(found: tuple[int, Ranked | None]) -> float:
    return -math.inf if found[1] is None else found[1].logprob


def portions(prompts: Sequence[Sequence[int]], start: int, most: int) -> Iterator[Rows]:
    """Yield rows of some `most` tokens: what prompts begin with, up to `start`, and the texts after it."""
    rows: Rows = []
    size = 0
    for place, tokens in enumerate(prompts):
        begins, text = list(tokens[:start]), list(tokens[start:])
        if not text:
            continue
        goes_on = bool(rows) and rows[-1][0] == begins
        if rows and size + len(text) + (0 if goes_on else len(begins)) > most:
            yield rows
            rows, size, goes_on = [], 0, False
        if not goes_on:
            rows.append((begins, []))
            size += len(begins)
        rows[-1][1].append((place, text))
        size += len(text)
    if rows:
        yield rows
