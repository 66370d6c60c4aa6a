"""Patterns of numbers between two bounds: every usual spelling of them, and what is let write.

llguidance's own ranges know no exponents, write 0 where it is left out (0 to 0.1) and zeros without end
below 0, and refuse zeros behind the last digit.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from llama_magic.structured.schema import spans


class End(NamedTuple):
    """An end of a range; `out`: the value itself is no part of it."""

    value: Decimal
    out: bool


_Ends = tuple[End | None, End | None]
_ZERO, _ONE, _TEN = End(Decimal(0), False), End(Decimal(1), False), End(Decimal(10), True)
_FIRST = End(Decimal("4.9e-324"), False)  # the least double above 0
_BIG = 999  # an exponent that is as good as any
_FRACTION = "(?:\\.[0-9]+)?"
_ZEROS = "-?0(?:\\.0+)?(?:[eE][+-]?[0-9]+)?"
_SHORT = 99  # the greatest exponent that is written


def taken(low: End | None, high: End | None) -> str | None:
    """Return a pattern for what lies between, None where nothing does; a bound that is None is none.

    Exponents follow one digit that is no zero, and a fraction: as Python and JavaScript write them.
    """
    ways = [_ZEROS] if _zero_inside(low, high) else []
    for side in _sides(low, high):
        if side.low == _ZERO and side.high is None:
            ways.append(f"{side.sign}(?:0|[1-9][0-9]*){_FRACTION}(?:[eE][+-]?[0-9]+)?")
        else:
            ways += [way for way in (_decimals(side), _powers(side)) if way]
    return _union(ways)


def written(low: End | None, high: End | None) -> str | None:
    """Return a pattern for what is let write: exponents only behind digits that lie inside by themselves."""
    ways = [way] if (way := decimals(*within(low, high))) else []
    for side in _sides(low, high):
        if side.low <= _ONE and (side.high is None or side.high.value >= 10):  # 2e-1 is begun by a 2
            least, most = _whole_powers(side)
            power = _power(max(least, -_SHORT), min(most, _SHORT), "")
            ways += [f"{side.sign}[1-9]{_FRACTION}{power}"] if power else []
    return _union(ways)


def decimals(low: End | None, high: End | None) -> str | None:
    """Return a pattern for what lies between, written without an exponent."""
    return _union([way for side in _sides(low, high) if (way := _decimals(side))])


def within(low: End | None, high: End | None) -> _Ends:
    """Move ends a little inwards that zeros or nines would lead to without end: left out, or close to 0."""
    gap = (high.value - low.value) / 8 if low and high else None

    def moved(end: End | None, inwards: int) -> End | None:
        if end is None:
            return None
        step = Decimal("1e-9") * max(Decimal(1), abs(end.value))
        step = step if gap is None else min(step, gap)
        if step <= 0 or not (end.out or 0 < end.value * inwards < step):
            return end
        start = end.value if end.out else Decimal(0)
        return End(start + Decimal(inwards).scaleb(step.adjusted()), False)

    return moved(low, 1), moved(high, -1)


class _Side(NamedTuple):
    """What lies between, of one sign, without it."""

    sign: str
    low: End
    high: End | None


def _zero_inside(low: End | None, high: End | None) -> bool:
    under = low is None or low.value < 0 or (not low.value and not low.out)
    return under and (high is None or high.value > 0 or (not high.value and not high.out))


def _sides(low: End | None, high: End | None) -> list[_Side]:
    found = []
    if high is None or high.value >= 0:
        found.append(_Side("", low if low and low.value >= 0 else _ZERO, high))
    if low is None or low.value < 0:
        nearest = _negated(high) if high and high.value <= 0 else _ZERO
        found.append(_Side("-", nearest, low and _negated(low)))
    return found


def _decimals(side: _Side) -> str | None:
    return None if (way := _upward(side.low, side.high)) is None else side.sign + way


def _negated(end: End) -> End:
    return End(end.value.copy_negate(), end.out)  # a minus sign would round to 28 digits


def _union(ways: list[str]) -> str | None:
    return f"(?:{'|'.join(ways)})" if ways else None


def _whole_powers(side: _Side) -> tuple[int, int]:
    """The least and the greatest exponent of which all numbers lie between."""
    least = side.low.value.adjusted() + 1 if side.low.value else -_BIG
    return least, side.high.value.adjusted() - 1 if side.high else _BIG


def _powers(side: _Side) -> str | None:
    """Numbers with an exponent: all of the powers of ten inside, and parts of those where the bounds are."""
    low, high = side.low, side.high
    if high and not high.value:
        return None
    low = _FIRST if low.out and not low.value else low
    first, last = low.value.adjusted(), high.value.adjusted() if high else _BIG
    parts: list[tuple[str | None, str | None]] = [
        (f"[1-9]{_FRACTION}", _power(*_whole_powers(_Side("", low, high)), "0*"))
    ]
    here = high if high and first == last else None
    if low.value and _is_short(low) and (here is None or _is_short(here)):
        most = _figure(here) if here else _TEN
        parts.append((_upward(_figure(low), most), _power(first, first, "0*")))
    if high and _is_short(high) and (not low.value or first < last):
        parts.append((_upward(_ONE, _figure(high)), _power(last, last, "0*")))
    return _union([f"{side.sign}{figure}{power}" for figure, power in parts if figure and power])


def _is_short(end: End) -> bool:
    """Say whether a bound is written with an exponent: its digits nest, which has an end."""
    return len(end.value.as_tuple().digits) <= 40


def _figure(end: End) -> End:
    """What stands before the exponent: a number from 1 on, below 10."""
    digits = end.value.as_tuple().digits
    return End(Decimal((0, digits, 1 - len(digits))), end.out)


def _power(least: int, most: int, zeros: str) -> str | None:
    """An exponent from `least` to `most`; `zeros` may stand before its digits."""
    ways = [f"\\+?{zeros}{spans.whole(max(least, 1), most, 3)}"] if most >= max(least, 1) else []
    ways += [f"-{zeros}{spans.whole(max(-most, 1), -least, 3)}"] if least <= min(most, -1) else []
    ways += [f"[+-]?{zeros}0"] if least <= 0 <= most else []
    return f"[eE](?:{'|'.join(ways)})" if ways else None


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
    return _union([way for way in ways if way])


def _wholes(low: int, high: int | None) -> str:
    size = len(str(low))
    more = f"|[1-9][0-9]{{{size},}}" if high is None else ""
    return f"(?:{spans.whole(low, high, size)}{more}){_FRACTION}"


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
    if low == "" and not low_out:
        low = None
    if low is None and high is None:
        return "[0-9]+", True
    if not low and not high:  # nothing but zeros is left of both
        if high is None:
            return "0*[1-9][0-9]*", none
        return (None if high_out or (low is not None and low_out) else "0+"), none
    if (zeros := _leading(low, high)) > 1:
        return _behind_zeros(zeros, low, high, low_out, high_out), none
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
            found.append(head + _perhaps(some, ends))
    return _union(found), none


def _perhaps(some: str | None, ends: bool) -> str:
    if some == "[0-9]+" and ends:
        return "[0-9]*"
    return "" if some is None else f"(?:{some})?" if ends else some


def _leading(low: str | None, high: str | None) -> int:
    """How many zeros both begin with; where one is None, the other."""
    return min(len(digits) - len(digits.lstrip("0")) for digits in (low, high) if digits)


def _behind_zeros(zeros: int, low: str | None, high: str | None, low_out: bool, high_out: bool) -> str | None:
    """The same where both begin with zeros: a bound of 1e-300 would be 300 groups within each other."""
    rest, ends = _digits(low and low[zeros:], high and high[zeros:], low_out, high_out)
    ways = [f"0{{{zeros}}}{rest}"] if rest else []
    if high is None:  # more than that many zeros
        ways.append(f"0{{0,{zeros - 1}}}[1-9][0-9]*")
    if low is None or (not low and not low_out):
        ways.append(f"0{{1,{zeros}}}" if ends else f"0{{1,{zeros - 1}}}")
    return _union(ways)
