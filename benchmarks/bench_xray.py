"""The microscope's costs: a slider's move through the sampler chain, and keeping the logits of each step.

    python benchmarks/bench_xray.py [MODEL …]

Without models: the demo model (49,152 tokens). A move runs the whole chain on stored logits; the
least of 30 is shown beside the median, since the machine may be busy. "On the board" is all that the
kernel does for a move of the live view: the chain, its words, the table as HTML, the stand-in for the
saved notebook (16 ms are one frame of a screen; the front end's own drawing is not in it). Keeping is
a copy of one row of logits, as a share of the time of one token in the same run.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

from llama_magic.display.boards.trace import LiveTrace

CHAINS: dict[str, dict[str, Any]] = {
    "default": {},
    "every stage, all candidates": {
        "samplers": "penalties;top_n_sigma;min_p;typical_p;top_p;xtc;temperature;top_k",
        "repeat_penalty": 1.1,
        "top_n_sigma": 30.0,
        "min_p": 1e-9,
        "typical_p": 0.999999,
        "top_p": 0.999999,
        "xtc_probability": 1.0,
        "dynatemp_range": 0.2,
        "top_k": 40_000,
    },
    "temperature only": {"top_k": 0, "top_p": 1.0, "min_p": 0.0},
    "with DRY": {"dry_multiplier": 0.8},
    "mirostat 2": {"mirostat": 2},
}


def on_the_board(trace: Any) -> tuple[float, float]:
    """Return the least and the median of 30 moves of the live view's temperature, in seconds."""
    board = LiveTrace(trace)
    board._shown = True  # so that the stand-in is written as well
    board._publish = lambda *what, **how: None  # type: ignore[method-assign]  # there is no front end
    times = []
    for i in range(30):
        start = time.perf_counter()
        board.sliders["temperature"].value = 0.5 + i / 100
        times.append(time.perf_counter() - start)
    return min(times), statistics.median(times)


def main(sources: list[str | None]) -> None:
    import llama_magic
    from llama_magic.engine.steps import StepStore

    for source in sources:
        model = llama_magic.load(source, ctx=1024)
        trace = model.xray("The sky is", seed=1)
        print(f"{model.name}: {trace.stages[0].survivors:,} tokens")
        for name, changes in CHAINS.items():
            times = []
            for i in range(30):
                start = time.perf_counter()
                trace.rerun(temperature=0.5 + i / 100, **changes)
                times.append(time.perf_counter() - start)
            print(f"  {name:<30} {min(times) * 1e3:>7.2f} ms, median {statistics.median(times) * 1e3:.2f} ms")
            least, median = on_the_board(trace.rerun(**changes))
            print(f"  {'  on the board':<30} {least * 1e3:>7.2f} ms, median {median * 1e3:.2f} ms")
        answer = model.complete("Once upon a time", max_tokens=64, seed=1, ignore_eos=True)
        row = trace.stages[0].probabilities
        store = StepStore(len(row), 64 * 2**20)
        times = []
        for _ in range(2 * store.capacity):
            start = time.perf_counter()
            store.put(row)
            times.append(time.perf_counter() - start)
        token = 1 / answer.timings.tokens_per_second
        first = statistics.mean(times[: store.capacity])
        print(
            f"  keeping a step: {first * 1e6:.0f} us as the memory is first touched, then "
            f"{statistics.median(times) * 1e6:.0f} us, {statistics.median(times) / token:.2%} of a token "
            f"({token * 1e3:.1f} ms); {store.capacity:,} steps in 64 MB"
        )


if __name__ == "__main__":
    main(list(sys.argv[1:]) or [None])
