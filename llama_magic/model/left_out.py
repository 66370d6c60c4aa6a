"""How turns that were left out are named, and those that stay: by the numbers that they have in the gauge."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

from llama_magic.model.prompt import Prompt
from llama_magic.model.results import BudgetPart


def renumbered(prompt: Prompt, gone: Mapping[str, int]) -> Prompt:
    """Return a prompt whose turns are numbered as before the oldest ones, so many by role, were left out."""
    return replace(prompt, parts=tuple([_moved(part, gone.get(part.kind, 0)) for part in prompt.parts]))


@functools.lru_cache(1024)  # the part of a turn is one object in the budgets of all later answers
def _moved(part: BudgetPart, by: int) -> BudgetPart:
    number = part.label.removeprefix(f"{part.kind} ")
    return replace(part, label=f"{part.kind} {int(number) + by}") if by and number.isdigit() else part


def named(gone: Mapping[str, int], oldest: object) -> str:
    """Name the oldest messages: how many, which, and how the content of the first begins."""
    count = sum(gone.values())
    what = "the oldest message" if count == 1 else f"the {count} oldest messages"
    places = ", ".join(f"{role} 1" if n == 1 else f"{role} 1 to {n}" for role, n in gone.items())
    words = oldest if isinstance(oldest, str) else ""
    start = f", from {words[:30]!r}{'…' if len(words) > 30 else ''} on" if words.strip() else ""
    return f"{what} ({places}{start})"
