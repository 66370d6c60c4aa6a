"""Which tokens a lane decodes next."""

from __future__ import annotations

from typing import Protocol

from llama_magic.engine.lanes import drafting
from llama_magic.engine.lanes.batch import Batch
from llama_magic.engine.lanes.running import Running

# Prompt tokens read in one step while other samples are being written, so that these go on.
BUSY_CHUNK = 128
# Rows from which on a processor attends by tiles, each of which looks at all that one of its rows sees.
TILE = 64


class Composing(drafting.Guessing, Protocol):
    """A lane, as far as its batches are put together; `company`: another model is at work, too.

    `apart`: what is written and what is read take turns, where both together are many rows; `read_last`:
    the last of these was a reading one.
    """

    company: bool
    apart: bool
    read_last: bool

    def chunk(self, running: Running) -> int:
        """Return how many tokens of a prompt to read next."""


def compose(lane: Composing) -> Batch:
    """Choose what goes into the next batch: first a token for each sample, then prompts in order."""
    batch = Batch(lane.context.n_batch)
    writing: list[Running] = []
    reading: list[Running] = []
    for running in lane.running:
        (reading if running.reading else writing).append(running)
    busy = lane.company or bool(writing)
    if lane.apart and writing and reading and _rows(writing, reading) >= TILE:
        lane.read_last = not lane.read_last
        writing, reading = ([], reading) if lane.read_last else (writing, [])
    for running in writing:
        batch.add(running, batch.room)
        if running.drafter is not None and not reading:
            drafting.draft(lane, batch, running)
    if reading and busy:
        batch.narrow(BUSY_CHUNK)
    for running in reading:
        batch.add(running, lane.chunk(running))
    return batch


def _rows(writing: list[Running], reading: list[Running]) -> int:
    return len(writing) + sum(running.n_prompt - running.n_past for running in reading)
