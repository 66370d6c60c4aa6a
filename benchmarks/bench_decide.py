"""`lm.decide` against teacher forcing through the plain C API, one row and one option after the other.

    python benchmarks/bench_decide.py [--rounds N] [--threads N] [MODEL.gguf …]

Two options of a token each, and five of one to six tokens. The loop keeps the common head of the rows, as a
careful user would, and reads each option behind its row.
"""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bench_map import WORDS
from harness import Bench, Options, Side, main

ROWS = 60
QUESTION = "Is this a complaint? Answer in a few words. Review: "
CASES = {
    "2 options": ["yes", "no"],
    "5 options": ["yes", "no", "maybe so", "not at all really", "yes, of course it is"],
}


def review(row: int) -> str:
    """Return a review of a dozen words."""
    return " ".join(WORDS[(row * 7 + k * (row % 5 + 1)) % len(WORDS)] for k in range(10)) + f" {row}"


def _each(odds: Callable[[list[str]], Any]) -> dict[str, float]:
    found = {}
    for case, options in CASES.items():
        began = time.perf_counter()
        odds(options)
        found[case] = ROWS / (time.perf_counter() - began)
    return found


def forced(options: Options) -> dict[str, float]:
    import llama_cpp

    llama = llama_cpp.Llama(options.model, n_ctx=1024, n_threads=options.threads, verbose=False)
    llama.n_threads_batch = options.threads
    context, memory = llama.ctx, llama_cpp.llama_get_memory(llama.ctx)

    def read(tokens: list[int]) -> np.ndarray:
        ids = (ctypes.c_int32 * len(tokens))(*tokens)  # the batch only points to them
        batch = llama_cpp.llama_batch_get_one(ids, len(tokens))
        assert llama_cpp.llama_decode(context, batch) == 0
        row = np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, -1), (llama.n_vocab(),))
        return row - np.log(np.exp(row - row.max(), dtype=np.float64).sum()) - row.max()

    def decide(texts: list[str]) -> list[float]:
        written = [llama.tokenize(text.encode(), add_bos=False) for text in texts]
        found, held = [], list[int]()
        for row in range(ROWS):
            text = f"<|im_start|>user\n{QUESTION}{review(row)}<|im_end|>\n<|im_start|>assistant\n"
            prompt = llama.tokenize(text.encode(), add_bos=False, special=True)
            shared = sum(1 for _ in itertools.takewhile(lambda p: p[0] == p[1], zip(prompt, held)))  # noqa: B905 - as far as both go
            llama_cpp.llama_memory_seq_rm(memory, 0, shared, -1)
            after, held = read(prompt[shared:]), prompt
            for option in written:
                odds = [after[option[0]]]
                odds += [read([token])[following] for token, following in itertools.pairwise(option)]
                llama_cpp.llama_memory_seq_rm(memory, 0, len(prompt), -1)
                found.append(float(sum(odds)))
        return found

    decide(["yes"])
    return _each(decide)


def ours(options: Options) -> dict[str, float]:
    import llama_magic as lm

    with lm.load(options.model, ctx=1024, threads=options.threads) as model:

        def decide(texts: list[str]) -> Any:
            rows = [{"text": review(row)} for row in range(ROWS)]
            return lm.decide(rows, QUESTION + "{{ text }}", options=texts, model=model, progress=False)

        model.score("Once", [" upon"])
        return _each(decide)


BENCH = Bench(
    "decide",
    "Sixty rows, the exact odds of given answers, against teacher forcing through the C API",
    "rows a second",
    [Side("llama_decode, one after the other", forced), Side("lm.decide", ours)],
)

if __name__ == "__main__":
    main(BENCH)
