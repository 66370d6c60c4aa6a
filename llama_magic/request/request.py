"""A call on a source of tokens: a prompt, how to go on from it, and where events go."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llama_magic.request.events import EndEvent, Event, Stats

if TYPE_CHECKING:
    from llama_magic.engine.steps import StepTape
    from llama_magic.request.matcher import Matcher
    from llama_magic.request.sampling import Sampling

_ids = itertools.count(1)


@dataclass(eq=False)
class Request:
    """One call on the engine: a prompt, how to go on from it, and where events go.

    `exact` asks for the same tokens every time (design.md §2): the request then has a stream
    and batches of its own. `sink` is called from the engine thread and must not block.
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
