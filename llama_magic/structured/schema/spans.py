"""Patterns of days, times and whole numbers between two bounds.

Each gives a regular expression whose language lies between the bounds, ends included. Days are those
that exist: of February 28, or what the year of a bound has.
"""

from __future__ import annotations

import calendar
import datetime
from collections.abc import Callable

_Fields = tuple[int, ...]
_Most = Callable[[_Fields], int]  # the highest value of the next field; -1 among its arguments: any value


def days(low: datetime.date, high: datetime.date) -> str:
    """Return a pattern for days as YYYY-MM-DD."""
    start, end = ((day.year, day.month, day.day) for day in (low, high))
    return _between(start, end, _DATE)


def clocks(low: datetime.time, high: datetime.time) -> str:
    """Return a pattern for times as HH:MM:SS; parts of a second are not looked at."""
    start, end = ((time.hour, time.minute, time.second) for time in (low, high))
    return _between(start, end, _CLOCK)


def moments(low: datetime.datetime, high: datetime.datetime) -> str:
    """Return a pattern for days and times as YYYY-MM-DDTHH:MM:SS."""
    first, last = low.date(), high.date()
    if first == last:
        return f"{days(first, last)}T{clocks(low.time(), high.time())}"
    one = datetime.timedelta(days=1)
    ways = [
        f"{days(first, first)}T{clocks(low.time(), datetime.time.max)}",
        f"{days(last, last)}T{clocks(datetime.time.min, high.time())}",
    ]
    if last - first > one:
        ways.append(f"{days(first + one, last - one)}T{clocks(datetime.time.min, datetime.time.max)}")
    return f"(?:{'|'.join(ways)})"


def whole(low: int | None, high: int | None, longest: int) -> str:
    """Return a pattern for whole numbers as JSON writes them; `longest` digits where a bound is None."""
    low = -(10**longest) + 1 if low is None else low
    high = 10**longest - 1 if high is None else high
    ways = []
    if low < 0:
        ways.append("-" + _numbers(max(1, -high), -low))
    if high >= 0:
        ways.append(_numbers(max(0, low), high))
    return f"(?:{'|'.join(ways)})"


def _numbers(low: int, high: int) -> str:
    """Whole numbers from 0 on: of the lengths of the bounds, and of all between."""
    shortest, longest = len(str(low)), len(str(high))
    if shortest == longest:
        return _digits(str(low), str(high))
    ways = [_digits(str(low), "9" * shortest), _digits("1" + "0" * (longest - 1), str(high))]
    if shortest + 1 < longest:
        ways.append(f"[1-9][0-9]{{{shortest},{longest - 2}}}")
    return f"(?:{'|'.join(ways)})"


def _digits(low: str, high: str) -> str:
    """Digits of one length, from `low` to `high`."""
    shared = next(
        (place for place, pair in enumerate(zip(low, high, strict=True)) if pair[0] != pair[1]), None
    )
    if shared is None:
        return low
    first, last, ways = int(low[shared]), int(high[shared]), []
    if low[shared + 1 :].strip("0"):
        ways += [low[shared] + way for way in _on_one_side(low[shared + 1 :], 9)]
        first += 1
    if high[shared + 1 :].strip("9"):
        ways += [high[shared] + way for way in _on_one_side(high[shared + 1 :], 0)]
        last -= 1
    if first <= last:
        ways.append(_one_of(first, last) + _any(len(low) - shared - 1))
    return low[:shared] + (ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})")


def _on_one_side(bound: str, most: int) -> list[str]:
    """Ways to write digits from `bound` up (`most` is 9) or down (0), one for each place where they leave it.

    They are not put into each other: an expression may be nested 50 deep or so.
    """
    ways: list[str] = []
    for place, digit in enumerate(map(int, bound)):
        if not bound[place:].strip(str(9 - most)):  # all that follow
            return [*ways, bound[:place] + _any(len(bound) - place)]
        if digit != most:
            beyond = _one_of(*sorted((digit + (1 if most else -1), most)))
            ways.append(bound[:place] + beyond + _any(len(bound) - place - 1))
    return [*ways, bound]


def _one_of(first: int, last: int) -> str:
    return f"[{first}-{last}]" if first < last else str(first)


def _any(count: int) -> str:
    return f"[0-9]{{{count}}}" if count > 1 else "[0-9]" * count


class _Kind:
    """How a value is written: its fields' widths, marks between them, least and highest values."""

    def __init__(self, widths: _Fields, mark: str, least: _Fields, most: _Most) -> None:
        self.widths, self.mark, self.least, self.most = widths, mark, least, most


def _most_of_day(before: _Fields) -> int:
    if len(before) < 2:
        return 12 if before else 9999
    year, month = before
    return calendar.monthrange(2023 if year < 1 else year, month)[1]


_DATE = _Kind((4, 2, 2), "-", (1, 1, 1), _most_of_day)
_CLOCK = _Kind((2, 2, 2), ":", (0, 0, 0), lambda before: (23, 59, 59)[len(before)])


def _between(low: _Fields | None, high: _Fields | None, kind: _Kind, before: _Fields = ()) -> str:
    """The fields behind `before`, from `low` to `high`; None: whatever they can be."""
    place = len(before)
    if place == len(kind.widths):
        return ""
    mark = kind.mark if place < len(kind.widths) - 1 else ""
    first = low[0] if low else kind.least[place]
    last = high[0] if high else kind.most(before)

    def way(start: int, end: int, rest: tuple[_Fields | None, _Fields | None], value: int) -> str:
        width = kind.widths[place]
        head = _digits(f"{start:0{width}}", f"{end:0{width}}")
        return head + mark + _between(*rest, kind, (*before, value))

    if low and high and first == last:
        return way(first, last, (low[1:], high[1:]), first)
    ways = []
    if low:
        ways.append(way(first, first, (low[1:], None), first))
        first += 1
    if high:
        ways.append(way(last, last, (None, high[1:]), last))
        last -= 1
    if kind is _DATE and place == 1:  # how many days there are depends on the month
        ways += [way(month, month, (None, None), month) for month in range(first, last + 1)]
    elif first <= last:
        ways.append(way(first, last, (None, None), -1))
    return ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"
