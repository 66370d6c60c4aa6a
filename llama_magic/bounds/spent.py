"""What a `{{ expression }}` may make: its meter, in which there is room for what the user gave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from sys import getsizeof
from typing import Any

from .meter import Meter, running

_MOST = 40_000_000  # bytes of one value: ten million of the widest characters fit no window
TEXTS = (str, bytes, bytearray)
_ROWS: tuple[Any, ...] = (list, tuple, set, frozenset, type({}.keys()), type({}.values()))


class Spent(Meter):
    """What one expression has made so far, and the most that it may make."""

    most_count = _MOST
    most_bits = 500_000
    by_item = by_regex = by_url = most_format = _MOST  # written in Python, or linear in C
    most_foreign = 1_000_000
    takes_sets = True
    nests_formats = True

    def __init__(self, given: list[Any]) -> None:
        self._given: list[Any] | None = given
        self.most, self.most_made, self.most_work = _MOST, 4 * _MOST, 1_000_000_000
        self.made = 0

    def charge(self, size: int = 0) -> None:
        """Count `size` bytes that were made."""
        self.made += size
        if self.made > self.most_made and not (self._extended() and self.made <= self.most_made):
            self.too_large()

    def value(self, value: Any) -> None:
        """Count a value that was made; what a text of it would take is measured where one is made."""
        self.charge(size_alone(value))

    def size(self, value: Any) -> int:
        """Return the bytes of a text of a value, about."""
        return getsizeof(value) if isinstance(value, TEXTS) else expanded(value)

    def room(self, size: int) -> None:
        """Refuse to make a value of `size` bytes, or more than that, before it is made."""
        if size > self.most and not (self._extended() and size <= self.most):
            self.too_large()

    def work(self, steps: int) -> None:
        """Refuse a call of so many steps in C, which hears no Ctrl-C, before it is made."""
        if steps > self.most_work:
            self._extended()
        super().work(steps)

    def look(self) -> None:
        """Look at no clock."""

    def _extended(self) -> bool:
        """Extend the limits by what the user gave, once."""
        given, self._given = self._given, None
        size = sum(map(self.size, given or ()))
        self.most += 8 * size
        self.most_made += 32 * size
        self.most_work += 100 * size
        return given is not None


@contextmanager
def budget(given: list[Any]) -> Iterator[Spent]:
    """Let one expression make what a prompt may need; `given` are the values that it names."""
    before = getattr(running, "meter", None)
    used = running.meter = Spent(given)
    try:
        yield used
    finally:
        running.meter = before


def expanded(value: Any) -> int:
    """Return about the bytes of a text of a value: parts count as often as they appear, looked at once."""
    known: dict[int, int] = {}
    stack = [value]
    while stack:
        item = stack[-1]
        parts = _parts(item)
        if known.get(id(item), -1) >= 0:
            stack.pop()
        elif id(item) in known or not parts:
            known[id(item)] = size_alone(item) + sum(max(known.get(id(part), 0), 0) for part in parts)
            stack.pop()
        else:
            known[id(item)] = -1  # under way: what holds itself is written "[...]" there
            stack += [part for part in parts if id(part) not in known]
    return known[id(value)]


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return [*value] if isinstance(value, _ROWS) else []


def size_alone(value: Any) -> int:
    if isinstance(value, int):
        return 4 + value.bit_length() // 3
    return getsizeof(value) if isinstance(value, (*TEXTS, dict, *_ROWS)) else 64
