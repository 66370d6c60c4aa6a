"""What a model has done since it was loaded, in numbers: `model.stats`."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from llama_magic.model.results import Timings
from llama_magic.words.shown import Printed

if TYPE_CHECKING:
    from llama_magic.request.events import Stats

_KEPT = 1000  # of the latest requests, for quantiles


class ModelStats(Printed):
    """Counts and times of every request to a model, from cells, Python and a server alike. All are totals.

    `requests` have ended; of these `errors` failed, `interrupted` were stopped and `timeouts` were out of
    time. `prompt_tokens` of which `cached_tokens` were reused; `completion_tokens`; `drafted_tokens` were
    guessed ahead, of which `accepted_tokens` came. `reading_s` and `writing_s` are seconds that prompts and
    answers took, each for itself: of requests that were decoded together they overlap.
    `waits`, `firsts` are seconds, of the latest 1,000, until it was begun and from there to the first token.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._lock = threading.Lock()
        self.reset()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def reset(self) -> None:
        """Begin to count anew."""
        self.requests = self.errors = self.interrupted = self.timeouts = 0
        self.prompt_tokens = self.cached_tokens = self.completion_tokens = 0
        self.drafted_tokens = self.accepted_tokens = 0
        self.reading_s = self.writing_s = 0.0
        self.waits: deque[float] = deque(maxlen=_KEPT)
        self.firsts: deque[float] = deque(maxlen=_KEPT)

    def add(
        self, stats: Stats, prompt_tokens: int, tokens: int, ends: Collection[str], *, failed: bool
    ) -> None:
        """Count a request that has ended; `ends` are the finish reasons of its samples."""
        with self._lock:
            self.requests += 1
            self.errors += failed
            self.interrupted += "interrupted" in ends
            self.timeouts += "timeout" in ends
            self.completion_tokens += tokens
            self.drafted_tokens += stats.drafted
            self.accepted_tokens += stats.accepted
            if stats.started:
                self.prompt_tokens += prompt_tokens
                self.cached_tokens += stats.cached_tokens
                self.waits.append(max(0.0, stats.started - stats.submitted))
            if stats.prompt_done:
                self.reading_s += max(0.0, stats.prompt_done - stats.started)
            if stats.first_token:
                self.firsts.append(max(0.0, stats.first_token - stats.started))
                self.writing_s += max(0.0, stats.last_token - stats.first_token)

    @property
    def read_per_second(self) -> float | None:
        """Prompt tokens a second, those reused left out; None before any was read."""
        return (self.prompt_tokens - self.cached_tokens) / self.reading_s if self.reading_s else None

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens a second that one answer was written with, on average; None before any was."""
        return self.completion_tokens / self.writing_s if self.writing_s else None

    def wait(self, share: float) -> float | None:
        """Return the seconds within which a share (0.5, 0.95) of the latest requests was begun."""
        return quantile(self.waits, share)

    def first_token(self, share: float) -> float | None:
        """Return the seconds within which a share of the latest requests had its first token."""
        return quantile(self.firsts, share)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON-ready data."""
        return {
            "requests": self.requests,
            "errors": self.errors,
            "interrupted": self.interrupted,
            "timeouts": self.timeouts,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "completion_tokens": self.completion_tokens,
            "drafted_tokens": self.drafted_tokens,
            "accepted_tokens": self.accepted_tokens,
            "read_per_second": self.read_per_second,
            "tokens_per_second": self.tokens_per_second,
            "wait_p50_s": self.wait(0.5),
            "wait_p95_s": self.wait(0.95),
            "first_token_p50_s": self.first_token(0.5),
            "first_token_p95_s": self.first_token(0.95),
        }

    def __repr__(self) -> str:
        return f"<ModelStats of {self.name!r}: {self.requests} requests, {self.completion_tokens} tokens>"


def quantile(values: Sequence[float] | deque[float], share: float) -> float | None:
    """Return the smallest of `values` that a share of them does not exceed, None of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)] if ordered else None


def timings_of(stats: Stats, load_s: float, drawn: int) -> Timings:
    """Return the times of an answer of which `drawn` tokens were drawn."""
    writing = stats.last_token - stats.first_token
    ended = stats.ended or stats.last_token
    began = stats.started or ended
    return Timings(
        load_s=load_s,
        prompt_s=max(0.0, (stats.prompt_done or stats.ended) - (stats.started or stats.ended)),
        first_token_s=max(0.0, stats.first_token - began) if stats.first_token else 0.0,
        total_s=max(0.0, ended - began),
        tokens_per_second=(drawn - 1) / writing if writing > 0 and drawn > 1 else 0.0,
        waiting_s=max(0.0, began - stats.submitted),
    )
