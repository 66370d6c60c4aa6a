"""Huge pages: what new memory is, and that it is of them when it is asked to be before it is touched."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from llama_magic.engine.native.huge import NewMemory, without

SIZE = 32 << 20
ranges = st.lists(st.integers(0, 60), unique=True, max_size=16).map(
    lambda ends: list(zip(sorted(ends)[::2], sorted(ends)[1::2], strict=False))
)


@given(ranges, ranges)
def test_what_is_new_is_what_was_not_there(now: list[tuple[int, int]], before: list[tuple[int, int]]) -> None:
    """Byte by byte: in a range now, and in none before."""

    def held(some: list[tuple[int, int]]) -> set[int]:
        return {byte for start, end in some for byte in range(start, end)}

    new = list(without(now, before))
    assert held(new) == held(now) - held(before)
    assert sum(end - start for start, end in new) == len(held(new))


def _mapped() -> tuple[mmap.mmap, int]:
    memory = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _asks(address: int) -> bool:
    """Tell whether the memory at an address has asked the kernel for huge pages."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head = line.split()
        if "-" in head[0] and not head[0].endswith(":"):
            start, _, end = head[0].partition("-")
            inside = int(start, 16) <= address < int(end, 16)
        elif inside and head[0] == "VmFlags:":
            return "hg" in head
    raise AssertionError(f"nothing is mapped at {address:#x}")


def test_new_memory_asks_and_what_was_there_does_not() -> None:
    """Large memory that came in between; no more after the first time."""
    old, of_old = _mapped()
    memory = NewMemory()
    new, of_new = _mapped()
    memory.ask()
    assert (_asks(of_old + SIZE // 2), _asks(of_new + SIZE // 2)) == (False, True)
    later, of_later = _mapped()
    memory.ask()
    assert not _asks(of_later + SIZE // 2)
    assert len(old) == len(new) == len(later) == SIZE
