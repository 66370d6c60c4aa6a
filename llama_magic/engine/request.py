"""What the engine is asked for, and the events that come back."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from llama_magic.engine.sampling import Sampling
    from llama_magic.engine.steps import StepTape

FinishReason = Literal["stop", "length", "interrupted"]


class Matcher(Protocol):
    """The seam to constrained decoding: one object per running sequence, used by one thread at a time."""

    def prepare(self) -> None:
        """Compute what `apply` needs; called while the logits are still being computed, or not at all."""

    def apply(self, logits: NDArray[np.float32]) -> None:
        """Set the logits of tokens that may not come next to -inf, in place."""

    def allowed_bits(self) -> NDArray[np.uint8] | None:
        """Return which tokens may come next, one bit a token, the lowest first; None: any."""

    def accept(self, token: int) -> None: ...

    def forced(self) -> list[int]:
        """Return the tokens that must come next, if there is but one way on."""

    @property
    def finished(self) -> bool: ...


@dataclass(frozen=True)
class TokenEvent:
    """One decoded token. `text` is the text it made certain, often empty."""

    sample: int
    token: int
    text: str
    forced: bool = False
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    outside_mass: float | None = None


@dataclass(frozen=True)
class PromptEvent:
    """Progress of prompt reading, in tokens; `cached` of them were reused."""

    done: int
    total: int
    cached: int


@dataclass(frozen=True)
class FinishEvent:
    """The end of one sample. `text` is what was held back until now."""

    sample: int
    reason: FinishReason
    text: str = ""
    stop: str | None = None


@dataclass(frozen=True)
class EndEvent:
    """The end of the whole request, or the error that ended it."""

    error: BaseException | None
    stats: Stats


@dataclass
class Stats:
    """Times of a request, `time.perf_counter()` seconds, and token counts."""

    submitted: float = field(default_factory=time.perf_counter)
    started: float = 0.0
    prompt_done: float = 0.0
    first_token: float = 0.0
    last_token: float = 0.0
    ended: float = 0.0
    cached_tokens: int = 0
    generated: int = 0


Event = TokenEvent | PromptEvent | FinishEvent | EndEvent
_ids = itertools.count(1)


@dataclass(eq=False)
class Request:
    """One call on the engine: a prompt, how to go on from it, and where events go.

    `exact` asks for the same tokens every time (design.md §2): the request then has a stream
    and batches of its own. `sink` is called from the compute thread and must not block.
    `stops` are texts that end the answer, `stop_texts` tokens that do, with how they are written;
    `visible_ids` are control tokens whose text is kept.
    """

    prompt: Sequence[int]
    max_tokens: int
    sampling: Sampling
    seed: int
    sink: Callable[[Event], None]
    exact: bool = False
    n: int = 1
    stops: tuple[str, ...] = ()
    stop_texts: Mapping[int, str] = field(default_factory=dict)
    visible_ids: frozenset[int] = frozenset()
    logprobs: int | None = None
    reuse: bool = True
    ignore_eos: bool = False
    matcher: Callable[[], Matcher] | None = None
    measure_outside: bool = False
    stats: Stats = field(default_factory=Stats)
    id: int = field(default_factory=lambda: next(_ids))
    tapes: tuple[StepTape, ...] = ()  # one a sample, or none to keep nothing
    cancelled: bool = False
    closed: bool = False

    def sample_seed(self, index: int) -> int:
        """Return the seed of sample `index`; sample 0 has the request's own."""
        return (self.seed + index * 0x9E3779B1) % 0xFFFFFFFF

    def finish(self, error: BaseException | None = None) -> None:
        """Send the last event, once."""
        if not self.closed:
            self.closed = True
            self.stats.ended = time.perf_counter()
            self.sink(EndEvent(error, self.stats))
