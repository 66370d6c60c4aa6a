"""What goes into one decode: the next tokens of several samples, as the columns that llama.cpp takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llama_magic.engine.job import Job
    from llama_magic.engine.lanes.running import Running
    from llama_magic.request.matcher import Matcher


class Batch:
    """At most `room` tokens. `parts` are the samples, each with its tokens and guesses behind them.

    `outputs` are the places whose logits are wanted: the last token of each sample that is through,
    and guesses. `matchers` are those of the samples that a token is drawn for after this batch; `jobs` those
    whose samples are in it.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.parts: list[tuple[Running, list[int], list[int]]] = []
        self.tokens: list[int] = []
        self.positions: list[int] = []
        self.sequences: list[int] = []
        self.outputs: list[int] = []
        self.matchers: list[Matcher] = []
        self.jobs: set[Job] = set()
        self.read = False  # whether tokens of a prompt were in it

    def narrow(self, room: int) -> None:
        """Let no more than `room` further tokens in."""
        self.room = min(self.room, room)

    def add(self, running: Running, limit: int) -> None:
        """Add the next tokens of a sample, as many as there is room for, and `limit` at most."""
        limit = min(limit, self.room)
        if not limit:
            return
        slot = running.slot
        assert slot is not None
        past = len(slot.tokens)
        part = running.tokens[past : past + limit]
        self.parts.append((running, part, []))
        self.jobs.add(running.job)
        self.tokens += part
        self.positions += range(past, past + len(part))
        self.sequences += [slot.sequence] * len(part)
        self.room -= len(part)
        if past + len(part) == len(running.tokens):
            self.outputs.append(len(self.tokens) - 1)
            if running.matcher is not None:
                self.matchers.append(running.matcher)

    def move_on(self) -> None:
        """Become the batch of the tokens that were drawn from this one, of which each sample had one."""
        for i, (running, part, _) in enumerate(self.parts):
            self.positions[i] = past = self.positions[i] + 1
            part[0] = self.tokens[i] = running.tokens[past]
        self.read = False

    def draft(self, guesses: Sequence[int]) -> None:
        """Add tokens that may come next, behind those of the sample that was added last."""
        first = self.positions[-1] + 1
        self.parts[-1][2].extend(guesses)
        self.tokens += guesses
        self.positions += range(first, first + len(guesses))
        self.sequences += [self.sequences[-1]] * len(guesses)
        self.outputs += range(len(self.tokens) - len(guesses), len(self.tokens))
        self.room -= len(guesses)
