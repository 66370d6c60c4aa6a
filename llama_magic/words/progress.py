"""How far a long job is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Progress:
    """How far a long job is. `total` is None where the length is not known; speeds are per second."""

    stage: Literal["resolve", "download", "verify", "check", "load", "prompt", "measure"]
    done: int
    total: int | None
    label: str = ""
    unit: Literal["B", "tokens", "%"] = "B"
    resumed_from: int = 0
    speed: float | None = None
    eta_s: float | None = None


ProgressCallback = Callable[[Progress], None]
