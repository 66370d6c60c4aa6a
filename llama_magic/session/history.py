"""What was generated in this kernel, as `%llama history` lists it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from llama_magic.model.results import Completion
from llama_magic.request.events import FinishReason

_numbers = itertools.count(1)


@dataclass(frozen=True)
class HistoryEntry:
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
