"""The microscope's costs: a slider's move through the sampler chain, and keeping the logits of each step.

    python benchmarks/bench_xray.py [--rounds N] [--threads N] [MODEL.gguf …]

A move runs the whole chain on stored logits. "On the board" is all that the kernel does for a move of the
live view: the chain, its words, the table as HTML, the stand-in for the saved notebook (16 ms are one frame
of a screen; the front end's own drawing is not in it). "Keeping a step" is a copy of one row of logits, to
be set against "a token". Each figure of a run is the least of 30.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from harness import Bench, Options, Side, installed, main

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


def _least(run: Callable[[int], Any], times: int = 30) -> float:
    """Return the least milliseconds of `run(i)`."""
    found = []
    for i in range(times):
        start = time.perf_counter()
        run(i)
        found.append(time.perf_counter() - start)
    return 1e3 * min(found)


def moves(options: Options) -> dict[str, float]:
    import llama_magic as lm

    with lm.load(options.model, ctx=1024, threads=options.threads) as model:
        trace = model.xray("The sky is", seed=1)
        figures = {
            name: _least(lambda i, chain=chain: trace.rerun(temperature=0.5 + i / 100, **chain))  # type: ignore[misc]
            for name, chain in CHAINS.items()
        }
        answer = model.complete("Once upon a time", max_tokens=64, seed=1, ignore_eos=True)
        return figures | {"a token": 1e3 / answer.timings.tokens_per_second}


def board(options: Options) -> dict[str, float]:
    import llama_magic as lm
    from llama_magic.display.boards.trace import LiveTrace

    with lm.load(options.model, ctx=1024, threads=options.threads) as model:
        trace = model.xray("The sky is", seed=1)
        figures = {}
        for name, chain in CHAINS.items():
            live = LiveTrace(trace.rerun(**chain))
            live._shown = True  # so that the stand-in is written as well
            live._publish = lambda *what, **how: None  # type: ignore[method-assign]  # there is no front end
            slider = live.sliders["temperature"]
            figures[name] = _least(lambda i, slider=slider: setattr(slider, "value", 0.5 + i / 100))  # type: ignore[misc]
        return figures


def keeping(options: Options) -> dict[str, float]:
    import llama_magic as lm
    from llama_magic.engine.steps import StepStore

    with lm.load(options.model, ctx=256, threads=options.threads) as model:
        row = model.xray("The sky is", seed=1).stages[0].probabilities
        store = StepStore(len(row), 64 * 2**20)
        first = _least(lambda _: store.put(row), store.capacity)
        return {"a step, first touch": first, "a step": _least(lambda _: store.put(row), store.capacity)}


BENCH = Bench(
    "xray",
    "The microscope's costs",
    "milliseconds",
    [Side("a move", moves), Side("on the board", board), Side("keeping a step", keeping)],
    less_is_better=True,
)

if __name__ == "__main__":
    main(BENCH, installed()[:1])
