"""Which tokens a lane decodes next."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from llama_magic.engine.lanes import drafting
from llama_magic.engine.lanes.batch import Batch
from llama_magic.engine.lanes.running import Running

# Prompt tokens read in one step while other samples are being written, so that these go on.
BUSY_CHUNK = 128
CROWDED_CHUNK = 256  # where they take turns with what is written, and another prompt waits
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

    @property
    def waiting(self) -> Collection[Running]: ...

    def chunk(self, running: Running) -> int:
        """Return how many tokens of a prompt to read next."""

    def begins(self, running: Running) -> bool:
        """Whether a prompt is read here, where there is room behind another in a batch."""


def compose(lane: Composing) -> Batch:
    """Choose what goes into the next batch: first a token for each sample, then prompts in order."""
    batch = Batch(lane.context.n_batch)
    writing: list[Running] = []
    reading: list[Running] = []
    for running in lane.running:
        read = still_read(running) if lane.apart else running.reading
        (reading if read else writing).append(running)
    busy = lane.company or bool(writing)
    if lane.apart and writing and reading and _rows(writing, reading) >= TILE:
        lane.read_last = not lane.read_last
        writing, reading = ([], reading) if lane.read_last else (writing, [])
    for running in writing:
        batch.add(running, batch.room)
        if running.drafter is not None and not reading and not running.reading:
            drafting.draft(lane, batch, running)
    if reading and busy:
        batch.narrow(busy_chunk(len(reading)) if lane.apart else BUSY_CHUNK)
    for running in reading:
        if batch.parts and not lane.begins(running):
            break
        batch.add(running, lane.chunk(running))
    return batch


def following(lane: Composing, batch: Batch) -> Batch | None:
    """Return the batch that comes next within a step; None where others may come in, or one is to go."""
    parts = batch.parts
    if len(parts) != len(lane.running) or (batch.read and lane.waiting):  # who may wait for a prompt
        return None
    for running, *_ in parts:
        if running.done or running.job.cancelled or len(running.tokens) != running.n_past + 1:
            return None
    guesses = len(parts) <= drafting.MOST_SAMPLES and any(r.drafter is not None for r, *_ in parts)
    if len(batch.tokens) > len(parts) or (guesses and len(parts) > 1):
        return compose(lane)
    batch.move_on()
    if guesses:
        drafting.draft(lane, batch, parts[0][0])
    return batch


def busy_chunk(waiting: int) -> int:
    """Return how many tokens of so many prompts are read in a turn, before others write on."""
    return BUSY_CHUNK if waiting == 1 else CROWDED_CHUNK


def still_read(running: Running) -> bool:
    """Whether more of its prompt is to be read than the last token, a row like those that are written."""
    return running.n_prompt - running.n_past > 1


def _rows(writing: list[Running], reading: list[Running]) -> int:
    return len(writing) + sum(running.n_prompt - running.n_past for running in reading)
