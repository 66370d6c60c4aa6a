"""What a token costs beside `llama_decode`: our thread that computes, against a bare loop over the C API.

    python benchmarks/bench_steps.py [--rounds N] [--threads N] [MODEL.gguf …]

Processor time of the computing thread between the end of one `llama_decode` and the beginning of the next,
divided by the tokens written: drawing, text, events, bookkeeping. The bare loop draws with the same chain and
does nothing else. The least of several answers counts, which other work disturbs least.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable
from typing import Any

import plain
from harness import Bench, Options, Side, main

LENGTH, ANSWERS, LATE = 96, 4, 800
PROMPT = "Once upon a time"


def _least(answer: Callable[[], float]) -> float:
    answer()
    return min(answer() for _ in range(ANSWERS))


class _Clock:
    """Processor time of the thread that decodes, between one `llama_decode` and the next."""

    def __init__(self) -> None:
        import llama_cpp

        self.seconds, self._ended = 0.0, math.inf
        real = llama_cpp.llama_decode

        def timed(context: Any, batch: Any) -> Any:
            self.seconds += max(0.0, time.thread_time() - self._ended)
            try:
                return real(context, batch)
            finally:
                self._ended = time.thread_time()

        llama_cpp.llama_decode = timed


def bare(options: Options) -> dict[str, float]:
    import llama_cpp as c

    clock = _Clock()
    model, context = plain.opened(options, n_ctx=2048)
    ids = (ctypes.c_int32 * 64)()
    n = c.llama_tokenize(c.llama_model_get_vocab(model), PROMPT.encode(), len(PROMPT), ids, 64, True, True)

    def chain(*samplers: Any) -> Any:
        made = c.llama_sampler_chain_init(c.llama_sampler_chain_default_params())
        for sampler in samplers:
            c.llama_sampler_chain_add(made, sampler)
        return made

    def cost(drawn: Any) -> float:
        c.llama_memory_clear(c.llama_get_memory(context), False)
        one = (ctypes.c_int32 * 1)()
        c.llama_decode(context, c.llama_batch_get_one(ids, n))
        before = clock.seconds
        for _ in range(LENGTH):
            one[0] = c.llama_sampler_sample(drawn, context, -1)
            c.llama_decode(context, c.llama_batch_get_one(one, 1))
        return (clock.seconds - before) / LENGTH * 1e6

    default = chain(
        c.llama_sampler_init_top_k(40),
        c.llama_sampler_init_top_p(0.95, 1),
        c.llama_sampler_init_min_p(0.05, 1),
        c.llama_sampler_init_temp(0.8),
        c.llama_sampler_init_dist(1),
    )
    greedy = chain(c.llama_sampler_init_greedy())
    return {
        "default chain": _least(lambda: cost(default)),
        "temperature 0": _least(lambda: cost(greedy)),
    }


def ours(options: Options) -> dict[str, float]:
    import llama_magic as lm

    clock = _Clock()
    with lm.load(options.model, ctx=2048, threads=options.threads) as model:

        def cost(n: int = 1, **how: Any) -> float:
            before = clock.seconds
            given = {"max_tokens": LENGTH, "ignore_eos": True, "reuse": False, "speculate": "off", **how}
            model.complete(PROMPT, n=n, **given)
            return (clock.seconds - before) / (n * given["max_tokens"]) * 1e6

        def streamed(length: int) -> float:
            """Return the cost of the last tokens of an answer that somebody reads as it is written."""
            spent, tokens = clock.seconds, 0
            how: Any = {"max_tokens": length, "ignore_eos": True, "reuse": False, "speculate": "off"}
            for chunk in model.complete(PROMPT, stream=True, **how):
                tokens += len(chunk.token_ids)
                if tokens == length - LENGTH:
                    spent = clock.seconds
            return (clock.seconds - spent) / LENGTH * 1e6

        return {
            "default chain": _least(cost),
            "temperature 0": _least(lambda: cost(temperature=0)),
            "default chain, seeded": _least(lambda: cost(seed=1)),
            "default chain, 5 log-probabilities": _least(lambda: cost(logprobs=5)),
            "default chain, 8 streams": _least(lambda: cost(n=8)),
            "default chain, streamed": _least(lambda: streamed(LENGTH)),
            f"default chain, streamed, after {LATE - LENGTH} tokens": streamed(LATE),
        }


BENCH = Bench(
    "steps",
    "What a token costs beside llama_decode, against a bare loop",
    "microseconds a token",
    [Side("bare loop", bare), Side("llama_magic", ours)],
    less_is_better=True,
)

if __name__ == "__main__":
    main(BENCH)
