"""Values of the user as plain data and words, whatever their methods do: answers are shown all the same."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

_DEEP = 60  # values in one another; what holds itself has no end
_ITEMS = 1000  # of an array, above which it is named and not listed
_BITS = 10_000  # of a whole number; Python itself writes no more than 4,300 digits


def plain(value: Any, mode: str = "python", depth: int = 0) -> Any:
    """Return models of pydantic, dataclasses, enumerations, arrays and containers as dicts, lists and values.

    `mode` "json": what pydantic makes of its own types is JSON. Never raises.
    """
    if value is None or isinstance(value, (str, bool, int, float, type)):
        return value.value if isinstance(value, enum.Enum) else value
    if depth > _DEEP:
        return said(value)
    inner = _inner(value, mode)
    if isinstance(inner, Mapping):
        return {_key(key): plain(item, mode, depth + 1) for key, item in inner.items()}
    if isinstance(inner, (list, tuple, set, frozenset)):
        return [plain(item, mode, depth + 1) for item in inner]
    return inner if inner is value else plain(inner, mode, depth + 1)


def said(value: Any) -> str:
    """Return a value in its own words; what it is where it has none."""
    if isinstance(value, int) and value.bit_length() > _BITS:
        return f"a whole number of {value.bit_length():,} bits"
    try:
        return value.__name__ if isinstance(value, type) else str(value)
    except Exception:  # of the user's own class
        return f"<{type(value).__name__}>"


def alike(left: Any, right: Any) -> bool:
    """Say whether two values are equal; what cannot be compared is alike if it is one object."""
    if left is right:
        return True
    try:
        return bool(left == right)
    except Exception:  # of arrays with several elements, and of the user's own classes
        return False


def _inner(value: Any, mode: str) -> Any:
    """What a value holds, one level deep; itself where it is as plain as it gets."""
    try:
        if isinstance(value, enum.Enum):
            return value.value
        if hasattr(type(value), "model_dump"):
            return _dumped(value, mode)
        if dataclasses.is_dataclass(value):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if hasattr(type(value), "tolist"):  # of NumPy and pandas: a scalar, an array
            return value.tolist() if getattr(value, "size", 1) <= _ITEMS else said(value)
    except Exception:  # of the user's own class
        return said(value)
    return value


def _key(key: Any) -> Any:
    return key if key is None or isinstance(key, (str, int, float)) else said(key)


def _dumped(value: Any, mode: str) -> Any:
    try:
        return value.model_dump(mode=mode)
    except Exception:  # a serializer or a computed field of the user's raised
        return dict(value.__dict__)
