"""Predicted against actual: memory of a load, and tokens a second, interleaved in one run.

    python benchmarks/bench_fit.py [FILE.gguf …]

Without files: SmolLM2 and Gemma 3, where they are installed. The prediction is an upper limit, so the best of
the rounds is set against it; on a busy machine more than one thread wait for each other, and fall short.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from harness import installed

import llama_magic as lm
from llama_magic import fit
from llama_magic.fit import _speed

TOKENS, ROUNDS = 48, 5
PROMPT = "Once upon a time"


def main(paths: list[Path]) -> None:
    machine = fit.machine()
    print(f"{'file':<34} threads    MB predicted / used      tok/s predicted   best  median  best/predicted")
    for path in paths:
        for threads in sorted({1, machine.physical_cores}):
            with lm.load(path, ctx=1024, threads=threads) as model:
                rates, speeds = [], []
                for _ in range(ROUNDS):
                    rates.append(_speed.Rates(_speed.bandwidth(threads), _speed.sums()))
                    speeds.append(_speed_of(model))
                best = _speed.Rates(max(r.bandwidth for r in rates), max(r.sums for r in rates))
                found = _predicted(model, machine, threads, best)
                memory = model.memory
                print(
                    f"{path.name[:33]:<34} {threads:>7} {memory['predicted_total'] / 1e6:>8,.0f} / "
                    f"{memory['actual_total'] / 1e6:<8,.0f} {found.tokens_per_second:>16,.0f} "
                    f"{max(speeds):>6,.0f} {sorted(speeds)[ROUNDS // 2]:>7,.0f} "
                    f"{max(speeds) / found.tokens_per_second:>8.2f}   ({found.limit}: "
                    f"{best.bandwidth / 1e9:.0f} GB/s, {best.sums / 1e9:.1f} G sums/s)"
                )


def _predicted(model: Any, machine: Any, threads: int, measured: _speed.Rates) -> Any:
    kept, _speed.rates = _speed.rates, lambda _threads: measured  # type: ignore[assignment]
    try:
        return fit.speed(model.info, machine, threads=threads, filled=TOKENS // 2)
    finally:
        _speed.rates = kept


def _speed_of(model: Any) -> float:
    """Return tokens a second of one answer, after its first token; the best run of eight."""
    marks = [
        time.perf_counter()
        for _ in model.complete(PROMPT, stream=True, max_tokens=TOKENS, temperature=0, ignore_eos=True)
    ]
    return max(8 / (b - a) for a, b in zip(marks[1:], marks[9:], strict=False))


if __name__ == "__main__":
    main([Path(arg) for arg in sys.argv[1:]] or installed())
