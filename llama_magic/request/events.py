"""What a source of tokens tells while it writes: tokens, progress, the end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

FinishReason = Literal["stop", "length", "interrupted", "timeout"]
# In a list, what is said of an answer that did not end by itself.
CUT = {"length": "cut", "interrupted": "stopped", "timeout": "out of time"}


class TokenEvent(NamedTuple):
    """One decoded token. `text` is the text it made certain, often empty.

    It was `guessed` before it was drawn, or the guesses that are `struck` stood in its place and behind it.
    """

    sample: int
    token: int
    text: str
    forced: bool = False
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    outside_mass: float | None = None
    guessed: bool = False
    struck: tuple[int, ...] = ()


@dataclass(frozen=True)
class PromptEvent:
    """Progress of prompt reading, in tokens; `cached` of them were reused."""

    done: int
    total: int
    cached: int


@dataclass(frozen=True)
class FinishEvent:
    """The end of one sample. `text` is what was held back; `struck` are guesses that did not come."""

    sample: int
    reason: FinishReason
    text: str = ""
    stop: str | None = None
    struck: tuple[int, ...] = ()


@dataclass(frozen=True)
class EndEvent:
    """The end of the whole request, or the error that ended it; `stats` is the backend's own clock."""

    error: BaseException | None = None
    stats: Stats | None = None


@dataclass(frozen=True)
class KnownEvent:
    """Answers that were written before, one a sample, in place of all other events of the request."""

    answers: tuple[Any, ...]


@dataclass
class Stats:
    """Times of a request, `time.perf_counter()` seconds, and token counts.

    `prompt_tokens` and `completion_tokens` are a server's own counts where what was sent and what came
    are no tokens; 0: count what was sent and what came. `accepted` of the tokens that were `drafted`, guessed
    ahead, came true; `unguessed` says why nothing could be.
    """

    submitted: float = field(default_factory=time.perf_counter)
    started: float = 0.0
    prompt_done: float = 0.0
    first_token: float = 0.0
    last_token: float = 0.0
    ended: float = 0.0
    cached_tokens: int = 0
    generated: int = 0
    drafted: int = 0
    accepted: int = 0
    unguessed: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0


Event = TokenEvent | PromptEvent | FinishEvent | EndEvent | KnownEvent


def nobody(_event: Event) -> None:
    """Take events that come after the end: a source of tokens lets go of who listened."""
