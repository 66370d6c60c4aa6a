"""The lanes of an engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llama_magic.engine.lanes.lane import Lane
    from llama_magic.engine.lanes.shared import SharedLane


@dataclass
class Lanes:
    """One lane for seeded jobs, `exact`, and one for all others; each None before its first job.

    Iterating gives those that are made. Any thread may do so at any moment.
    """

    shared: SharedLane | None = None
    exact: Lane | None = None

    def __iter__(self) -> Iterator[Lane]:
        shared, exact = self.shared, self.exact
        if shared is not None:
            yield shared
        if exact is not None:
            yield exact

    @property
    def named(self) -> tuple[tuple[str, Lane], ...]:
        """The lanes that are made, each with the name that people see."""
        pairs = (("main", self.shared), ("seeded", self.exact))
        return tuple((name, lane) for name, lane in pairs if lane is not None)

    def clear(self) -> None:
        """Let go of both."""
        self.shared = self.exact = None
