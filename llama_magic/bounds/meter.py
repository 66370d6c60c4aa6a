"""What one rendering of a template may use: time, the size of a value, the work of one call in C.

Sizes are bytes of memory, as `sys.getsizeof` tells them for texts. The limits grow with what the
caller gave, so that a long conversation is not held against its template.
"""

from __future__ import annotations

import time
from collections.abc import ItemsView, KeysView, ValuesView
from sys import getsizeof
from threading import local
from typing import Any, NoReturn

MAX_SECONDS = 0.5  # of this thread's own CPU time: a busy machine does not make a good template fail
MAX_SIZE = 4_000_000  # of one value, its parts counted as often as they appear
MAX_MADE = 64_000_000  # all values of one rendering together
MAX_WORK = 50_000_000  # steps of one call in C, which nothing can interrupt: about 0.1 s
# A megabyte in 2,000 messages took the templates of released models up to 1.1 s.
_SECONDS_PER_BYTE = 3e-6
_SIZE_PER_BYTE = 8
_MADE_PER_BYTE = 200
_WORK_PER_BYTE = 100
MAX_SOURCE = 64_000  # characters of a template, compiled in about 2 s; the longest known one has 20,000
MAX_COUNT = 10_000  # a width, a number of repeats
MAX_BITS = 10_000  # of a whole number
SMALL = 10_000  # characters of a text that is far below all limits
MAX_DEPTH = 100  # of values in values; hashing tuples goes down in C without looking at the stack


class LimitError(Exception):
    """A template wants more time or memory than a prompt can need."""


class Meter:
    """What one rendering has used so far, and the most that it may use. `given` is the caller's, in bytes."""

    most_count = MAX_COUNT
    most_bits = MAX_BITS
    most_format = 100_000  # characters of a format
    by_item = 200_000  # characters that a filter written in Python may go through one by one
    by_regex = 20_000  # characters for filters with regular expressions, or that cut and join again and again
    by_url = 1000  # characters in which links are looked for
    takes_sets = False  # whether sets, whose members may share a hash, are joined and cut
    nests_formats = False  # whether a width in a format may itself be given
    most_foreign = 0  # characters for a codec that is a program of its own: some take the square of them

    def __init__(self, given: int) -> None:
        self.started = time.thread_time()
        self.seconds = MAX_SECONDS + given * _SECONDS_PER_BYTE
        self.most = MAX_SIZE + given * _SIZE_PER_BYTE
        self.most_made = MAX_MADE + given * _MADE_PER_BYTE
        self.most_work = MAX_WORK + given * _WORK_PER_BYTE
        self.made = 0
        self.steps = 0

    def charge(self, size: int = 0) -> None:
        """Count a step, and `size` bytes that were made by it."""
        self.made += size
        self.steps += 1
        if size > self.most or self.made > self.most_made:
            self.too_large()
        # The clock costs about 1 us, so it is read at every 16th cheap step.
        if size > 1000 or not self.steps % 16:
            self.look()

    def value(self, value: Any) -> None:
        """Count a step, and the value that was made by it."""
        self.charge(getsizeof(value) if type(value) is str else size_of(value, self.most))

    def size(self, value: Any) -> int:
        """Return the bytes of a value, parts counted as often as they appear; stops above `most`."""
        return size_of(value, self.most)

    def small(self, *values: Any, limit: int = 0) -> None:
        """Refuse numbers that are no sensible width or count."""
        for value in values:
            if isinstance(value, (int, float)) and not abs(value) <= (limit or self.most_count):
                refuse(
                    f"the number {value:.3g} as a width or count" if abs(value) < 1e300 else "such a number"
                )

    def room(self, size: int) -> None:
        """Refuse to make a value of `size` bytes, or more than that, before it is made."""
        if size > self.most:
            self.too_large()

    def work(self, steps: int) -> None:
        """Refuse a call of so many steps in C before it is made."""
        if steps > self.most_work:
            refuse(f"a call of {steps:,} steps")

    def too_large(self) -> NoReturn:
        raise LimitError(f"it makes more text than a prompt can need (over {self.most:,} bytes)")

    def look(self) -> None:
        if time.thread_time() - self.started > self.seconds:
            raise LimitError(f"it runs for more than {self.seconds:.1f} s")


running = local()


def meter() -> Meter:
    """Return the meter of the rendering that runs on this thread."""
    found: Meter | None = getattr(running, "meter", None)
    if found is None:
        # While a template is compiled Jinja tries to fold constants; any exception stops that.
        raise LimitError("not while compiling")
    return found


def refuse(what: str) -> NoReturn:
    raise LimitError(f"{what} is out of all proportion for a prompt")


def size_of(value: Any, most: float = MAX_SIZE) -> int:
    """Return the bytes of a value, parts counted as often as they appear; stops above `most`.

    Raises LimitError for a whole number of more than `MAX_BITS`, and for values nested deeper
    than `MAX_DEPTH`.
    """
    if isinstance(value, (str, bytes)):
        return getsizeof(value)
    total = 0
    level = [value]
    for _ in range(MAX_DEPTH):
        inside: list[Any] = []
        for item in level:
            if isinstance(item, (str, bytes)):
                total += getsizeof(item)
            elif isinstance(item, int):
                if item.bit_length() > MAX_BITS:
                    refuse(f"a whole number of {item.bit_length():,} bits")
                total += 32
            elif isinstance(item, dict):
                total += 64 + 24 * len(item)
                if total <= most:
                    inside += item
                    inside += item.values()
            elif isinstance(item, (list, tuple, set, frozenset, KeysView, ValuesView, ItemsView)):
                total += 56 + 8 * len(item)
                if total <= most:
                    inside += item
            else:
                total += 64
        if not inside or total > most:
            return total
        level = inside
    refuse(f"a value of {MAX_DEPTH} values in one another")
