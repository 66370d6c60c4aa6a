"""What this process has generated, told to whoever listens: a session's history, a record."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from llama_magic.model.results import Completion
from llama_magic.weakly import WeakMethods

Listener = Callable[..., Any]  # takes the answers of one call
KEPT = 1000


class Journal:
    """The last generations of a process, in the order in which they ended, and its listeners.

    A listener is a bound method; it is held weakly and called with the answers of one call, on the thread
    that took them.
    """

    def __init__(self) -> None:
        self._kept: deque[Completion] = deque(maxlen=KEPT)
        self._listeners = WeakMethods()

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Completion]:
        return iter(list(self._kept))  # of one moment: other threads add meanwhile

    def add(self, *made: Completion) -> None:
        """Tell of one call that has ended: its answer, or those of all its samples."""
        self._kept.extend(made)
        self._listeners.call(*made)

    def listen(self, listener: Listener, *, earlier: bool = True) -> None:
        """Call a bound method with every generation: those kept now (`earlier`), then each as it ends."""
        if earlier:
            listener(*self)
        self._listeners.add(listener)

    def clear(self) -> None:
        """Forget what was generated; listeners stay."""
        self._kept.clear()


journal = Journal()
