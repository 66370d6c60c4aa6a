"""Many answers at once, against a bare loop that decodes eight sequences in one batch.

    python benchmarks/bench_batch.py [--rounds N] [--threads N] [MODEL.gguf …]

Eight samples of one prompt, with and without a seed, eight threads that call, and one call after the other.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import plain
from harness import Bench, Options, Side, main

STREAMS, LENGTH = 8, 48
PROMPT = "Once upon a time"


def _rate(run: Callable[[], int]) -> dict[str, float]:
    """Run once to warm up, then return tokens a second."""
    run()
    began = time.perf_counter()
    tokens = run()
    return {"eight streams": tokens / (time.perf_counter() - began)}


def bare(options: Options) -> dict[str, float]:
    import llama_cpp as c

    model, context = plain.opened(options, n_ctx=2048, n_seq_max=STREAMS, kv_unified=True)
    memory = c.llama_get_memory(context)
    greedy = c.llama_sampler_init_greedy()
    batch = c.llama_batch_init(STREAMS, 0, 1)
    ids = (ctypes.c_int32 * 64)()
    vocab = c.llama_model_get_vocab(model)
    n = c.llama_tokenize(vocab, PROMPT.encode(), len(PROMPT), ids, 64, True, True)

    def run() -> int:
        c.llama_memory_clear(memory, False)
        c.llama_decode(context, c.llama_batch_get_one(ids, n))
        for stream in range(1, STREAMS):
            c.llama_memory_seq_cp(memory, 0, stream, -1, -1)
        tokens = [c.llama_sampler_sample(greedy, context, -1)] * STREAMS
        for position in range(n, n + LENGTH - 1):
            batch.n_tokens = STREAMS
            for stream, token in enumerate(tokens):
                batch.token[stream], batch.pos[stream] = token, position
                batch.n_seq_id[stream], batch.seq_id[stream][0], batch.logits[stream] = 1, stream, 1
            c.llama_decode(context, batch)
            tokens = [c.llama_sampler_sample(greedy, context, stream) for stream in range(STREAMS)]
        return STREAMS * LENGTH

    return _rate(run)


def _ours(options: Options, run: Callable[[Any, dict[str, Any]], int]) -> dict[str, float]:
    import llama_magic as lm

    how = {"max_tokens": LENGTH, "temperature": 0, "ignore_eos": True, "reuse": False}
    with lm.load(options.model, ctx=2048, threads=options.threads) as model:
        return _rate(lambda: run(model, how))


def samples(options: Options, seed: int | None = None) -> dict[str, float]:
    def run(model: Any, how: dict[str, Any]) -> int:
        return sum(len(r.token_ids) for r in model.complete(PROMPT, n=STREAMS, seed=seed, **how))

    return _ours(options, run)


def seeded(options: Options) -> dict[str, float]:
    return samples(options, 1)


def callers(options: Options) -> dict[str, float]:
    def run(model: Any, how: dict[str, Any]) -> int:
        with ThreadPoolExecutor(STREAMS) as pool:
            return sum(pool.map(lambda _: len(model.complete(PROMPT, **how).token_ids), range(STREAMS)))

    return _ours(options, run)


def in_turn(options: Options) -> dict[str, float]:
    def run(model: Any, how: dict[str, Any]) -> int:
        return sum(len(model.complete(PROMPT, **how).token_ids) for _ in range(STREAMS))

    return _ours(options, run)


BENCH = Bench(
    "batch",
    "Eight answers at once, against a bare loop over one batch",
    "tokens a second",
    [
        Side("bare loop, batches of 8", bare),
        Side("8 samples", samples),
        Side("8 samples, seeded", seeded),
        Side("8 threads", callers),
        Side("one after the other", in_turn),
    ],
)

if __name__ == "__main__":
    main(BENCH)
