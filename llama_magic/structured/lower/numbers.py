"""Lower bounds: of numbers, and of the lengths of strings and arrays."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

from llama_magic.structured.lower.lowered import Lowered, Site
from llama_magic.structured.lower.marks import RULE
from llama_magic.structured.schema import spans
from llama_magic.structured.schema.decimal_spans import End, taken, written
from llama_magic.structured.schema.effort import takes_step
from llama_magic.structured.schema.negate import TYPES, type_list
from llama_magic.structured.schema.tree import pointer

# llguidance (1.9.1) ends the process on a range of whole numbers that lies near -2^63 or below it.
LEAST = -9 * 10**18
MOST = 2**63 - 1025  # the last double below 2^63; a bound above it is cut to 2^63 - 1 there
_EXACT = 2**53  # it reads numbers as doubles
_MOST_MULTIPLES = 256  # that are named one by one
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_FAR = 10**17  # of a bound beyond its range the sign and the number of digits are kept


def in_range(value: Any) -> bool:
    """Say whether the mask's compiler takes a number as it is."""
    return bool(-_EXACT <= value <= _EXACT)


def _outward(keyword: str, value: Any) -> float:
    """Return the double next to a bound, on the side that allows more."""
    near = float(value)
    if "aximum" in keyword:
        return near if near >= value else math.nextafter(near, math.inf)
    return near if near <= value else math.nextafter(near, -math.inf)


def _bound(lowered: Lowered, site: Site) -> None:
    value = site.value
    if isinstance(value, bool):  # draft 4: a switch on minimum or maximum
        plain = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}.get(site.keyword)
        if value and plain and plain in site.node:
            if not in_range(site.node[plain]):
                _left(lowered, site, _by_digits(lowered, site), "out of the mask's range")
                return
            site.out[site.keyword] = site.node[plain]
        lowered.enforce(site.path, site.keyword)
        return
    float(value)  # an OverflowError refuses what no double can hold
    ruled = _by_digits(lowered, site)
    if ruled and site.keyword == "multipleOf":
        lowered.ruled(site.path, site.keyword)
        return
    large = site.keyword == "multipleOf" and ("multiples" in lowered.loosening.kinds or not takes_step(value))
    large = large or (site.keyword != "multipleOf" and not LEAST <= value <= MOST)
    loosened = "numbers" in lowered.loosening.kinds
    if (large or loosened) and site.keyword not in site.out:
        if not loosened and site.keyword != "multipleOf" and site.keyword.endswith("aximum") == (value < 0):
            site.out[site.keyword.replace("exclusiveM", "m")] = _FAR if value > 0 else -_FAR
        _left(lowered, site, ruled, "out of the mask's range")
        return
    if site.keyword not in site.out and not in_range(value) and isinstance(value, int):
        site.out[site.keyword.replace("exclusiveM", "m")] = int(_outward(site.keyword, value))
        _left(lowered, site, ruled, "beyond 2^53 up to the next double")
        return
    if site.keyword not in site.out:
        site.out[site.keyword] = value
    if ruled and site.keyword.startswith("ex"):  # llguidance's own writes 0 between 0 and 0.1
        lowered.ruled(site.path, site.keyword)
    else:
        lowered.enforce(site.path, site.keyword)


def _left(lowered: Lowered, site: Site, ruled: bool, note: str) -> None:
    if ruled:
        lowered.ruled(site.path, site.keyword)
    else:
        lowered.leave(site.path, site.keyword, note)


def _by_digits(lowered: Lowered, site: Site) -> bool:
    """Say whole numbers between bounds that no double can hold by their digits, in a rule.

    Where the rule cannot be written (within what is no rule itself), the bounds beside it hold.
    """
    node, kinds = site.node, type_list(site.node.get("type", TYPES))
    if "numbers" in lowered.loosening.kinds:
        return False
    if "multipleOf" in node:
        return bool({"integer", "number"} & set(kinds)) and _multiples(site, whole="number" not in kinds)
    if "number" in kinds:
        return _between(site)
    if "integer" not in kinds:
        return False
    numbers = [node[name] for name in _BOUNDS if name in node and not isinstance(node[name], bool)]
    if all(map(in_range, numbers)):
        return False
    low, high = _ends(node)
    if False in site.extra:  # said at another bound
        return True
    if low is not None and high is not None and low > high:
        if len(kinds) > 1:
            return False
        site.extra.append(False)
        where = pointer(site.path) or "the root"
        lowered.impossible.append(f"no whole number lies between the bounds at {where}")
        return True
    longest = max(19, *(len(str(abs(int(number)))) for number in numbers))
    narrow = spans.whole(low, high, longest)
    more = f"[1-9][0-9]{{{longest},}}"
    ways = [narrow, *([f"-{more}"] if low is None else []), *([more] if high is None else [])]
    _say(site, f"(?:{'|'.join(ways)})(?:\\.0+)?", narrow)
    return True


def _between(site: Site) -> bool:
    """Say numbers between bounds by their digits."""
    low, high = _decimal_ends(site.node)
    pattern = taken(low, high)
    if pattern is None:
        return False
    _say(site, pattern, written(low, high) or pattern)
    site.out[RULE]["also"] = all(end is None or (not end.out and in_range(end.value)) for end in (low, high))
    return True


def _multiples(site: Site, *, whole: bool) -> bool:
    """Name the multiples between two bounds, where the mask's compiler takes step or bounds no more."""
    low, high = _decimal_ends(site.node)
    value = site.node["multipleOf"]
    numbers = [site.node[name] for name in _BOUNDS if name in site.node]
    if low is None or high is None or (takes_step(value) and all(map(in_range, numbers))):
        return False
    step, places = Fraction(repr(value)), max(0, -int(Decimal(repr(value)).as_tuple().exponent))
    first, last = math.ceil(Fraction(low.value) / step), math.floor(Fraction(high.value) / step)
    first += int(low.out and first * step == low.value)
    last -= int(high.out and last * step == high.value)
    if not 0 < last - first + 1 <= _MOST_MULTIPLES:
        return False
    found = [count * step for count in range(first, last + 1)]
    texts = [_text(number, places) for number in found if not whole or number.denominator == 1]
    spelled = [text.replace(".", "\\.") for text in texts]
    ways = [text + ("0*" if "." in text else "(?:\\.0+)?") for text in spelled]
    if texts:
        _say(site, f"(?:{'|'.join(ways)})", f"(?:{'|'.join(spelled)})")
    return bool(texts)


def _text(number: Fraction, places: int) -> str:
    """Write a decimal number with as many places as it needs, exactly."""
    digits = str(abs(int(number * 10**places))).rjust(places + 1, "0")
    fraction = digits[len(digits) - places :].rstrip("0")
    return f"{'-' * (number < 0)}{digits[: len(digits) - places]}{'.' * bool(fraction)}{fraction}"


def _decimal_ends(node: Any) -> tuple[End | None, End | None]:
    """The ends of a range of numbers."""
    found = {name: node[name] for name in _BOUNDS if name in node}
    ends: dict[str, list[End]] = {"inimum": [], "aximum": []}
    for name, value in found.items():
        if not isinstance(value, bool):
            side = name[-6:]
            out = name.startswith("ex") or node.get(f"exclusiveM{side}") is True
            ends[side].append(End(Decimal(repr(value)), out))
    low = max(ends["inimum"], default=None)
    high = min(ends["aximum"], key=lambda end: (end.value, not end.out), default=None)
    return low, high


def _say(site: Site, pattern: str, narrow: str) -> None:
    """Note what is taken, and what is let write of it; a text of the same schema has its own."""
    site.out[RULE] = {"regex": pattern}
    site.writes({RULE: {"regex": narrow}})


def _ends(node: Any) -> tuple[int | None, int | None]:
    """The least and the greatest whole number of a schema."""
    low, high = node.get("minimum"), node.get("maximum")
    below, above = node.get("exclusiveMinimum"), node.get("exclusiveMaximum")
    lows = [] if low is None else [math.floor(low) + 1 if below is True else math.ceil(low)]
    highs = [] if high is None else [math.ceil(high) - 1 if above is True else math.floor(high)]
    lows += [] if below is None or isinstance(below, bool) else [math.floor(below) + 1]
    highs += [] if above is None or isinstance(above, bool) else [math.ceil(above) - 1]
    return max(lows, default=None), min(highs, default=None)


def _size(lowered: Lowered, site: Site) -> None:
    if "lengths" in lowered.loosening.kinds and site.value > 64:
        lowered.leave(site.path, site.keyword, "too long for the mask")
        return
    site.out[site.keyword] = int(site.value)
    lowered.enforce(site.path, site.keyword)


RULES = {
    **dict.fromkeys((*_BOUNDS, "multipleOf"), _bound),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _size),
}
