"""The line that called: names it knows, and the name that what it asked for is to be bound to."""

from __future__ import annotations

import contextvars
import dis
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
_BETWEEN = ("llama_magic.", "contextlib")  # whose frames stand between the caller and here
# Where a line awaits: behind these stands what it does with the result.
_AWAITING = {"SEND", "YIELD_VALUE", "RESUME", "JUMP_BACKWARD_NO_INTERRUPT", "END_SEND"}
_names: contextvars.ContextVar[Mapping[str, Any] | None] = contextvars.ContextVar("names", default=None)
_begun: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar("begun", default=None)


def _caller() -> FrameType:
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_BETWEEN):
        frame = frame.f_back
    return frame


def names_of_caller() -> Mapping[str, Any]:
    """Return the names that the calling line knows: of its function, then of its module or notebook."""
    if (known := _names.get()) is not None:
        return known
    frame = _caller()
    return {**frame.f_globals, **frame.f_locals}


def began(results: Any) -> None:
    """Tell who awaits the call which results are on their way."""
    if (told := _begun.get()) is not None:
        told.append(results)


def from_afar(names: Mapping[str, Any], begun: list[Any], call: Callable[[], T]) -> Callable[[], T]:
    """Return a call for another thread's own context: it knows these names, and puts results into `begun`."""

    def made() -> T:
        _names.set(names)
        _begun.set(begun)
        return call()

    return made


def bind(results: Any) -> str | None:
    """In `runs = lm.map(…)` at a prompt or in a notebook, bind `runs`, though the call is about to raise.

    An exception that ends a call leaves the name on its left unbound, and hours of answers with it. Returns
    the name; None where the caller is no notebook's or module's own line, or assigns nothing.
    """
    frame = _caller()
    if frame.f_globals is not frame.f_locals:  # inside of a function
        return None
    steps = (i for i in dis.get_instructions(frame.f_code) if i.offset > frame.f_lasti)
    coming = (i for i in steps if i.opname not in _AWAITING)
    following = next(coming, None)
    if following is None or following.opname != "STORE_NAME":
        return None
    frame.f_locals[following.argval] = results
    return str(following.argval)
