"""What is done once changes rest: typed text is counted when the keys are left alone, not at each of them."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

_AFTER = 0.15  # seconds


class Rest:
    """Calls `act` after a rest; each change restarts the clock."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act
        self._timer: threading.Timer | None = None

    def changed(self, change: Any = None) -> None:
        """Begin to wait, or again: what a widget's `observe` calls."""
        if self._timer is not None:
            self._timer.cancel()
        # In the caller's context: ipykernel finds the cell that messages belong to by it.
        self._timer = threading.Timer(_AFTER, contextvars.copy_context().run, (self._act,))
        self._timer.daemon = True
        self._timer.start()
