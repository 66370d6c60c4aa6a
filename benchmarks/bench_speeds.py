"""`lm.bench` against a bare loop over the C API that does what llama-bench does.

    python benchmarks/bench_speeds.py [--rounds N] [--threads N] [MODEL.gguf …]

pp512: 512 random tokens in one batch, no logits but the last. tg128: 128 tokens, one a step, the likeliest
each time. Each run in a process of its own, warmed up, the mean of three.
"""

from __future__ import annotations

import ctypes
import random
import time
from statistics import fmean

import plain
from harness import Bench, Options, Side, main

PROMPT, TOKENS, REPETITIONS = 512, 128, 3


def raw(options: Options) -> dict[str, float]:
    import llama_cpp as c

    model, context = plain.opened(options, n_ctx=1024, n_batch=PROMPT, n_ubatch=PROMPT)
    greedy = c.llama_sampler_init_greedy()
    vocab = c.llama_model_get_vocab(model)
    draw = random.Random(1)
    count = c.llama_vocab_n_tokens(vocab)
    ids = (ctypes.c_int32 * PROMPT)(*(draw.randrange(count) for _ in range(PROMPT)))

    def pp() -> float:
        c.llama_memory_clear(c.llama_get_memory(context), True)
        began = time.perf_counter()
        c.llama_decode(context, c.llama_batch_get_one(ids, PROMPT))
        c.llama_synchronize(context)
        return PROMPT / (time.perf_counter() - began)

    def tg() -> float:
        c.llama_memory_clear(c.llama_get_memory(context), True)
        one = (ctypes.c_int32 * 1)(c.llama_vocab_bos(vocab))
        c.llama_decode(context, c.llama_batch_get_one(one, 1))
        began = time.perf_counter()
        for _ in range(TOKENS):
            one[0] = c.llama_sampler_sample(greedy, context, -1)
            c.llama_decode(context, c.llama_batch_get_one(one, 1))
        c.llama_synchronize(context)
        return TOKENS / (time.perf_counter() - began)

    pp()
    tg()
    return {
        f"pp{PROMPT}": fmean(pp() for _ in range(REPETITIONS)),
        f"tg{TOKENS}": fmean(tg() for _ in range(REPETITIONS)),
    }


def ours(options: Options) -> dict[str, float]:
    import llama_magic as lm

    with lm.load(options.model, ctx=1024, threads=options.threads) as model:
        found = lm.bench(model, n_prompt=PROMPT, n_gen=TOKENS, repetitions=REPETITIONS)
        return {speed.test: speed.mean for speed in found.speeds}


BENCH = Bench(
    "speeds",
    "lm.bench, against what llama-bench does",
    "tokens a second",
    [Side("bare loop", raw), Side("lm.bench", ours)],
)

if __name__ == "__main__":
    main(BENCH)
