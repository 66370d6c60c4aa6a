"""A request on its way through the engine: its sink, its clock, its tapes, and whether it is cancelled."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llama_magic.errors import BackendError
from llama_magic.request.events import EndEvent, Event, Stats, nobody
from llama_magic.request.request import Request, sample_seed

if TYPE_CHECKING:
    from llama_magic.engine.steps import StepTape
    from llama_magic.request.matcher import Matcher
    from llama_magic.request.sampling import Sampling


@dataclass(eq=False)
class Job:
    """What the lanes work on. `sink` is called from the compute thread and must not block.

    `exact` asks for the same tokens every time (CONTRIBUTING, "How the engine arranges contexts"): the
    job then goes to the exact lane, and so does a `certain` one where rows are alike. The other fields are
    those of `Request`: which holds the job (`handle`), so that a job that held it would keep both alive until
    the next garbage collection.
    """

    prompt: Sequence[int]
    max_tokens: int
    sampling: Sampling
    seed: int
    sink: Callable[[Event], None]
    exact: bool = False
    certain: bool = False
    n: int = 1
    stops: tuple[str, ...] = ()
    stop_texts: Mapping[int, str] = field(default_factory=dict)
    visible_ids: frozenset[int] = frozenset()
    logprobs: int | None = None
    reuse: bool = True
    keep: bool = True
    ignore_eos: bool = False
    begun: tuple[int, ...] = ()
    matcher: Callable[[], Matcher] | None = None
    measure_outside: bool = False
    speculate: bool = True
    stats: Stats = field(default_factory=Stats)
    found: bool = False  # whether its lane held anything when it began ...
    common: int = 0  # ... and how many tokens of that begin as its prompt; asked only where that tells more
    tapes: tuple[StepTape, ...] = ()  # one a sample, or none to keep nothing
    cancelled: bool = False
    closed: bool = False

    @classmethod
    def of(cls, request: Request, sink: Callable[[Event], None]) -> Job:
        """Return the job that answers `request` with events to `sink`."""
        return cls(
            prompt=request.prompt,
            max_tokens=request.max_tokens,
            sampling=request.sampling,
            seed=request.seed,
            sink=sink,
            exact=request.exact,
            certain=request.certain,
            n=request.n,
            stops=request.stops,
            stop_texts=request.stop_texts,
            visible_ids=request.visible_ids,
            logprobs=request.logprobs,
            reuse=request.reuse,
            keep=request.keep,
            ignore_eos=request.ignore_eos,
            begun=request.begun,
            matcher=None if request.constraint is None else request.constraint.start,
            measure_outside=request.measure_outside,
            speculate=request.speculate,
        )

    def sample_seed(self, index: int) -> int:
        """Return the seed of sample `index`; sample 0 has the request's own."""
        return sample_seed(self.seed, index)

    def finish(self, error: BaseException | None = None) -> None:
        """Send the last event, once."""
        if not self.closed:
            self.closed = True
            self.stats.ended = time.perf_counter()
            sink, self.sink = self.sink, nobody  # who listened is not kept alive by what was answered
            sink(EndEvent(_named(error), self.stats))


def _named(error: BaseException | None) -> BaseException | None:
    """Say in the one tree that memory ran out; whatever else fails here is a fault of ours, and named so."""
    if not isinstance(error, MemoryError):
        return error
    named = BackendError(
        f"The memory of this process ran out while the answer was written ({error or 'Python'}).",
        remedy="Free some, ask for fewer samples (-N), or load with a smaller window (--ctx).",
    )
    named.__cause__ = error
    return named
