"""Tokens for nothing: guess what follows from what stood before, and let one decode prove several guesses.

A text that repeats its prompt (an edit, an extract, code in another form) is written mostly by guesses. Each
row of a decode is drawn from as if it were decoded alone: by the request's own sampler, after its own mask. A
guess is kept where it is what was drawn, so an answer is that of plain decoding, token for token, as far as
a row has the same bits in a batch of several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llama_magic.engine.kv.cells import Cells
    from llama_magic.engine.lanes.batch import Batch
    from llama_magic.engine.lanes.running import Running
    from llama_magic.engine.native import Context


def most_guesses(context: Context) -> int:
    """Return how many tokens may be guessed ahead in this context: none where they cannot be taken back."""
    return 0 if context.weights.recurrent else context.n_outputs - 1


def draft(batch: Batch, running: Running, most: int) -> None:
    """Add guesses to a batch that decodes this sample alone; `most` at most.

    None where a seed was given: a row in a batch of several has not always the bits of a row alone.
    """
    drafter, left = running.drafter, running.job.max_tokens - running.n_generated
    most = min(most, batch.room, left - 1)  # what is drawn from the last row is a token, too
    if drafter is None or most <= 0 or running.reading or running.job.exact:
        return
    guesses = drafter.guess(running.tokens, running.n_generated, most)
    ends = running.stop_ids
    length = next((i for i, token in enumerate(guesses) if token in ends), len(guesses))
    if length:
        drafter.left = guesses[:length]
        batch.draft(running, guesses[:length])


def verify(kv: Cells, context: Context, running: Running, guesses: Sequence[int], index: int) -> None:
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
            running.advance(context, index + kept)
    finally:
        kept = _true(guesses, running.tokens[base:])
        slot.extend(guesses[:kept], running.n_prompt)
        if kept < len(guesses):
            kv.roll_back(slot)
        drafter.settle(len(guesses), kept)
        running.job.stats.drafted += len(guesses)
        running.job.stats.accepted += kept


def _true(guesses: Sequence[int], tokens: Sequence[int]) -> int:
    """Return how many of the guesses came true."""
    pairs = enumerate(zip(guesses, tokens, strict=False))
    return next((i for i, (guess, token) in pairs if guess != token), min(len(guesses), len(tokens)))
