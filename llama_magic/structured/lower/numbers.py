"""Lower bounds: of numbers, and of the lengths of strings and arrays."""

from __future__ import annotations

import math
from typing import Any

from llama_magic.structured.lower.lowered import Lowered, Site
from llama_magic.structured.schema.effort import takes_step

# llguidance (1.9.1) ends the process on a range of whole numbers that lies near -2^63 or below it.
LEAST = -9 * 10**18
MOST = 2**63 - 1025  # the last double below 2^63; a bound above it is cut to 2^63 - 1 there
_EXACT = 2**53  # it reads numbers as doubles
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
            site.out[site.keyword] = site.node[plain]
        lowered.enforce(site.path, site.keyword)
        return
    float(value)  # an OverflowError refuses what no double can hold
    large = site.keyword == "multipleOf" and ("multiples" in lowered.loosening.kinds or not takes_step(value))
    large = large or (site.keyword != "multipleOf" and not LEAST <= value <= MOST)
    loosened = "numbers" in lowered.loosening.kinds
    if (large or loosened) and site.keyword not in site.out:
        if not loosened and site.keyword != "multipleOf" and site.keyword.endswith("aximum") == (value < 0):
            site.out[site.keyword.replace("exclusiveM", "m")] = _FAR if value > 0 else -_FAR
        lowered.leave(site.path, site.keyword, "out of the mask's range")
        return
    if site.keyword not in site.out and not in_range(value) and isinstance(value, int):
        site.out[site.keyword.replace("exclusiveM", "m")] = int(_outward(site.keyword, value))
        lowered.leave(site.path, site.keyword, "beyond 2^53 up to the next double")
        return
    if site.keyword not in site.out:
        site.out[site.keyword] = value
    lowered.enforce(site.path, site.keyword)


def _size(lowered: Lowered, site: Site) -> None:
    if "lengths" in lowered.loosening.kinds and site.value > 64:
        lowered.leave(site.path, site.keyword, "too long for the mask")
        return
    site.out[site.keyword] = int(site.value)
    lowered.enforce(site.path, site.keyword)


RULES = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _bound),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _size),
}
