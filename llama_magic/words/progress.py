"""How far a long job is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
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


class _CallersError(BaseException):
    """Takes an error of the caller's callback past what handles errors of disks, servers and files."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@contextlib.contextmanager
def told(progress: ProgressCallback | None) -> Iterator[ProgressCallback | None]:
    """Give a callback to tell of progress within; what it raises leaves from here as it is."""

    def tell(state: Progress) -> None:
        try:
            progress(state)  # type: ignore[misc]
        except Exception as error:
            raise _CallersError(error) from error

    try:
        yield None if progress is None else tell
    except _CallersError as raised:
        raise raised.error from None
