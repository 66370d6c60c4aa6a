"""Numbers with their noun: `1 token`, `2,048 tokens`; and which one: `token 5 (step 4)`."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return a number with thousands separators and its noun, in the plural unless it is 1."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}{'es' if noun.endswith('ch') else 's'}"


def nth_token(step: int) -> str:
    """Name a token of an answer as people count, from 1, and as Python does: `token 5 (step 4)`."""
    return f"token {step + 1:,} (step {step:,})"
