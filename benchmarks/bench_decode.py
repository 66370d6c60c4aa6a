"""Decoding speed of a stream against a bare loop over the C API, interleaved in one run.

    python benchmarks/bench_decode.py [FILE.gguf]

The bare loop has a context of its own on the same weights, and decodes greedily.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

import llama_cpp as c

import llama_magic as lm

TOKENS, ROUNDS = 128, 9
PROMPT = "Once upon a time"


def main(source: str | None = None) -> int:
    """Print tokens a second and the ratio of each kind of call to the bare loop."""
    with lm.load(source, ctx=1024) as model:
        threads = model.options["threads"]
        kinds: dict[str, Any] = {
            "bare C-API loop": lambda: _bare(model, threads),
            "stream": lambda: _stream(model, None),
            "stream with a seed": lambda: _stream(model, 1),
        }
        speeds: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(ROUNDS):
            for name, run in kinds.items():
                speeds[name].append(_speed(run()))
        bare = speeds["bare C-API loop"]
        print(f"{model.name}, {threads} threads, greedy, {TOKENS} tokens, medians of {ROUNDS} rounds")
        for name, values in speeds.items():
            ratio = statistics.median(a / b for a, b in zip(values, bare, strict=True))
            print(f"  {name:20s} {statistics.median(values):7.1f} tok/s   {ratio:5.2f} of the bare loop")
    return 0


def _speed(tokens: Iterator[int]) -> float:
    """Return tokens a second after the first."""
    next(tokens)
    began = time.perf_counter()
    count = sum(1 for _ in tokens)
    return count / (time.perf_counter() - began)


def _stream(model: Any, seed: int | None) -> Iterator[int]:
    options = {"temperature": 0, "seed": seed, "ignore_eos": True, "reuse": False}
    for chunk in model.complete(PROMPT, stream=True, max_tokens=TOKENS, **options):
        yield from chunk.token_ids


def _bare(model: Any, threads: int) -> Iterator[int]:
    ids = model.tokenize(PROMPT)
    params = c.llama_context_default_params()
    params.n_ctx, params.n_threads, params.n_threads_batch = 1024, threads, threads
    context = c.llama_init_from_model(model.backend.weights.pointer, params)
    greedy = c.llama_sampler_init_greedy()
    tokens = (ctypes.c_int32 * len(ids))(*ids)
    c.llama_decode(context, c.llama_batch_get_one(tokens, len(ids)))
    for _ in range(TOKENS):
        token = c.llama_sampler_sample(greedy, context, -1)
        yield token
        tokens = (ctypes.c_int32 * 1)(token)
        c.llama_decode(context, c.llama_batch_get_one(tokens, 1))
    c.llama_sampler_free(greedy)
    c.llama_free(context)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
