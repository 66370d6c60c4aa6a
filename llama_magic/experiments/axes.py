"""What of an experiment is named afterwards: its axes, and columns of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from llama_magic.errors import OptionError
from llama_magic.experiments.comparing import hashable
from llama_magic.model.gaps import is_gap
from llama_magic.words.counting import counted
from llama_magic.words.names import meant
from llama_magic.words.plain import alike

_SOME = 10  # values that an error lists


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


def value_of(name: str, axes: Mapping[str, Any], results: Sequence[Any]) -> Callable[[Any], Any]:
    """Return what gives a result's value of an axis, or else of a column of the rows; a gap is None.

    Raises `OptionError` for what is neither, where there is a result at all.
    """
    if name in axes:
        return lambda one: one.settings[name]
    columns = columns_of(results)
    if name not in columns and len(results):
        raise OptionError(f"There is no axis {name!r}, and no column. {meant(name, {*axes, *columns})}")
    return lambda one: None if is_gap(value := one.inputs.get(name)) else value


def columns_of(results: Iterable[Any]) -> dict[str, None]:
    """Return the columns of the results' rows, in order."""
    return dict.fromkeys(name for one in results for name in one.inputs)


def having(
    name: str, wanted: Any, axes: Mapping[str, list[Any]], results: Sequence[Any], *, whole: bool
) -> Callable[[Any], bool]:
    """Return what says whether a result has a value of an axis, or else of a column.

    Raises `OptionError` for a value that no result has, where another is meant: of an axis always, of a
    column where the results are a `whole`. A part may well be without it.
    """
    read = value_of(name, axes, results)
    known = axes[name] if name in axes else list({hashable(v): v for v in map(read, results)}.values())
    wanted = None if is_gap(wanted) and name not in axes else wanted
    if (whole or name in axes) and not any(alike(wanted, value) for value in known):
        near = meant(wanted, map(str, known)) if isinstance(wanted, str) else f"It has {_some(known)}."
        kind = "axis" if name in axes else "column"
        raise OptionError(f"The {kind} {name!r} has no value {wanted!r}. {near}")
    return lambda one: alike(read(one), wanted)


def _some(values: Sequence[Any]) -> str:
    more = f" and {len(values) - _SOME:,} others" if len(values) > _SOME else ""
    return f"{list(values[:_SOME])}{more}"


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
    columns = columns_of(results)
    if column is None:
        known = ", ".join(sorted(map(str, columns))) or "none"
        raise OptionError(
            f"No column is named, and the rows have {known}.", remedy="Name the one that holds what is right."
        )
    if column not in columns:
        raise OptionError(f"No row has a column {column!r}. {meant(column, columns)}")
    return column
