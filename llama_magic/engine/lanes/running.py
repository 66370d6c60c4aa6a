"""One sample of a job while it is decoded."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from llama_magic.engine.job import Job
from llama_magic.engine.kv.cells import Cells
from llama_magic.engine.kv.reuse import common_with
from llama_magic.engine.kv.slots import Slot
from llama_magic.engine.lanes.guesses import Drafter, Trust
from llama_magic.engine.lanes.logits import LogitRow, NoLogitsError
from llama_magic.engine.native import Context, SamplerChain, Weights
from llama_magic.errors import BackendError, OptionError
from llama_magic.request.events import FinishEvent, FinishReason, PromptEvent, TokenEvent
from llama_magic.request.matcher import Matcher
from llama_magic.request.text import TextStream

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_made = tuple.__new__  # a named tuple's own way to be made is a Python function


class Running:
    """A sample of a job on its way: tokens to feed, sampler chain, constraint, text."""

    def __init__(self, job: Job, index: int, weights: Weights) -> None:
        self.job = job
        self.request = request = job.request
        self.index = index
        self.weights = weights
        self.tokens: list[int] = list(request.prompt)  # prompt, then what was generated
        self.n_prompt = len(request.prompt)
        self.slot: Slot | None = None
        self.checkpoints: frozenset[int] = frozenset()  # behind so many tokens the state is kept
        self._chain: SamplerChain | None = None
        self._last = self.n_prompt + request.max_tokens  # so many tokens there are at most
        self.matcher: Matcher | None = None
        self.text, _ = TextStream.begun(request.stops, map(self._piece, request.begun))
        self.tape = job.tapes[index] if job.tapes else None
        self.done = False
        self.drafter = Drafter() if request.speculate else None
        self.trust, self.by_model = Trust(), False  # in a draft model, and whether it made the last guesses
        self.stop_ids = request.stop_texts.keys() | (
            frozenset() if request.ignore_eos else frozenset(weights.vocab.eog_ids)
        )
        # Whether nothing is left to chance, so that the same logits give the same answer.
        self.certain = request.exact or request.sampling.certain
        self._forbidden = frozenset(t for t, bias in request.sampling.logit_bias if bias == -math.inf)

    def open(self) -> None:
        """Make what costs memory: the sampler chain, shown what it must know, and the constraint."""
        if self._chain is None:
            constraint = self.request.constraint
            self.matcher = None if constraint is None else constraint.start()
            self._chain = SamplerChain(
                self.weights,
                self.request.sampling,
                self.request.sample_seed(self.index),
                masked=self.matcher is not None,
            )
            if self._chain.looks_back:
                self._chain.accept(self.tokens)
            if self.matcher is not None and self.matcher.finished:  # all of it was given
                self.finish("stop")

    def _piece(self, token: int) -> bytes:
        return self.weights.vocab.piece(token, special=token in self.request.visible_ids)

    @property
    def chain(self) -> SamplerChain:
        assert self._chain is not None, "open() comes first"
        return self._chain

    @property
    def n_generated(self) -> int:
        return len(self.tokens) - self.n_prompt

    @property
    def n_most(self) -> int:
        """Return how many cells it needs at most."""
        return self.n_prompt + self.request.max_tokens + 1

    @property
    def n_past(self) -> int:
        """Return how many of `tokens` have their cells in the cache."""
        return len(self.slot.tokens) if self.slot else 0

    @property
    def reading(self) -> bool:
        """Whether prompt tokens are still to be read."""
        slot = self.slot
        return (len(slot.tokens) if slot else 0) < self.n_prompt

    @property
    def to_checkpoint(self) -> float:
        """Return how many tokens are to be read until the next checkpoint."""
        past = self.n_past
        return min((end - past for end in self.checkpoints if end > past), default=math.inf)

    def look(self, kv: Cells) -> None:
        """Note what there is for its job to reuse, before it has a slot, so that it can be said why not."""
        if not self.job.stats.started:
            self.job.found = bool(kv.store.entries) or any(slot.tokens for slot in kv.slots)
            if kv.cut or kv.recurrent:  # else all that is common is reused
                self.job.common = common_with(kv, self.tokens)

    # --- after a decode -------------------------------------------------------------------

    def advance(self, context: Context, index: int) -> None:
        """Draw the next token from the logits at batch index `index` and send what follows from it."""
        request, matcher = self.request, self.matcher
        logits, logprobs = context.logits(index), request.logprobs
        measured = logprobs is not None or request.measure_outside
        if matcher is None and not measured:  # most tokens are
            if self.tape is not None:
                self.tape.draw(logits)
            self._take(self._draw(context, index, logits))
            return
        row = LogitRow(logits)
        normaliser = row.normaliser if measured else 0.0
        top = row.top(logprobs) if logprobs else ()
        if logprobs is not None and matcher is not None and self.n_generated:
            # Each forced token was decoded by itself then, so that it has a probability, too.
            for token in matcher.forced()[:1]:
                self._take_without_a_draw(token, float(logits[token]) - normaliser, top)
                return
        if self.tape is not None:
            self.tape.draw(logits)
        if matcher is not None:
            matcher.apply(logits)
            row = LogitRow(logits)
            if self.tape is not None and (bits := matcher.allowed_bits()) is not None:
                self.tape.mask(bits)
        token = self._draw(context, index, logits)
        outside = None
        if request.measure_outside and matcher is not None:
            outside = max(0.0, 1.0 - math.exp(row.normaliser - normaliser))
        # A mask leaves the logits of what may be drawn.
        logprob = float(logits[token]) - normaliser if measured else None
        self._take(token, logprob=logprob, top=top, outside=outside)
        if not self.done and matcher is not None and logprobs is None:
            self._take_forced()

    def _draw(self, context: Context, index: int, logits: NDArray[np.float32]) -> int:
        """Return the token that is drawn from the row at batch index `index`. Raises where none can be."""
        chain = self._chain or self.chain
        likeliest = int(logits.argmax())  # the place of a NaN, where there is one
        peak: float = logits.item(likeliest)
        if not -math.inf < peak < math.inf:
            # llama.cpp would draw nonsense from NaN, and end the process where nothing is left.
            kind = BackendError if peak == -math.inf else NoLogitsError  # the former is of this answer alone
            raise kind(
                f"The model gave no usable logits at token {self.n_generated + 1} (largest is {peak}).",
                remedy="Ask again: what the KV cache held is forgotten. Where that does not help the weights "
                "hold NaN or infinite values; download the file again.",
            )
        if chain.plain_greedy:
            return likeliest
        token = chain.sample(context, index)
        if token in self._forbidden or logits.item(token) == -math.inf:
            raise OptionError(
                f"No token is left to draw at token {self.n_generated + 1}: logit_bias, or the constraint "
                "together with it, forbids every one.",
                remedy="Forbid fewer tokens with -inf.",
            )
        return token

    def _take(
        self,
        token: int,
        *,
        forced: bool = False,
        logprob: float | None = None,
        top: tuple[tuple[int, float], ...] = (),
        outside: float | None = None,
    ) -> None:
        stats = self.job.stats
        stats.last_token = time.perf_counter()
        if not stats.first_token:
            stats.first_token = stats.last_token
        if token in self.stop_ids:
            self.finish("stop", stop=self.request.stop_texts.get(token))
            return
        guessed, struck = self.drafter.hear(token) if self.drafter else (False, ())
        if self.matcher is not None:
            self.matcher.accept(token)
        self.tokens.append(token)
        stats.generated += 1
        text = self.text.decode(self._piece(token))
        told = self.index, token, text, forced, logprob, top, outside, guessed, struck
        self.job.sink(_made(TokenEvent, told))
        if self.text.stop is not None or (self.matcher is not None and self.matcher.finished):
            self.finish("stop")
        elif len(self.tokens) >= self._last:
            self.finish("length")

    def _take_forced(self) -> None:
        """Append the tokens that the constraint leaves no choice about; they are decoded together."""
        assert self.matcher is not None
        while not self.done:
            forced = self.matcher.forced()
            if not forced:
                return
            for token in forced:
                self._take_without_a_draw(token)
                if self.done:
                    return

    def _take_without_a_draw(
        self, token: int, logprob: float | None = None, top: tuple[tuple[int, float], ...] = ()
    ) -> None:
        self.chain.accept((token,))
        if self.tape is not None:
            self.tape.force()
        self._take(token, forced=True, logprob=logprob, top=top)

    def report_prompt(self, cached: int | None = None, done: int = 0) -> None:
        """Tell how much of the prompt is read (`done`: elsewhere). Only sample 0 does: others share it."""
        if self.index == 0:
            if cached is not None:
                self.job.stats.cached_tokens = cached
            done = max(done, min(self.n_past, self.n_prompt))
            self.job.sink(PromptEvent(done, self.n_prompt, self.job.stats.cached_tokens))

    def finish(self, reason: FinishReason, stop: str | None = None) -> None:
        """Send the last text and the reason, and free the sampler chain."""
        if self.done:
            return
        self.done = True
        rest = self.text.flush()
        if self.text.stop is not None and reason == "length":
            reason = "stop"
        struck = self.drafter.strike() if self.drafter else ()
        self.job.sink(FinishEvent(self.index, reason, rest, stop or self.text.stop, struck))
        self._close()

    def drop(self) -> None:
        """Give up without an event (the job failed as a whole)."""
        self.done = True
        self._close()

    def _close(self) -> None:
        if self._chain is not None:
            self._chain.close()


def siblings(running: Running, others: Iterable[Running]) -> list[Running]:
    """Return the other samples of the same job."""
    return [o for o in others if o is not running and o.job is running.job]
