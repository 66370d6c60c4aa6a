"""Which tokens a lane decodes next."""

from __future__ import annotations

from typing import Protocol

from llama_magic.engine.lanes import drafting
from llama_magic.engine.lanes.batch import Batch
from llama_magic.engine.lanes.running import Running

# Prompt tokens read in one step while other samples are being written, so that these go on.
BUSY_CHUNK = 128


class Composing(drafting.Guessing, Protocol):
    """A lane, as far as its batches are put together; `company`: another model is at work, too."""

    company: bool

    def chunk(self, running: Running) -> int:
        """Return how many tokens of a prompt to read next."""


def compose(lane: Composing) -> Batch:
    """Choose what goes into the next batch: first a token for each sample, then prompts in order."""
    batch = Batch(lane.context.n_batch)
    reading = []
    for running in lane.running:
        if running.reading:
            reading.append(running)
    for running in lane.running:
        if not reading:
            batch.add(running, batch.room)
            if running.drafter is not None:
                drafting.draft(lane, batch, running)
        elif running not in reading:
            batch.add(running, batch.room)
    if reading and (batch.parts or lane.company):
        batch.narrow(BUSY_CHUNK)
    for running in reading:
        batch.add(running, lane.chunk(running))
    return batch
