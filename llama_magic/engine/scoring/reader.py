"""What both ways of scoring have in common: the context, a decode in it, what its logits say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llama_magic.engine.lanes.logits import LogitRow, unusable
from llama_magic.engine.native import Context, ContextOptions, DecodeStatus, Weights
from llama_magic.engine.side import must_be_read
from llama_magic.errors import ModelClosedError

if TYPE_CHECKING:
    from llama_magic.engine.core import Core
    from llama_magic.engine.engine import Engine

PURPOSE = "scoring"
PROMPT = 0  # the sequence that is left for the next row


class Holding(Context):
    """The context for scoring. `tokens` are those that its first sequence holds."""

    def __init__(self, weights: Weights, options: ContextOptions) -> None:
        super().__init__(weights, options)
        self.tokens: list[int] = []
        self.together = False  # whether rows are alike in it

    def keep(self, length: int) -> int:
        """Let go of all that is not among the first `length` tokens; return how many are left."""
        for sequence in range(1, self.options.sequences):
            self.remove(sequence, -1)
        if length < len(self.tokens):
            if not self.remove(PROMPT, length):  # a recurrent state cannot be cut back
                self.clear()
                length = 0
            del self.tokens[length:]
        return length


class ScoreReader:
    """Rows that are scored. What is done in one `engine.call` is a step between those of answers."""

    def __init__(self, engine: Engine, tell: Tell) -> None:
        self.engine = engine
        self.tell = tell
        self.stopped = False

    def run(self, rows: Sequence[tuple[Sequence[int], Sequence[Sequence[int]]]]) -> list[list[list[Any]]]:
        """Return what is told of the tokens of each text of each row."""
        raise NotImplementedError

    def decode(
        self,
        core: Core,
        tokens: Sequence[int],
        positions: Sequence[int],
        owners: Sequence[Sequence[int]],
        outputs: Sequence[int],
    ) -> Holding:
        """Decode a batch; return the context with its logits."""
        context = holding(core)
        context.clear_abort()  # that of an earlier call; one that comes from now on is seen
        if self.stopped or core.stopping:
            raise ModelClosedError("The scoring was stopped.")
        status = context.decode_shared(tokens, positions, owners, outputs)
        if status is not DecodeStatus.DONE:
            context.clear()  # what was written of the batch is not known
            context.tokens = []
        must_be_read(status)
        return context


def holding(core: Core) -> Holding:
    """Return the context for scoring, which `score` made."""
    context = core.side[PURPOSE]
    assert isinstance(context, Holding)
    return context


# What is told of tokens by the logits at a place of the batch that was decoded last.
Tell = Callable[[Context, int, Sequence[int]], Sequence[Any]]


def logprobs(context: Context, index: int, tokens: Sequence[int]) -> list[float]:
    """Return the log-probabilities of tokens."""
    row = _usable(context, index)
    return [float(row.logits[token]) - row.normaliser for token in tokens]


class Ranked(NamedTuple):
    """How likely a token is, its rank from 1 on, and the likeliest with their log-probabilities."""

    logprob: float
    rank: int
    top: Sequence[tuple[int, float]]


def ranked(most: int) -> Tell:
    """Return what tells of each token its rank too, and the `most` likeliest that might have stood there."""

    def tell(context: Context, index: int, tokens: Sequence[int]) -> list[Ranked]:
        row = _usable(context, index)
        top = row.top(most) if most else ()
        own = [(float(row.logits[token]), int((row.logits > row.logits[token]).sum())) for token in tokens]
        return [Ranked(logit - row.normaliser, likelier + 1, top) for logit, likelier in own]

    return tell


def _usable(context: Context, index: int) -> LogitRow:
    row = LogitRow(context.logits(index))
    if not np.isfinite(row.normaliser):
        raise unusable(row.normaliser)
    return row
