"""What is written of days, times and durations with bounds, of which pydantic's JSON schema says nothing.

Each takes a core schema and returns a pattern, or None where nothing is bounded. What is *taken* as an
answer is not limited by it. "In the past" and "in the future" are of the day on which the schema is compiled.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from llama_magic.structured.schema import spans

_DAY, _SECOND = dt.timedelta(days=1), dt.timedelta(seconds=1)
_FIRST, _LAST = dt.date(1000, 1, 1), dt.date(2999, 12, 31)  # years as one writes them
_BOUNDS = frozenset(("ge", "gt", "le", "lt"))


def day(schema: Any) -> str | None:
    """Return a pattern for a day within its bounds."""
    schema = _dated(schema, lambda day: day)
    if _BOUNDS.isdisjoint(schema):
        return None
    low, high = _FIRST, _LAST
    bounds = {name: schema[name] for name in _BOUNDS & set(schema)}
    lows = [_later(value, _DAY * (name == "gt")) for name, value in bounds.items() if name[0] == "g"]
    highs = [_later(value, -_DAY * (name == "lt")) for name, value in bounds.items() if name[0] == "l"]
    low, high = max(lows, default=low), min(highs, default=high)
    low, high = _widened(schema, low, high, dt.date)
    return spans.days(low, high) if low <= high else None


def moment(schema: Any) -> str | None:
    """Return a pattern for a day and time within its bounds, to the second; in UTC if these have a zone."""
    schema = _dated(schema, lambda day: dt.datetime.combine(day, dt.time.min))
    bounds = {name: schema[name] for name in _BOUNDS & set(schema)}
    if not bounds:
        return None
    aware = {value.tzinfo is not None for value in bounds.values()}
    if len(aware) > 1:
        return None
    if aware == {True}:
        bounds = {name: value.astimezone(dt.UTC).replace(tzinfo=None) for name, value in bounds.items()}
    low, high = dt.datetime.combine(_FIRST, dt.time.min), dt.datetime.combine(_LAST, dt.time.max)
    low = max((_up(value, name == "gt") for name, value in bounds.items() if name[0] == "g"), default=low)
    high = min((_down(value, name == "lt") for name, value in bounds.items() if name[0] == "l"), default=high)
    low, high = _widened(schema, low, high, dt.datetime)
    return spans.moments(low, high.replace(microsecond=0)) + _zone(schema, aware) if low <= high else None


def _dated(schema: Any, bound_of: Callable[[dt.date], Any]) -> Any:
    """Say "past" and "future" as bounds that hold in every zone, and still when midnight has passed."""
    if (way := schema.get("now_op")) is None:
        return schema
    past = way == "past"
    bound = bound_of(dt.datetime.now().astimezone().date() + (-_DAY if past else 2 * _DAY))
    zones = [value.tzinfo for name, value in schema.items() if name in _BOUNDS and hasattr(value, "tzinfo")]
    bound = bound.replace(tzinfo=zones[0]) if zones else bound
    name, nearer = ("le", min) if past else ("ge", max)
    return {**schema, name: nearer(bound, schema.get(name, bound))}


def clock(schema: Any) -> str | None:
    """Return a pattern for a time of day within its bounds, to the second."""
    bounds = {name: schema[name] for name in _BOUNDS & set(schema)}
    aware = {value.tzinfo is not None for value in bounds.values()}
    if not bounds or aware == {True} or len(aware) > 1:
        return None
    anchor = dt.date(2000, 1, 1)
    ways = [(name, dt.datetime.combine(anchor, value)) for name, value in bounds.items()]
    low = max((_up(value, name == "gt") for name, value in ways if name[0] == "g"), default=None)
    high = min((_down(value, name == "lt") for name, value in ways if name[0] == "l"), default=None)
    low = low or dt.datetime.combine(anchor, dt.time.min)
    high = high or dt.datetime.combine(anchor, dt.time.max)
    if not low <= high or low.date() != anchor or high.date() != anchor:
        return None
    return spans.clocks(low.time(), high.time()) + _zone(schema, aware)


def stretch(schema: Any, pattern: str) -> str | None:
    """Return a pattern for a duration within its bounds: any that is not below zero, else whole seconds."""
    bounds = {name: schema[name] for name in _BOUNDS & set(schema)}
    if not bounds:
        return None
    if bounds == {"ge": dt.timedelta(0)}:
        return pattern
    low = max((_least(value, name == "gt") for name, value in bounds.items() if name[0] == "g"), default=None)
    high = min(
        (-_least(-value, name == "lt") for name, value in bounds.items() if name[0] == "l"), default=None
    )
    if low is not None and high is not None and low > high:
        return None
    ways = []
    if high is None or high >= 0:
        ways.append(f"PT{spans.whole(max(low or 0, 0), high, 9)}S")
    if low is None or low < 0:
        least = 1 if high is None else max(-high, 1)
        ways.append(f"-PT{spans.whole(least, None if low is None else -low, 9)}S")
    return f"(?:{'|'.join(ways)})"


def _least(bound: dt.timedelta, beyond: bool) -> int:
    """The fewest whole seconds that are not below a bound."""
    seconds, rest = divmod(bound, _SECOND)
    return seconds + (1 if rest or beyond else 0)


def _later(value: dt.date, step: dt.timedelta) -> dt.date:
    try:
        return value + step
    except OverflowError:  # the first and the last day that Python has
        return value


def _up(value: dt.datetime, beyond: bool) -> dt.datetime:
    """The first whole second from a bound on."""
    whole = value.replace(microsecond=0)
    try:
        return whole + _SECOND if beyond or whole < value else whole
    except OverflowError:
        return whole


def _down(value: dt.datetime, before: bool) -> dt.datetime:
    whole = value.replace(microsecond=0)
    try:
        return whole - _SECOND if before and whole == value else whole
    except OverflowError:
        return whole


def _widened(schema: Any, low: Any, high: Any, kind: Any) -> tuple[Any, Any]:
    """Where one side has no bound it is a year of four digits that one would write, if that leaves any."""
    if low > high and not {"le", "lt"} & set(schema):
        high = kind.max
    if low > high and not {"ge", "gt"} & set(schema):
        low = kind.min
    return low, high


def _zone(schema: Any, aware: set[bool]) -> str:
    return "Z" if True in aware or schema.get("tz_constraint") == "aware" else ""
