"""A smaller model that guesses what a larger one will write, for one sample at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llama_magic.engine.kv.store import common_prefix
from llama_magic.engine.native import Context, ContextOptions, DecodeStatus, Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llama_magic.engine.lanes.running import Running

SURE = 0.5  # how likely a token must be to it, so that it is worth a row
READ = 0.5  # what a token costs that it reads, in tokens that it writes


@dataclass(frozen=True)
class DraftOptions:
    """Weights of a draft model, and the parameters of its context."""

    weights: Weights
    context: ContextOptions


class DraftModel:
    """Guess greedily. Its context holds the sample that was guessed last."""

    def __init__(self, options: DraftOptions, size: int) -> None:
        self.price = options.weights.size_bytes / max(1, size)  # of a token, in tokens of the larger model
        self.context = Context(options.weights, options.context)
        self._held: list[int] = []

    @np.errstate(over="ignore", invalid="ignore")  # a draft model that is damaged is of no use, and no harm
    def guess(self, running: Running, most: int) -> list[int]:
        """Return what may follow, `most` tokens at most; none where reading what is new would not pay."""
        tokens = running.tokens
        most = min(most, running.trust.most(running.n_generated, self.price))
        known = min(common_prefix(self._held, tokens), len(tokens) - 1)
        left = running.request.max_tokens - running.n_generated
        if most <= 0 or (len(tokens) - known) * READ * self.price > left / 4:
            return []
        if len(tokens) + most > self.context.n_ctx:
            return []
        self.context.remove(0, known)
        del self._held[known:]
        found: list[int] = []
        row = self._row(tokens[known:], running)
        while row is not None:
            token = int(row.argmax())
            if 1.0 / float(np.exp(row - row[token], dtype=np.float64).sum()) < SURE:
                break
            found.append(token)
            if len(found) == most:
                break
            row = self._row([token], running)
        if not found:
            running.trust.pay(self.price)  # it was asked in vain
        return found

    def _row(self, tokens: Sequence[int], running: Running) -> NDArray[np.float32] | None:
        """Decode tokens behind those that are held; return the logits of the last, None where stopped."""
        context = self.context
        for start in range(0, len(tokens), context.n_batch):
            part = tokens[start : start + context.n_batch]
            past = len(self._held)
            places = range(past, past + len(part))
            status = context.decode(part, places, [0] * len(part), [len(part) - 1])
            if status is not DecodeStatus.DONE or running.job.cancelled:
                context.clear()
                self._held.clear()
                return None
            self._held += part
        return context.logits(len(part) - 1)

    def abort(self) -> None:
        """Stop what is computed, for good. Any thread."""
        self.context.abort()

    def close(self) -> None:
        self.context.close()
