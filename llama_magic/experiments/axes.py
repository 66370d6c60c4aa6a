"""What of an experiment is named afterwards: its axes, and columns of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llama_magic.errors import OptionError
from llama_magic.words.counting import counted
from llama_magic.words.names import meant
from llama_magic.words.plain import alike


def axes_of(settings: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return what was varied, and the values that each had."""
    found: dict[str, list[Any]] = {}
    for setting in settings:
        for name, value in setting.items():
            values = found.setdefault(name, [])
            if not any(alike(value, other) for other in values):
                values.append(value)
    return found


def named_axis(axis: str, axes: Mapping[str, list[Any]]) -> list[Any]:
    """Return the values of an axis. Raises `OptionError`."""
    if axis not in axes:
        known = meant(axis, axes) if axes else "There is no axis at all."
        raise OptionError(f"There is no axis {axis!r}. {known}")
    return axes[axis]


def the_axis(axis: str | None, axes: Mapping[str, list[Any]]) -> str:
    """Return an axis as it is named; where none is, the only one of several values. Raises `OptionError`."""
    if axis is not None:
        return axis
    several = [name for name, values in axes.items() if len(values) > 1]
    if len(several) != 1:
        known = ", ".join(f"{name!r} ({counted(len(values), 'value')})" for name, values in axes.items())
        raise OptionError(
            f"No axis is named, and there are {known or 'none'}.",
            remedy="Name the one whose values are to be compared."
            if several
            else "Vary something: over={…}.",
        )
    return several[0]


def counted_together(results: Any) -> tuple[str, ...]:
    """Say which axes of some results are counted as one, where nothing tells them apart."""
    several = {name: values for name, values in getattr(results, "axes", {}).items() if len(values) > 1}
    if not several:
        return ()
    words = " × ".join(f"{name} ({len(values)})" for name, values in several.items())
    one = ", ".join(f"{name}=…" for name in several)
    return (f"All of {words} are counted together; .where({one}) takes one.",)


def the_column(column: str | None, results: Iterable[Any]) -> str:
    """Return the column that is named of the results' rows. Raises `OptionError`."""
    columns = {name for one in results for name in one.inputs}
    if column is None:
        known = ", ".join(sorted(map(str, columns))) or "none"
        raise OptionError(
            f"No column is named, and the rows have {known}.", remedy="Name the one that holds what is right."
        )
    if column not in columns:
        raise OptionError(f"No row has a column {column!r}. {meant(column, columns)}")
    return column
