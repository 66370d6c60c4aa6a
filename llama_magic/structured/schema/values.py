"""JSON values as a schema means them: their types, and when two are one value."""

from __future__ import annotations

from typing import Any


def kind(value: Any) -> str:
    """Return the JSON type of a value, "number" for whole ones too."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for name, types in (
        ("number", (int, float)),
        ("string", str),
        ("array", (list, tuple)),
        ("object", dict),
    ):
        if isinstance(value, types):
            return name
    return "unknown"


def is_number(value: Any) -> bool:
    """Say whether a value is a number; draft 4 has switches in places of some."""
    return kind(value) == "number"


def same_value(left: Any, right: Any) -> bool:
    """Say whether two JSON values are equal: 1 and 1.0 are, 1 and true are not, at any depth."""
    if kind(left) != kind(right):
        return False
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same_value, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same_value(left[key], right[key]) for key in left)
    return bool(left == right)
