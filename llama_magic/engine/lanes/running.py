"""One sequence being decoded, and the slot of the KV cache that it sits in."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from llama_magic.engine.job import Job
from llama_magic.engine.native import Context, SamplerChain, Weights
from llama_magic.errors import BackendError, OptionError
from llama_magic.request.events import FinishEvent, FinishReason, PromptEvent, TokenEvent
from llama_magic.request.matcher import Matcher
from llama_magic.request.text import TextStream

if TYPE_CHECKING:
    from numpy.typing import NDArray


_lineages = itertools.count(1)


class Slot:
    """One llama.cpp sequence: `tokens` have their cells in it, `n_read` of them were read as prompt.

    Slots can share cells. `runs` says which: cells of the same lineage and position are one.
    """

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.tokens: list[int] = []
        self.n_read = 0
        self.owner: Running | None = None
        self.last_used = 0.0
        self.name = ""  # of a fork
        self._shared: list[tuple[int, int]] = []  # (lineage, end) of leading cells that others may hold
        self._lineage = next(_lineages)

    def cut(self, length: int) -> None:
        """Forget all tokens from `length` on."""
        self._shared = [run[:1] + run[2:] for run in self.runs() if run[1] < length]
        if self._shared:
            lineage, end = self._shared[-1]
            self._shared[-1] = lineage, min(end, length)
        self._lineage = next(_lineages)
        del self.tokens[length:]
        self.n_read = min(self.n_read, length)
        if not length:
            self.name = ""

    def share(self, holder: Slot, length: int) -> None:
        """Take over the first `length` cells of another slot."""
        self.cut(0)
        self.tokens = list(holder.tokens[:length])
        self.n_read = min(holder.n_read, length)
        runs = holder.runs()
        self._shared = [(lineage, min(end, length)) for lineage, start, end in runs if start < length]

    def runs(self) -> list[tuple[int, int, int]]:
        """Return the cells as (lineage, start, end) stretches of positions."""
        ends = [*self._shared, (self._lineage, len(self.tokens))]
        starts = [0, *(end for _, end in self._shared)]
        return [
            (lineage, start, end) for (lineage, end), start in zip(ends, starts, strict=True) if start < end
        ]


def cells_used(slots: Iterable[Slot]) -> int:
    """Count the cells of slots once, however many share them."""
    longest: dict[int, int] = {}
    lowest: dict[int, int] = {}
    for slot in slots:
        for lineage, start, end in slot.runs():
            # Stretches of a lineage that are held start at the same position.
            longest[lineage] = max(longest.get(lineage, 0), end)
            lowest[lineage] = start
    return sum(end - lowest[lineage] for lineage, end in longest.items())


class Running:
    """A sample of a request on its way: tokens to feed, sampler chain, constraint, text."""

    def __init__(self, request: Job, index: int, weights: Weights) -> None:
        self.request = request
        self.index = index
        self.weights = weights
        self.tokens: list[int] = list(request.prompt)  # prompt, then what was generated
        self.n_prompt = len(request.prompt)
        self.slot: Slot | None = None
        self._chain: SamplerChain | None = None
        self.matcher: Matcher | None = None
        self.text = TextStream(request.stops)
        self.tape = request.tapes[index] if request.tapes else None
        self.done = False
        self._stop_ids = request.stop_texts.keys() | (
            frozenset() if request.ignore_eos else frozenset(weights.vocab.eog_ids)
        )
        self._forbidden = frozenset(t for t, bias in request.sampling.logit_bias if bias == -math.inf)

    def open(self) -> None:
        """Make what costs memory: the sampler chain, shown what it must know, and the constraint."""
        if self._chain is None:
            self.matcher = self.request.matcher() if self.request.matcher else None
            self._chain = SamplerChain(
                self.weights,
                self.request.sampling,
                self.request.sample_seed(self.index),
                masked=self.matcher is not None,
            )
            if self._chain.looks_back:
                self._chain.accept(self.tokens)

    @property
    def chain(self) -> SamplerChain:
        assert self._chain is not None, "open() comes first"
        return self._chain

    @property
    def n_generated(self) -> int:
        return len(self.tokens) - self.n_prompt

    @property
    def n_past(self) -> int:
        """Return how many of `tokens` have their cells in the cache."""
        return len(self.slot.tokens) if self.slot else 0

    @property
    def reading(self) -> bool:
        """Whether prompt tokens are still to be read."""
        return self.n_past < self.n_prompt

    def pending(self, limit: int) -> Sequence[int]:
        """Return the next tokens to decode, `limit` at most."""
        past = self.n_past
        return self.tokens[past : past + limit]

    # --- after a decode -------------------------------------------------------------------

    def advance(self, context: Context, index: int) -> None:
        """Draw the next token from the logits at batch index `index` and send what follows from it."""
        logits = context.logits(index)
        if self.tape is not None:
            self.tape.draw(logits)
        logprobs = self.request.logprobs
        normaliser = _log_sum_exp(logits) if logprobs is not None or self.request.measure_outside else 0.0
        top = _top(logits, normaliser, logprobs) if logprobs else ()
        if self.matcher is not None:
            self.matcher.apply(logits)
            if self.tape is not None and (bits := self.matcher.allowed_bits()) is not None:
                self.tape.mask(bits)
        likeliest = int(logits.argmax())  # the place of a NaN, where there is one
        peak = float(logits[likeliest])
        if not np.isfinite(peak):
            # llama.cpp would draw nonsense from NaN, and end the process where nothing is left.
            raise BackendError(
                f"The model gave no usable logits at token {self.n_generated + 1} (largest is {peak}).",
                remedy="The weights hold NaN or infinite values; download the file again.",
            )
        outside = None
        if self.request.measure_outside and self.matcher is not None:
            outside = max(0.0, 1.0 - float(np.exp(_log_sum_exp(logits) - normaliser)))
        token = likeliest if self.chain.plain_greedy else self.chain.sample(context, index)
        if token in self._forbidden or logits[token] == -np.inf:
            raise OptionError(
                f"No token is left to draw at token {self.n_generated + 1}: logit_bias, or the constraint "
                "together with it, forbids every one.",
                remedy="Forbid fewer tokens with -inf.",
            )
        logprob = None
        if logprobs is not None or self.request.measure_outside:
            logprob = float(logits[token]) - normaliser  # a mask leaves the logits of what may be drawn
        self._take(token, logprob=logprob, top=top, outside=outside)
        if not self.done and self.matcher is not None:
            self._take_forced()

    def _take(
        self,
        token: int,
        *,
        forced: bool = False,
        logprob: float | None = None,
        top: tuple[tuple[int, float], ...] = (),
        outside: float | None = None,
    ) -> None:
        stats = self.request.stats
        now = time.perf_counter()
        stats.first_token = stats.first_token or now
        stats.last_token = now
        if token in self._stop_ids:
            self.finish("stop", stop=self.request.stop_texts.get(token))
            return
        if self.matcher is not None:
            self.matcher.accept(token)
        self.tokens.append(token)
        stats.generated += 1
        visible = token in self.request.visible_ids
        text = self.text.decode(self.weights.vocab.piece(token, special=visible))
        self.request.sink(TokenEvent(self.index, token, text, forced, logprob, top, outside))
        if self.text.stop is not None or (self.matcher is not None and self.matcher.finished):
            self.finish("stop")
        elif self.n_generated >= self.request.max_tokens:
            self.finish("length")

    def _take_forced(self) -> None:
        """Append the tokens that the constraint leaves no choice about; they are decoded together."""
        assert self.matcher is not None
        while not self.done:
            forced = self.matcher.forced()
            if not forced:
                return
            for token in forced:
                self.chain.accept((token,))
                if self.tape is not None:
                    self.tape.force()
                self._take(token, forced=True)
                if self.done:
                    return

    def report_prompt(self, cached: int | None = None) -> None:
        """Tell how much of the prompt is read. Only sample 0 reports; the others share its prompt."""
        if self.index == 0:
            if cached is not None:
                self.request.stats.cached_tokens = cached
            done = min(self.n_past, self.n_prompt)
            self.request.sink(PromptEvent(done, self.n_prompt, self.request.stats.cached_tokens))

    def finish(self, reason: FinishReason, stop: str | None = None) -> None:
        """Send the last text and the reason, and free the sampler chain."""
        if self.done:
            return
        self.done = True
        rest = self.text.flush()
        if self.text.stop is not None and reason == "length":
            reason = "stop"
        self.request.sink(FinishEvent(self.index, reason, rest, stop or self.text.stop))
        self._close()

    def drop(self) -> None:
        """Give up without an event (the request failed as a whole)."""
        self.done = True
        self._close()

    def _close(self) -> None:
        if self._chain is not None:
            self._chain.close()


def _log_sum_exp(logits: NDArray[np.float32]) -> float:
    peak = float(logits.max())
    if not np.isfinite(peak):
        return peak
    return peak + float(np.log(np.exp(logits - peak, dtype=np.float64).sum()))


def _top(logits: NDArray[np.float32], normaliser: float, k: int) -> tuple[tuple[int, float], ...]:
    """Return the `k` likeliest tokens with their log-probabilities, likeliest first."""
    k = min(k, len(logits))
    near = _candidates(logits, k)
    best = near[np.lexsort((near, -logits[near]))[:k]]
    return tuple((int(i), float(logits[i]) - normaliser) for i in best)


def _candidates(logits: NDArray[np.float32], k: int) -> NDArray[np.intp]:
    """Return the ids of the `k` largest logits and of some more, in order of ids.

    The k-th largest of the largest of 64 tokens each is no larger than the k-th largest of all; a few
    dozen tokens reach it. A quarter of the time of a partition of the whole row.
    """
    columns = len(logits) // 64
    if k > columns:
        return np.arange(len(logits))
    peaks = logits[: 64 * columns].reshape(64, columns).max(axis=0)
    return np.flatnonzero(logits >= np.partition(peaks, columns - k)[columns - k])
