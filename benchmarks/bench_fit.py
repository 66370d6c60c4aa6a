"""The speed that `inspect` and the load card foretell, against what is measured.

    python benchmarks/bench_fit.py [--rounds N] [--threads N] [FILE.gguf …]

The prediction is an upper limit, so the best run of eight tokens is set against it; on a busy machine more
than one thread wait for each other, and fall short. (Predicted memory is tested: tests/model.)
"""

from __future__ import annotations

import time

from harness import Bench, Options, Side, main

import llama_magic as lm
from llama_magic import fit

TOKENS = 48
PROMPT = "Once upon a time"
CASE = "tokens a second"


def predicted(options: Options) -> dict[str, float]:
    """Return what bandwidth and arithmetic of this moment allow."""
    info = lm.inspect(options.model)
    return {
        CASE: fit.speed(info, fit.machine(), threads=options.threads, filled=TOKENS // 2).tokens_per_second
    }


def measured(options: Options) -> dict[str, float]:
    """Return the speed of an answer after its first token: the best run of eight tokens of five answers."""
    best = 0.0
    with lm.load(options.model, ctx=1024, threads=options.threads) as model:
        for _ in range(5):
            answer = model.complete(PROMPT, stream=True, max_tokens=TOKENS, temperature=0, ignore_eos=True)
            marks = [time.perf_counter() for _ in answer]
            best = max(best, *(8 / (b - a) for a, b in zip(marks[1:], marks[9:], strict=False)))
    return {CASE: best}


BENCH = Bench(
    "fit",
    "The speed that is foretold, and the best that is measured",
    "tokens/s",
    (Side("predicted", predicted), Side("measured", measured)),
)

if __name__ == "__main__":
    main(BENCH)
