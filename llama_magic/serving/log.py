"""A row a request: who asked what of which model, how it went, how it ended."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

KEPT = 200


@dataclass(eq=False)
class LoggedRequest:
    """One request. Times are seconds of `time.monotonic()`, 0 where that is yet to come."""

    number: int
    client: str
    path: str
    model: str = ""
    user: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    written: int = 0  # tokens
    ended: str = ""  # "stop", "length", "tool_calls", "disconnected", or a status such as "400"
    came: float = field(default_factory=time.monotonic)
    began: float = 0.0
    first: float = 0.0
    last: float = 0.0
    done: float = 0.0

    @property
    def state(self) -> str:
        """How it ended, or what is being done for it."""
        if self.ended:
            return self.ended
        return "writing" if self.first else "reading" if self.began else "waiting"

    @property
    def tokens_per_second(self) -> float | None:
        """The speed of the tokens after the first, None where there is none after it."""
        spent = self.last - self.first
        return (self.written - 1) / spent if self.written > 1 and spent > 0 else None

    @property
    def seconds(self) -> float:
        """How long it took, or takes so far."""
        return (self.done or time.monotonic()) - self.came


class Log:
    """The latest requests, oldest first, and who is told when one changes. Any thread may look."""

    def __init__(self, kept: int = KEPT) -> None:
        self._rows: deque[LoggedRequest] = deque(maxlen=kept)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self.changed: Callable[[], None] = lambda: None  # cheap, and called from the server's loop

    def begin(self, client: str, path: str) -> LoggedRequest:
        """Add a row."""
        row = LoggedRequest(next(self._numbers), client, path)
        with self._lock:
            self._rows.append(row)
        self.changed()
        return row

    def refused(self, client: Sequence[Any] | None, path: str, status: int) -> None:
        """Add the row of a request that nothing was done for: of another path, without the key."""
        self.end(self.begin(client[0] if client else "", path[:200]), str(status))

    def end(self, row: LoggedRequest, how: str) -> None:
        """Say how a request ended, once."""
        if not row.ended:
            row.ended, row.done = how, time.monotonic()
            self.changed()

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[LoggedRequest]:
        with self._lock:
            rows = list(self._rows)
        return iter(rows)
