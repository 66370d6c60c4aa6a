"""A pattern of decimal numbers between two bounds: as JSON writes them, without an exponent.

llguidance's own ranges write 0 where it is left out (0 to 0.1), and refuse zeros behind the last digit.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from llama_magic.structured.schema import spans


class End(NamedTuple):
    """An end of a range; `out`: the value itself is no part of it."""

    value: Decimal
    out: bool


_ZERO = End(Decimal(0), False)


def decimals(low: End | None, high: End | None) -> str | None:
    """Return a pattern for what lies between, None where nothing does; a bound that is None is none."""
    up = None if high and high.value < 0 else _upward(low if low and low.value >= 0 else _ZERO, high)
    down = None
    if low is None or low.value < 0:
        nearest = End(-high.value, high.out) if high and high.value <= 0 else _ZERO
        down = _upward(nearest, low and End(-low.value, low.out))
    ways = [*([up] if up else []), *([f"-{down}"] if down else [])]
    return f"(?:{'|'.join(ways)})" if ways else None


def within(low: End | None, high: End | None) -> tuple[End | None, End | None]:
    """Move ends that are left out a little inwards: else zeros or nines lead there without end."""
    values = [end.value for end in (low, high) if end]
    step = Decimal("1e-9") * max(Decimal(1), *map(abs, values))
    if low and high:
        step = min(step, (high.value - low.value) / 8)
    step = Decimal(1).scaleb(step.adjusted()) if step > 0 else step
    return (
        End(low.value + step, False) if low and low.out else low,
        End(high.value - step, False) if high and high.out else high,
    )


def _upward(low: End, high: End | None) -> str | None:
    """What lies between two values that are not below zero."""
    first, after = _parts(low.value)
    if high is None:
        ways = [_number(first, after, None, low, high), _wholes(first + 1, None)]
    else:
        last, before = _parts(high.value)
        if first == last:
            return _number(first, after, before, low, high)
        ways = [_number(first, after, None, low, high), _number(last, None, before, low, high)]
        ways += [_wholes(first + 1, last - 1)] if first + 1 < last else []
    found = [way for way in ways if way]
    return f"(?:{'|'.join(found)})" if found else None


def _wholes(low: int, high: int | None) -> str:
    size = len(str(low))
    more = f"|[1-9][0-9]{{{size},}}" if high is None else ""
    return f"(?:{spans.whole(low, high, size)}{more})(?:\\.[0-9]+)?"


def _parts(value: Decimal) -> tuple[int, str]:
    whole, _, fraction = f"{value:f}".partition(".")
    return int(whole), fraction.rstrip("0")


def _number(whole: int, after: str | None, before: str | None, low: End, high: End | None) -> str | None:
    some, none = _digits(after, before, low.out, high is not None and high.out)
    if some is None:
        return str(whole) if none else None
    return f"{whole}(?:\\.{some})?" if none else f"{whole}\\.{some}"


def _digits(low: str | None, high: str | None, low_out: bool, high_out: bool) -> tuple[str | None, bool]:
    """Digits behind a point from `low` to `high` (None: any): a pattern of some; whether none do, too."""
    none = (low is None or not (low.strip("0") or low_out)) and (high is None or bool(high) or not high_out)
    if low is None and high is None:
        return "[0-9]+", True
    if not low and not high:  # nothing but zeros is left of both
        if high is None:
            return "0*[1-9][0-9]*" if low_out else "[0-9]+", none
        return (None if high_out or (low is not None and low_out) else "0+"), none
    ways: dict[tuple[str | None, str | None], list[int]] = {}
    for digit in range(10):
        least, most = int((low or "0")[0]), int((high or "0")[0])
        if (low is None or digit >= least) and (high is None or digit <= most):
            rest_low = None if low is None or digit > least else low[1:]
            rest_high = None if high is None or digit < most else high[1:]
            ways.setdefault((rest_low, rest_high), []).append(digit)
    found = []
    for (rest_low, rest_high), digits in ways.items():
        some, ends = _digits(rest_low, rest_high, low_out, high_out)
        head = str(digits[0]) if len(digits) == 1 else f"[{digits[0]}-{digits[-1]}]"
        if some is not None or ends:
            found.append(head + ("" if some is None else f"(?:{some})?" if ends else some))
    return (f"(?:{'|'.join(found)})" if found else None), none
