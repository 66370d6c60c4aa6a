"""Huge pages for weights: each of them is read for every token, at random addresses as a processor sees it.

In pages of 4 kB a look at each of them costs a walk through the page tables, twice in a virtual machine. In
pages of 2 MB SmolLM2 writes 1.2 times as fast here, Gemma 3 270M 1.3 times. Linux gives such pages to memory
that is a process's own and that asks for it before it is first touched (`madvise`, what most distributions
set), or to all (`always`); a mapped file has none.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable, Iterator
from pathlib import Path

_ADVICE = 14  # MADV_HUGEPAGE of Linux
_LEAST = 4 << 20  # bytes of a buffer that is worth it
_MAPS = Path("/proc/self/maps")

Range = tuple[int, int]


class NewMemory:
    """The memory that this process takes from now on until it is asked to be of huge pages."""

    def __init__(self) -> None:
        self._before: list[Range] | None = list(_own())

    def ask(self) -> None:
        """Ask for huge pages; only the first time. What was touched already stays as it is."""
        before, self._before = self._before, None
        for start, end in () if before is None else without(_own(), before):
            if end - start >= _LEAST:  # a kernel without huge pages refuses, and no harm is done
                ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _ADVICE)


def _own() -> Iterator[Range]:
    """Yield where this process has memory that may be written and is of no file, in order."""
    with contextlib.suppress(OSError):
        for line in _MAPS.read_bytes().splitlines():  # a file's name may be of any bytes
            fields = line.split(maxsplit=5)
            if fields[1] == b"rw-p" and fields[4] == b"0" and len(fields) == 5:
                start, _, end = fields[0].partition(b"-")
                yield int(start, 16), int(end, 16)


def without(ranges: Iterable[Range], others: Iterable[Range]) -> Iterator[Range]:
    """Yield what of `ranges` is in none of `others`; both are in order."""
    taken = list(others)
    for begin, end in ranges:
        start = begin
        for low, high in taken:
            if low < end and high > start:
                if low > start:
                    yield start, low
                start = max(start, high)
        if start < end:
            yield start, end
