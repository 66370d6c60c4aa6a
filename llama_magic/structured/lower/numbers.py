"""Lower bounds: of numbers, and of the lengths of strings and arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from llama_magic.structured.schema.bundle import Path
from llama_magic.structured.schema.effort import takes_step

if TYPE_CHECKING:
    from llama_magic.structured.lower.lower import Lowered

# llguidance (1.9.1) ends the process on a range of whole numbers that lies near -2^63 or below it.
LEAST = -9 * 10**18
MOST = 2**63 - 1025  # the last double below 2^63; a bound above it is cut to 2^63 - 1 there
_EXACT = 2**53  # it reads numbers as doubles


def in_range(value: Any) -> bool:
    """Say whether the mask's compiler takes a number as it is."""
    return bool(-_EXACT <= value <= _EXACT)


def _outward(keyword: str, value: Any) -> float:
    """Return the double next to a bound, on the side that allows more."""
    near = float(value)
    if "aximum" in keyword:
        return near if near >= value else math.nextafter(near, math.inf)
    return near if near <= value else math.nextafter(near, -math.inf)


def _bound(lowered: Lowered, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
    value = node[keyword]
    if isinstance(value, bool):  # draft 4: a switch on minimum or maximum
        plain = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}.get(keyword)
        if value and plain and plain in node:
            out[keyword] = node[plain]
        lowered.enforce(path, keyword)
        return
    float(value)  # an OverflowError refuses what no double can hold
    large = keyword == "multipleOf" and ("multiples" in lowered.loosening.kinds or not takes_step(value))
    large = large or (keyword in ("maximum", "exclusiveMaximum") and not LEAST <= value <= MOST)
    large = large or (keyword in ("minimum", "exclusiveMinimum") and value > MOST)
    if (large or "numbers" in lowered.loosening.kinds) and keyword not in out:
        lowered.leave(path, keyword, "out of the mask's range")
        return
    if keyword not in out and not in_range(value) and isinstance(value, int):
        out[keyword.replace("exclusiveM", "m")] = int(_outward(keyword, value))
        lowered.leave(path, keyword, "beyond 2^53 up to the next double")
        return
    if keyword not in out:
        out[keyword] = value
    lowered.enforce(path, keyword)


def _size(lowered: Lowered, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
    if "lengths" in lowered.loosening.kinds and node[keyword] > 64:
        lowered.leave(path, keyword, "too long for the mask")
        return
    out[keyword] = int(node[keyword])
    lowered.enforce(path, keyword)


RULES = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _bound),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _size),
}
