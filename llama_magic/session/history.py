"""What was generated in this kernel, as `%llama history` lists it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from llama_magic.model.results import Completion
from llama_magic.request.events import FinishReason
from llama_magic.words.shown import Shown
from llama_magic.words.tables import Table, brief

_numbers = itertools.count(1)


@dataclass(frozen=True)
class HistoryEntry(Shown):
    """One generation of this kernel, as `%llama history` lists it."""

    completion: Completion
    number: int = field(default_factory=lambda: next(_numbers))

    @property
    def ended(self) -> FinishReason | None:
        """Why the answer ended; None for a single step that was asked for (`xray`), unless interrupted."""
        reason = self.completion.finish_reason
        return None if self.completion.mode == "xray" and reason != "interrupted" else reason

    @property
    def tokens_per_second(self) -> float | None:
        """The speed of the tokens after the first; None where there is none after it."""
        found = self.completion
        return found.timings.tokens_per_second if found.usage.completion_tokens > 1 else None


def table(entries: Sequence[HistoryEntry]) -> Table:
    """List generations: number, mode, model, prompt, answer, tokens, seed, seconds, speed."""
    headers = ("#", "mode", "model", "prompt", "answer", "tokens", "ended", "seed", "seconds", "tok/s")
    rows = []
    for entry in entries:
        r = entry.completion
        answer = (brief(r.question), brief(r.text), r.usage.completion_tokens, entry.ended or "", str(r.seed))
        speed = entry.tokens_per_second
        times = (round(r.timings.total_s, 2), None if speed is None else round(speed, 1))
        rows.append((entry.number, r.mode, r.model, *answer, *times))
    return Table(headers, tuple(rows), empty="No generation yet in this kernel.")
