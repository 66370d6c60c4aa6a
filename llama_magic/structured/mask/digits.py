"""How long a number may become while it is written: as long as a double or 63 bits can tell apart.

JSON has numbers without end, and a small model goes on with digits once it has begun. What is *taken*
as an answer is not limited by this, only what is written: 19 digits before the point (all 63 bits),
17 significant ones where there is a fraction (no double needs more), 2 of an exponent; more where
the schema itself holds a longer number, and where a `multipleOf` lets none end there.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, NamedTuple

from llama_magic.structured.schema.tree import values_in


class DigitLimits(NamedTuple):
    """Digits that a number may have: before the point, significant ones in all, after it, of the exponent."""

    whole: int = 19
    significant: int = 17
    fraction: int = 20
    exponent: int = 2


_PLAIN = DigitLimits()


def limits_of(schema: Any) -> DigitLimits:
    """Return the limits for answers of a schema: no less than its own numbers have."""
    whole, significant, fraction, exponent = _PLAIN
    for value in values_in(schema):
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            _, digits, shift = Decimal(repr(value)).as_tuple()
            assert isinstance(shift, int)  # the schema has no infinities
            whole = max(whole, min(len(digits) + shift, 4000))
            significant = max(significant, len(digits))
            fraction = max(fraction, -shift)
            exponent = 3 if "e" in repr(value) else exponent
    return DigitLimits(whole, significant, fraction, exponent)


class Digits:
    """Follows the bytes of a JSON text; `full` says whether the number being written has all its digits."""

    def __init__(self, limits: DigitLimits) -> None:
        self._limits = limits
        self._quoted = self._escaped = False
        self._part = ""  # of a number: "", "whole", "fraction" or "exponent"
        self._count = self._significant = 0

    @property
    def full(self) -> bool:
        limits = self._limits
        match self._part:
            case "whole":
                return self._count >= limits.whole
            case "fraction":
                spent = self._significant >= limits.significant or self._count >= limits.fraction
                return self._count > 0 and spent
            case "exponent":
                return self._count >= limits.exponent
        return False

    def feed(self, data: bytes) -> None:
        for byte in data:
            if self._quoted:
                self._in_text(byte)
            elif 0x30 <= byte <= 0x39:
                self._digit(byte)
            elif byte == 0x22:
                self._quoted, self._part = True, ""
            elif self._part and byte in b".eE+-":
                if byte not in b"+-":
                    self._part, self._count = ("fraction" if byte == 0x2E else "exponent"), 0
            else:
                self._part = ""

    def _in_text(self, byte: int) -> None:
        if self._escaped:
            self._escaped = False
        elif byte == 0x5C:
            self._escaped = True
        elif byte == 0x22:
            self._quoted = False

    def _digit(self, byte: int) -> None:
        if not self._part:
            self._part, self._count, self._significant = "whole", 0, 0
        self._count += 1
        if self._part != "exponent" and (self._significant or byte != 0x30):
            self._significant += 1


_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


def note(text: str, limits: DigitLimits) -> str | None:
    """Return what is to be said of an answer in which a number has as many digits as it may."""
    for match in _NUMBER.finditer(_TEXT.sub('""', text)):
        digits = Digits(limits)
        digits.feed(match[0].encode())
        if digits.full:
            return (
                f"a number has all the digits that are let written ({limits.whole} before the point, "
                f"{limits.significant} significant): it may have been meant longer"
            )
    return None
