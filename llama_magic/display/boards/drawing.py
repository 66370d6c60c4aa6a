"""A growing text that is drawn whole: often enough to follow it, and never late by more than one drawing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from llama_magic.threads import Bell, Latch, of_the_cell, set_going

_PERIOD = 1 / 8  # seconds between drawings: each sends the whole view
_SHARE = 10  # it rests this many times as long as it took to draw


T = TypeVar("T")


class DrawingThread(Generic[T]):
    """Calls `draw` with the newest state, on a thread of its own: a pausing stream is drawn to its end."""

    def __init__(self, draw: Callable[[T], None]) -> None:
        self._draw = draw
        self._newest: list[T] = []
        self._news, self._ended = Bell(), Latch()
        self._thread = of_the_cell(self._run, name="llama_magic-pad-drawing")
        set_going(self._thread)

    def show(self, state: T) -> None:
        """Have a state drawn when the last drawing is old enough."""
        self._newest = [state]
        self._news.ring()

    def end(self) -> None:
        """Draw nothing more; return when the last drawing is done."""
        self._ended.set()
        self._news.ring()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            if not self._news.wait(0.2) or self._ended.is_set():
                continue
            began = time.thread_time()
            self._draw(self._newest[0])
            self._ended.wait(max(_PERIOD, _SHARE * (time.thread_time() - began)))
