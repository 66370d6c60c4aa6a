"""What this process has generated, told to whoever listens: a session's history, a record."""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from llama_magic.model.results import Completion

Listener = Callable[[Completion], Any]
KEPT = 1000


class Journal:
    """The last generations of a process, in the order in which they ended, and its listeners.

    A listener is a bound method; it is held weakly and called on the thread that took the answer.
    One that comes late is told what was generated before it.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._kept: deque[Completion] = deque(maxlen=kept)
        self._listeners: list[weakref.WeakMethod[Any]] = []

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Completion]:
        return iter(list(self._kept))  # of one moment: other threads add meanwhile

    def add(self, completion: Completion) -> None:
        """Tell of one generation that has ended."""
        self._kept.append(completion)
        for held in list(self._listeners):
            listener = held()
            if listener is None:
                with contextlib.suppress(ValueError):  # another thread took it out
                    self._listeners.remove(held)
            else:
                listener(completion)

    def listen(self, listener: Listener) -> None:
        """Call a bound method with every generation: those that are kept now, then each as it ends."""
        for completion in self:
            listener(completion)
        self._listeners.append(weakref.WeakMethod(listener))

    def clear(self) -> None:
        """Forget what was generated; listeners stay."""
        self._kept.clear()


journal = Journal()
