"""Tokens for nothing: guess what follows from what stood before, and let one decode prove several guesses.

A text that repeats its prompt (an edit, an extract, code in another form) is written mostly by guesses. Each
row of a decode is drawn from as if it were decoded alone: by the request's own sampler, after its own mask. A
guess is kept where it is what was drawn, so an answer is that of plain decoding, token for token, where
a row has the same bits in a batch of several. Where it has not, a lane guesses for no answer that is to be
the same each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from llama_magic.engine.kv.cells import Cells
    from llama_magic.engine.lanes.batch import Batch
    from llama_magic.engine.lanes.draft_model import DraftModel
    from llama_magic.engine.lanes.running import Running
    from llama_magic.engine.native import Context

# So many rows were tried for having the bits of a row alone (`native.alike`), and more are hardly cheaper.
MOST_ROWS = 16
# Beside more samples than this a guess costs what a token of another sample costs, and wins nothing.
MOST_SAMPLES = 4
# Why nothing is guessed for an answer.
CANNOT_GO_BACK = "a recurrent state cannot be taken back"
ROWS_DIFFER = (
    "with these weights and options on this machine the last bits of a row depend on what is decoded beside "
    "it, and an answer at temperature 0 or with a seed is to be that of plain decoding"
)


class Guessing(Protocol):
    """A lane, as far as it guesses: with `rows` of a batch at most."""

    context: Context
    kv: Cells
    rows: int
    running: list[Running]
    draft_model: DraftModel | None

    def may_guess(self, running: Running) -> bool: ...


def rows(context: Context) -> int:
    """Return how many rows a batch with guesses may have here: one where they cannot be taken back."""
    return 1 if context.weights.recurrent else min(MOST_ROWS, context.n_outputs)


def draft(lane: Guessing, batch: Batch, running: Running) -> None:
    """Add guesses behind the tokens of a sample that were added last, where the lane may guess for it."""
    drafter, samples = running.drafter, len(lane.running)
    if drafter is None:
        return
    drafter.left = []
    if samples > MOST_SAMPLES or batch.parts[-1][0] is not running:
        return
    if lane.rows == 1:
        _give_up(running, CANNOT_GO_BACK)
        return
    left = running.request.max_tokens - running.n_generated
    most = min(lane.rows // samples - 1, batch.room, left - 1)  # the last row draws a token, too
    guesses = drafter.guess(running.tokens, running.n_generated, most) if most > 0 else []
    running.by_model = not guesses and most > 0 and samples == 1 and lane.draft_model is not None
    if running.by_model and lane.may_guess(running):
        assert lane.draft_model is not None
        guesses = lane.draft_model.guess(running, most)
    ends = running.stop_ids
    length = next((i for i, token in enumerate(guesses) if token in ends), len(guesses))
    if not length:
        return
    if not lane.may_guess(running):  # asked when there is something to guess: it may have to be tried
        _give_up(running, ROWS_DIFFER)
        return
    drafter.left = guesses[:length]
    batch.draft(guesses[:length])


def _give_up(running: Running, reason: str) -> None:
    running.drafter = None
    running.job.stats.unguessed = reason


def verify(lane: Guessing, running: Running, guesses: Sequence[int], index: int) -> None:
    """Draw on from the rows of guesses for as long as these are what was drawn; the other cells go.

    `index` is that of the row before the guesses, from which a token was drawn already.
    """
    slot, drafter = running.slot, running.drafter
    assert slot is not None
    assert drafter is not None
    base, kept = len(slot.tokens), 0
    try:
        while True:
            kept = _true(guesses, running.tokens[base:])
            if running.done or running.job.cancelled or base + kept < len(running.tokens):
                return
            running.advance(lane.context, index + kept)
    finally:
        kept = _true(guesses, running.tokens[base:])
        slot.extend(guesses[:kept], running.n_prompt)
        if kept < len(guesses):
            lane.kv.take_back(slot, len(guesses) - kept, last=len(lane.running) == 1)
        if running.by_model and lane.draft_model is not None:
            running.trust.settle(len(guesses), kept, lane.draft_model.price)
        else:
            drafter.settle(len(guesses), kept)
        running.job.stats.drafted += len(guesses)
        running.job.stats.accepted += kept


def _true(guesses: Sequence[int], tokens: Sequence[int]) -> int:
    """Return how many of the guesses came true."""
    pairs = enumerate(zip(guesses, tokens, strict=False))
    return next((i for i, (guess, token) in pairs if guess != token), min(len(guesses), len(tokens)))
