"""A Ctrl-C that Python lost is pressed again.

A signal's `KeyboardInterrupt` is raised at any bytecode of the main thread: in a finalizer of whatever
library, too, or in a function that C calls. There Python prints it ("Exception ignored in …"), and the cell
that was to be stopped runs to its end. We have no such places (`llama_magic.weakly`); others do.
"""

from __future__ import annotations

import _thread
import sys
import threading
import time
from typing import Any

_before: list[Any] = []  # the hook that ours took the place of


def install() -> None:
    """Listen to what Python ignores; a second call changes nothing."""
    if sys.unraisablehook is not _hook:
        _before[:] = [sys.unraisablehook]
        sys.unraisablehook = _hook


def uninstall() -> None:
    """Undo `install`, unless somebody else has listened since.

    Ours may have been put back by whoever took its place and went: then Python's own is what was before.
    """
    if sys.unraisablehook is _hook:
        sys.unraisablehook = _before.pop() if _before else sys.__unraisablehook__


def _hook(ignored: Any) -> None:
    if not issubclass(ignored.exc_type, KeyboardInterrupt):
        (_before[0] if _before else sys.__unraisablehook__)(ignored)
    elif threading.current_thread() is threading.main_thread():
        _thread.start_new_thread(_press_again, ())


def _press_again() -> None:
    # The finalizer has returned by then; else it is lost there once more, and pressed again.
    time.sleep(0.005)
    _thread.interrupt_main()
