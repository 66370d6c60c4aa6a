"""A text that knows which stretches of it were filled in from variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

Span = tuple[str, int, int]


class Filled(str):  # noqa: SLOT000 - it has spans
    """A `str` with `spans`: (name, start, end) of each value that stands where `{{ name }}` stood.

    Whatever cuts or joins it makes a plain `str`, which knows of no variables.
    """

    spans: tuple[Span, ...]

    def __new__(cls, text: str, spans: Iterable[Span] = ()) -> Self:
        made = super().__new__(cls, text)
        made.spans = tuple(spans)
        return made

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.spans)


def spans_of(text: object) -> tuple[Span, ...]:
    """Return the spans of a text, none for a plain one."""
    return text.spans if isinstance(text, Filled) else ()


def spans_in(shown: str, filled: Iterable[Filled]) -> list[Span]:
    """Return where the values of `filled` texts stand in `shown`, which holds some of these texts."""
    found: list[Span] = []
    for text in filled:
        core = text.strip()
        place = shown.find(core) if core else -1
        if place < 0:
            continue
        shift = place - (len(text) - len(text.lstrip()))
        end = place + len(core)
        moved = ((name, max(place, s + shift), min(end, e + shift)) for name, s, e in text.spans)
        found += [span for span in moved if span[1] < span[2]]
    return found
