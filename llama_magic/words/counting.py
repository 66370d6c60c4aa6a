"""Numbers with their noun: `1 token`, `2,048 tokens`."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return a number with thousands separators and its noun, in the plural unless it is 1."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}{'es' if noun.endswith('ch') else 's'}"
