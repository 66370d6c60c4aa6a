"""Waits that end by what is waited for; only what never comes is given up, and turns a test red."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

WATCHDOG = 120.0  # seconds, beside twenty other programs too


def until(true: Callable[[], Any]) -> None:
    """Wait until something holds, which it does at once on an idle machine."""
    give_up = time.monotonic() + WATCHDOG
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.005)


def joined(*threads: threading.Thread) -> None:
    """Wait for threads to end."""
    for thread in threads:
        thread.join(WATCHDOG)
        assert not thread.is_alive(), thread


def boards_rest() -> None:
    """Wait for the threads of pads and pens, and what waits for a rest; for those that they begin, too."""
    names = ("llama_magic-pad", "llama_magic-pen")
    while found := [
        one for one in threading.enumerate() if one.name in names or isinstance(one, threading.Timer)
    ]:
        joined(*found)
