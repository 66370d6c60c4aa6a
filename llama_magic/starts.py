"""Every thread of ours begins here: with room for C on its stack, or an error that says what is short."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from llama_magic.errors import BackendError

T = TypeVar("T")

STACK = 2**23  # bytes, as Linux gives by default; llama.cpp ends the process where it has less than 96 kB
_sizes = threading.RLock()  # while the size of stacks, one for the process, is not the user's
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_sizes._at_fork_reinit)  # type: ignore[attr-defined]


def launch(start: Callable[..., T], *given: Any, stack: int = STACK) -> T:
    """Call what starts a thread, with such a stack where `threading.stack_size` was set to less.

    Raises `BackendError` where no thread can be started.
    """
    if sys.is_finalizing():  # in a `__del__`: it would be started, and never run
        raise none_left()
    try:
        # Not for ever: a signal handler may have come into threading's own locks, which another start needs.
        _sizes.acquire(timeout=5)
        asked = threading.stack_size(stack)  # it can only be read by setting it
        if asked > stack or (asked == 0 and stack == STACK):  # 0: the system's own
            threading.stack_size(asked)
        try:
            return start(*given)
        finally:
            threading.stack_size(asked)
    except RuntimeError:
        raise none_left() from None
    finally:
        if _sizes._is_owned():  # type: ignore[attr-defined]
            _sizes.release()


def none_left() -> BackendError:
    """Return the error for a thread that could not be started."""
    return BackendError(
        f"This process can start no further thread ({os.strerror(errno.EAGAIN).lower()}).",
        remedy="Close kernels and programs that hold many threads, or raise what limits them: `ulimit -u`, "
        "the number of processes of a container, memory for stacks.",
    )
