"""Answers under way when a process forks: in the child nobody writes them, so there they end in an error."""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING

from llama_magic.errors import BackendError
from llama_magic.request.events import EndEvent
from llama_magic.threads import at_fork

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler

_under_way: list[weakref.ref[Assembler]] = []  # a WeakSet would run Python where one goes, see `weakly`


def know(assembler: Assembler) -> None:
    """Have an answer ended in every child that is forked while it is written."""
    for held in list(_under_way):
        known = held()
        if known is None or known.ended.is_set():
            with contextlib.suppress(ValueError):  # another thread was faster
                _under_way.remove(held)
    _under_way.append(weakref.ref(assembler))


def _after_fork() -> None:
    for held in _under_way:
        assembler = held()
        if assembler is not None and not assembler.ended.is_set():
            error = BackendError(
                "The process was forked while this answer was written; what writes it stayed in the parent.",
                remedy="Read it there. In the new process load the model and ask again.",
            )
            with contextlib.suppress(Exception):  # of whoever is told: a fork must not fail for it
                assembler(EndEvent(error))
    _under_way.clear()


at_fork(_after_fork)
