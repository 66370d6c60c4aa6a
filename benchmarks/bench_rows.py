"""What a further row in a batch costs in llama.cpp itself: the bound of all that decodes tokens together.

    python benchmarks/bench_rows.py [--rounds N] [--threads N] [MODEL.gguf …]

The ratio is how much sooner a row is done than by itself. Guessed and forced tokens, samples, prompts read
again and rows to decide cannot gain more than that, whoever decodes them.
"""

from __future__ import annotations

import ctypes
import time
from functools import partial

import plain
from harness import Bench, Options, Side, main

SIZES = (1, 2, 4, 8, 16, 64, 256)
ROWS = 256  # at least, for each figure


def rows(size: int, options: Options) -> dict[str, float]:
    import llama_cpp as c

    _, context = plain.opened(options, n_ctx=2048, n_batch=512)
    ids = (ctypes.c_int32 * size)(*(37 * i % 4000 + 10 for i in range(size)))

    def read() -> None:
        c.llama_memory_clear(c.llama_get_memory(context), False)
        for _ in range(max(1, 32 // size)):
            assert c.llama_decode(context, c.llama_batch_get_one(ids, size)) == 0

    read()
    count, began = 0, time.perf_counter()
    while count < ROWS:
        read()
        count += max(32, size)
    return {"a prompt's rows": (time.perf_counter() - began) / count * 1e3}


BENCH = Bench(
    "rows",
    "What a row costs beside others in one llama_decode, logits of the last row alone",
    "ms a row",
    [Side(f"{size} at once", partial(rows, size)) for size in SIZES],
    less_is_better=True,
)

if __name__ == "__main__":
    main(BENCH)
