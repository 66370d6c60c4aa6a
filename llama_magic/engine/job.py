"""A request on its way through the engine: its sink, its clock, its tapes, and whether it is cancelled."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from llama_magic.doors import option
from llama_magic.errors import BackendError
from llama_magic.request.events import EndEvent, Event, Stats, nobody
from llama_magic.request.request import Request

if TYPE_CHECKING:
    from llama_magic.engine.steps import StepTape


@dataclass(eq=False)
class Job:
    """What the lanes work on. `sink` is called from the compute thread and must not block.

    `request` is a copy of what was asked, without its `handle`: a job that held its own holder would keep
    both alive until the next garbage collection. One that asks for the same tokens every time (`exact`, or
    `certain` where rows are alike) goes to the exact lane (CONTRIBUTING, "How the engine arranges contexts").
    """

    request: Request
    sink: Callable[[Event], None]
    stats: Stats = field(default_factory=Stats)
    found: bool = False  # whether its lane held anything when it began ...
    common: int = 0  # ... and how many tokens of that begin as its prompt; asked only where that tells more
    tapes: tuple[StepTape, ...] = ()  # one a sample, or none to keep nothing
    cancelled: bool = False
    closed: bool = False

    @classmethod
    def of(cls, request: Request, sink: Callable[[Event], None]) -> Job:
        """Return the job that answers `request` with events to `sink`."""
        return cls(replace(request, handle=None), sink)

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
        remedy=f"Free some, ask for fewer samples ({option('n')}), or load with a smaller {option('ctx')}.",
    )
    named.__cause__ = error
    return named
