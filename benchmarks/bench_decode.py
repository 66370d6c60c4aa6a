"""Decoding speed of one stream: ours and llama-cpp-python's, against a bare loop over the C API.

    python benchmarks/bench_decode.py [--rounds N] [--threads N] [MODEL.gguf …]

Greedy, 128 tokens, speed after the first token; each run in a process of its own.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import plain
from harness import Bench, Options, Side, main

TOKENS = 128
ANSWERS = 5  # a side's figure in a round is their median: one answer takes a second, in which much happens
PROMPT = "Once upon a time"


def speed(tokens: Iterable[Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return tokens a second after the first."""
    stream = iter(tokens)
    next(stream)
    began = clock()
    count = sum(1 for _ in stream)
    return count / (clock() - began)


def speeds(run: Callable[[], Iterator[Any]]) -> dict[str, float]:
    """Warm up, then measure by the clock and by processor time, which is steadier on a busy machine."""
    speed(run())
    clocks = {"greedy": time.perf_counter, "greedy, processor time": time.process_time}
    return {
        case: statistics.median(speed(run(), clock) for _ in range(ANSWERS)) for case, clock in clocks.items()
    }


def raw(options: Options) -> dict[str, float]:
    import llama_cpp as c

    model, context = plain.opened(options, n_ctx=1024)
    greedy = c.llama_sampler_init_greedy()

    def tokens() -> Iterator[int]:
        ids = (ctypes.c_int32 * 64)()
        vocab = c.llama_model_get_vocab(model)
        n = c.llama_tokenize(vocab, PROMPT.encode(), len(PROMPT), ids, 64, True, True)
        c.llama_memory_clear(c.llama_get_memory(context), False)
        c.llama_decode(context, c.llama_batch_get_one(ids, n))
        for _ in range(TOKENS):
            ids[0] = c.llama_sampler_sample(greedy, context, -1)
            yield ids[0]
            c.llama_decode(context, c.llama_batch_get_one(ids, 1))

    return speeds(tokens)


def _ours(options: Options, seed: int | None = None, **load: Any) -> dict[str, float]:
    import llama_magic as lm

    with lm.load(options.model, ctx=1024, threads=options.threads, **load) as model:

        def tokens() -> Iterator[int]:
            for chunk in model.complete(
                PROMPT,
                stream=True,
                max_tokens=TOKENS,
                temperature=0,
                seed=seed,
                ignore_eos=True,
                reuse=False,
            ):
                yield from chunk.token_ids

        return speeds(tokens)


def ours(options: Options) -> dict[str, float]:
    return _ours(options)


def mapped(options: Options) -> dict[str, float]:
    """Return what it is without huge pages, which a mapped file has none of."""
    return _ours(options, mmap=True)


def seeded(options: Options) -> dict[str, float]:
    return _ours(options, 1)


def theirs(options: Options) -> dict[str, float]:
    from llama_cpp import Llama

    llm = Llama(
        options.model, n_ctx=1024, n_threads=options.threads, n_threads_batch=options.threads, verbose=False
    )
    bias = {llm.token_eos(): -100.0}

    def tokens() -> Iterator[Any]:
        llm.reset()
        yield from llm.create_completion(
            PROMPT, stream=True, max_tokens=TOKENS, temperature=0, logit_bias=bias
        )

    return speeds(tokens)


BENCH = Bench(
    "decode",
    "One stream, against a bare loop over the C API",
    "tokens a second",
    [
        Side("bare loop", raw),
        Side("llama_magic", ours),
        Side("llama_magic, mapped", mapped),
        Side("llama_magic, seeded", seeded),
        Side("llama-cpp-python", theirs, peer="llama-cpp-python"),
    ],
)

if __name__ == "__main__":
    main(BENCH)
