"""Opening a GGUF header: this package against gguf-py.

    python benchmarks/bench_header.py [--rounds N] [FILE.gguf …]

The first opening in a fresh process, after imports, and the median of ten more; each side in a process
of its own.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from harness import Bench, Options, Side, main


def milliseconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def times(opened: Callable[[], Any], again: int) -> dict[str, float]:
    return {
        "first opening": milliseconds(opened),
        "later openings": statistics.median(milliseconds(opened) for _ in range(again)),
    }


def theirs(options: Options) -> dict[str, float]:
    from gguf import GGUFReader

    return times(lambda: GGUFReader(options.model), again=1)  # it takes seconds


def ours(options: Options) -> dict[str, float]:
    from llama_magic.gguf import inspect

    return times(lambda: inspect(options.model), again=10)


def judged(options: Options) -> dict[str, float]:
    """Ours, and the check before llama.cpp may see the file."""
    from llama_magic.gguf import inspect, validate

    return times(lambda: validate(inspect(options.model)), again=10)


BENCH = Bench(
    "header",
    "Opening a GGUF header",
    "milliseconds",
    [
        Side("gguf-py", theirs),
        Side("llama_magic", ours),
        Side("llama_magic, with the check before a load", judged),
    ],
    less_is_better=True,
)

if __name__ == "__main__":
    main(BENCH)
