"""What C code holds, after rounds of loading, using and closing."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from pathlib import Path

import llama_magic as lm


class _Mallinfo2(ctypes.Structure):
    """glibc's `struct mallinfo2`, summed over all arenas."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    ]


def allocated() -> int:
    """Return the bytes that C code holds now. Resident memory would also count what glibc keeps for later."""
    gc.collect()
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Mallinfo2
    info = mallinfo2()
    return int(info.uordblks + info.hblkhd)


def cycles(paths: list[Path], n: int) -> Iterator[int]:
    """Load, use and close each file in turn; yield what is allocated after each round."""
    for _ in range(n):
        for path in paths:
            with lm.load(path, ctx=1024, threads=1) as model:
                model.complete("Hello", max_tokens=4, seed=1)
                model.complete("Hello there", max_tokens=4, n=2)
        yield allocated()
