"""How far an experiment is, and how fast."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Standing:
    """How far an experiment is. `rate` is in results a second, `left_s` None where nothing is known of it."""

    done: int
    total: int
    errors: int
    rate: float
    left_s: float | None
    noun: str = "row"


@dataclass
class Clock:
    """When an experiment was at work, and on how much: the pace of this carrying out."""

    began: float = field(default_factory=time.perf_counter)
    done: int = 0

    def pace(self, left: int) -> tuple[float, float | None]:
        """Return results a second, and the seconds that `left` more take."""
        spent = time.perf_counter() - self.began
        rate = self.done / spent if spent > 0 else 0.0
        return rate, left / rate if rate else None
