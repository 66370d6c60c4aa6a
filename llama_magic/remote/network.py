"""One thread for all streams of all servers: an event loop, on which a request is a task."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from llama_magic.threads import Latch, at_fork, module_lock, start_thread

_lock = module_lock()
_loop: asyncio.AbstractEventLoop | None = None


def _forget() -> None:
    global _loop
    _loop = None


at_fork(_forget)


def loop() -> asyncio.AbstractEventLoop:
    """Return the event loop, which runs on a thread of its own from the first call on."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            ready = Latch()
            start_thread(lambda: _run(ready), "llama_magic network")
            ready.wait_long()
        return _loop


def _run(ready: Latch) -> None:
    running = _loop
    assert running is not None  # made by the caller
    asyncio.set_event_loop(running)
    running.call_soon(ready.set)
    running.run_forever()


def is_here() -> bool:
    """Whether this is the network's thread."""
    with contextlib.suppress(RuntimeError):
        return asyncio.get_running_loop() is _loop
    return False


def soon(call: Callable[..., Any], *given: Any) -> None:
    """Have something called on the network's thread. Takes no lock, so a finalizer may ask for it."""
    running = _loop
    if running is not None:
        with contextlib.suppress(RuntimeError):  # the interpreter is ending
            running.call_soon_threadsafe(call, *given)
