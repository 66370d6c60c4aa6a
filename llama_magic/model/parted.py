"""Answers under way when a process forks: in the child nobody writes them, so there they end in an error."""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import TYPE_CHECKING

from llama_magic.errors import BackendError
from llama_magic.request.events import EndEvent

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler

_under_way: weakref.WeakSet[Assembler] = weakref.WeakSet()


def know(assembler: Assembler) -> None:
    """Have an answer ended in every child that is forked while it is written."""
    _under_way.add(assembler)


def _after_fork() -> None:
    for assembler in list(_under_way):
        if not assembler.ended.is_set():
            error = BackendError(
                "The process was forked while this answer was written; what writes it stayed in the parent.",
                remedy="Read it there. In the new process load the model and ask again.",
            )
            with contextlib.suppress(Exception):  # of whoever is told: a fork must not fail for it
                assembler(EndEvent(error))
    _under_way.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_after_fork)
