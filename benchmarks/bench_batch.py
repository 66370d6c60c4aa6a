"""Many calls at once against the same calls one after the other, in one run.

    python benchmarks/bench_batch.py [FILE.gguf]

8 threads with 25 calls each, and 8 samples of one prompt (with and without a seed).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import llama_magic as lm

THREADS, CALLS, LENGTH = 8, 25, 16


def main(source: str | None = None) -> int:
    """Print tokens a second of each way and their ratio."""
    with lm.load(source, ctx=4096) as model:
        prompts = [f"Fact {i}: the river" for i in range(THREADS * CALLS)]

        def ask(prompt: str) -> int:
            return len(model.complete(prompt, max_tokens=LENGTH, ignore_eos=True).token_ids)

        def threads() -> int:
            with ThreadPoolExecutor(THREADS) as pool:
                return sum(pool.map(ask, prompts))

        print(f"{model.name}", flush=True)
        few = prompts[: len(prompts) // 8]
        _compare(f"{THREADS} threads x {CALLS} calls", threads, lambda: sum(map(ask, few)))

        def sample(n: int, seed: int | None) -> int:
            made = model.complete("Once upon a time", n=n, max_tokens=64, ignore_eos=True, seed=seed)
            return sum(len(r.token_ids) for r in (made if n > 1 else [made]))

        for name, seed in (("8 samples", None), ("8 samples, seeded", 1)):
            _compare(name, lambda s=seed: sample(8, s), lambda s=seed: sum(sample(1, s) for _ in range(4)))
    return 0


def _compare(name: str, together: Callable[[], int], alone: Callable[[], int]) -> None:
    one = _rate(alone)
    many = _rate(together)
    print(
        f"  {name:24s} {many:7.1f} tok/s, one at a time {one:7.1f} tok/s, ratio {many / one:5.2f}", flush=True
    )


def _rate(run: Callable[[], Any]) -> float:
    began = time.perf_counter()
    tokens = run()
    return float(tokens / (time.perf_counter() - began))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
