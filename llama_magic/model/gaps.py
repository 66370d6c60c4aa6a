"""Gaps of a table (None, NaN, NaT, NA): no prompt may hold one as the word "None" or "nan"."""

from __future__ import annotations

import numbers
from collections.abc import Container
from typing import Any

GAP_WITHIN = "Fill the column, or say what to put there: {{ x.date() if x else 'none' }}. "
_NAMED = "Fill the column, or say what to put there: "


class GapError(Exception):
    """An expression makes a text of a gap; `remedy` says what to write."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


def is_gap(value: Any) -> bool:
    """Tell None, NaN, and pandas' NA and NaT: no value at all."""
    if isinstance(value, numbers.Real):
        return bool(value != value)  # noqa: PLR0124 - NaN alone is not itself
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def whole(source: str, value: Any, columns: Container[str]) -> None:
    """Raise `GapError` where an expression is a gap as a whole."""
    if not is_gap(value):
        return
    remedy = f"{_NAMED}{{{{ {source if source.isidentifier() else f'({source})'} or 'none' }}}}."
    if source in columns and not source.isidentifier():
        remedy = "Fill the column, or rename it: {{ name or 'none' }} takes names without blanks and signs."
    raise GapError(f"the value is {value}", remedy)


def written(value: Any, name: str) -> Any:
    """Return what a filter, `~` or `%` is to make a text of. Raises `GapError` for a gap.

    `name` is what the expression calls it, "" where that is no name.
    """
    if not is_gap(value):
        return value
    name = name or "x"
    raise GapError(f"it makes a text or number of {value}", f"{_NAMED}({name} or 'none') in place of {name}.")


def left_alone(value: Any, _name: str) -> Any:
    """Return what is to be made a text of, where a gap is a word as another."""
    return value
