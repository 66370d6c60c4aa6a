"""What a caller gave, as Python's own: whole numbers, flags, seconds; NumPy's too. An array is none."""

from __future__ import annotations

import functools
import numbers
import operator
import types
from collections.abc import Iterable, Sized
from itertools import islice
from typing import Any, TypeVar

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.words.plain import said

T = TypeVar("T")
MOST = 1_000_000  # items of an iterator: one without an end would take all memory
_LONGEST = 1_000_000  # seconds; what a lock can wait is bounded


def is_function(given: object) -> bool:
    """Tell whether something is given to be called: no class, no type (some could be), no list of values."""
    of_types = type(given).__module__ in ("typing", "typing_extensions", "types")
    plain = isinstance(given, (types.FunctionType, types.MethodType, functools.partial))
    return plain or (callable(given) and not of_types and not isinstance(given, (type, Iterable)))


def whole(value: Any) -> int | None:
    """Return a whole number as Python's own; None of anything else, True among it."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def utf8(text: str, what: str = "The text") -> bytes:
    """Return a text as UTF-8. Raises `InputTypeError` for half of a surrogate pair, which UTF-8 has not."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputTypeError(
            f"{what} holds a lone surrogate (U+{ord(text[error.start]):04X}), character {error.start}; "
            "expected text that can be written as UTF-8."
        ) from None


def quoted(value: Any) -> str:
    """Return a value as a message shows it: `repr`, of bounded length, whatever the value's own does."""
    try:
        text = repr(value)
    except Exception:  # of the user's own class, or of a whole number of more digits than Python writes
        text = said(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def whole_number(name: str, value: Any, of: str = "") -> int:
    """Return a whole number as Python's own. Raises `InputTypeError` for anything else; `of` says of what."""
    number = whole(value)
    if number is None:
        raise InputTypeError(f"{name} is {quoted(value)}; expected a whole number{of}.")
    return number


def at_least(least: int, name: str, value: Any, of: str = "") -> int:
    """Return a whole number that is no smaller than `least`. Raises `OptionError` for anything else."""
    number = whole(value)
    if number is None or number < least:
        raise OptionError(f"{name} is {quoted(value)}; expected a whole number{of}, {least} or more.")
    return number


def items_of(what: str, values: Iterable[T]) -> list[T]:
    """Return what an iterable holds. Raises `OptionError` for an iterator of very many, maybe without end."""
    if isinstance(values, Sized):
        return list(values)
    found = list(islice(values, MOST + 1))
    if len(found) > MOST:
        raise OptionError(
            f"{what} are an iterator of more than {MOST:,}, if it ends at all.",
            remedy="Give a list, or fewer at a time: list(itertools.islice(…, 1000)).",
        )
    return found


def check_progress(value: Any) -> None:
    """Raise `InputTypeError` for what says nothing of how progress is shown. None is as True."""
    if not (value is None or isinstance(value, bool) or callable(value)):
        raise InputTypeError(f"progress is {quoted(value)}; expected True, False, or a function.")


def flag(name: str, value: Any) -> bool:
    """Return what is true or false: a bool, 0, 1 or None. Raises `InputTypeError` for anything else."""
    scalar = getattr(value, "ndim", None) == 0 and hasattr(value, "item")
    plain = value.item() if scalar else value
    if plain is not None and not (isinstance(plain, int) and plain in (0, 1)):
        raise InputTypeError(f"{name} is of type {type(value).__name__}; expected True or False.")
    return bool(plain)


def seconds_of(timeout: Any) -> float | None:
    """Return a `timeout` as seconds, None of None. Raises `InputTypeError` and `OptionError`."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, numbers.Real):
        raise InputTypeError(f"timeout is {quoted(timeout)}; expected seconds, a number.")
    given: Any = timeout  # a number: a whole one may be too large for a float
    if not 0 < given <= _LONGEST:
        raise OptionError(
            f"timeout is {quoted(timeout)}; expected seconds: more than 0, {_LONGEST:,} at most."
        )
    return float(timeout)
