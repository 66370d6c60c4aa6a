"""`lm.decide` against teacher forcing through the plain C API: row by row, and many rows packed in a batch.

    python benchmarks/bench_decide.py [--rounds N] [--threads N] [MODEL.gguf …]

Two options of a token each, and five of one to six tokens. Both loops keep the common head of the rows. The
first reads each option behind its row, as a careful user would; the second is the most that llama.cpp gives:
no token is read twice, a batch holds a dozen rows, then all their options. (Its odds are other ones, by up
to 0.5 in their logarithm: llama.cpp computes attention otherwise for 64 tokens or more. `lm.decide` gives
those of the first loop.)
"""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import plain
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


Read = Callable[[list[tuple[int, int, int, bool]]], list[np.ndarray]]


def _reader(options: Options, sequences: int = 1) -> tuple[Any, Any, Read]:
    """Return a vocabulary, the memory of a context, and what decodes (token, position, sequence, wanted).

    It returns log-probabilities over the vocabulary for each that is wanted.
    """
    import llama_cpp as c

    how = {"n_ctx": 4096, "n_batch": 1024, "n_seq_max": sequences, "kv_unified": True}
    model, context = plain.opened(options, **how)
    batch, size = c.llama_batch_init(1024, 0, 1), c.llama_vocab_n_tokens(c.llama_model_get_vocab(model))

    def read(rows: list[tuple[int, int, int, bool]]) -> list[np.ndarray]:
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position, wanted
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
        assert c.llama_decode(context, batch) == 0
        places = [i for i, row in enumerate(rows) if row[3]]
        found = [np.ctypeslib.as_array(c.llama_get_logits_ith(context, i), (size,)) for i in places]
        return [row - np.log(np.exp(row - row.max()).sum()) - row.max() for row in found]

    return c.llama_model_get_vocab(model), c.llama_get_memory(context), read


def _tokens(vocab: Any, text: str, *, special: bool = False) -> list[int]:
    import llama_cpp as c

    ids = (ctypes.c_int32 * 512)()
    n = c.llama_tokenize(vocab, text.encode(), len(text.encode()), ids, 512, False, special)
    return ids[:n]


def _prompts(vocab: Any) -> list[list[int]]:
    asked = f"<|im_start|>user\n{QUESTION}{{}}<|im_end|>\n<|im_start|>assistant\n"
    return [_tokens(vocab, asked.format(review(row)), special=True) for row in range(ROWS)]


def _common(a: list[int], b: list[int]) -> int:
    return sum(1 for _ in itertools.takewhile(lambda p: p[0] == p[1], zip(a, b)))  # noqa: B905 - as far as both go


def forced(options: Options) -> dict[str, float]:
    import llama_cpp

    vocab, memory, read = _reader(options)

    def decide(texts: list[str]) -> list[float]:
        written = [_tokens(vocab, text) for text in texts]
        found, held = [], list[int]()
        for prompt in _prompts(vocab):
            shared = _common(prompt, held)
            llama_cpp.llama_memory_seq_rm(memory, 0, shared, -1)
            end = len(prompt)
            (after,) = read([(prompt[i], i, 0, i == end - 1) for i in range(shared, end)])
            held = prompt
            for option in written:
                odds = [after[option[0]]]
                for i, (token, following) in enumerate(itertools.pairwise(option)):
                    odds.append(read([(token, end + i, 0, True)])[0][following])
                llama_cpp.llama_memory_seq_rm(memory, 0, end, -1)
                found.append(float(sum(odds)))
        return found

    decide(["yes"])
    return _each(decide)


def packed(options: Options) -> dict[str, float]:
    import llama_cpp as c

    at_once = 12
    vocab, memory, read = _reader(options, 1 + at_once * 6)

    def decide(texts: list[str]) -> list[float]:
        written, prompts = [_tokens(vocab, text) for text in texts], _prompts(vocab)
        c.llama_memory_clear(memory, False)
        head = min(_common(prompts[0], prompt) for prompt in prompts[1:])
        read([(prompts[0][i], i, 0, False) for i in range(head)])
        found = []
        for begin in range(0, ROWS, at_once):
            some = prompts[begin : begin + at_once]
            for n in range(len(some)):
                c.llama_memory_seq_cp(memory, 0, 1 + n, -1, -1)
            rows = [
                (p[i], i, 1 + n, i == len(p) - 1) for n, p in enumerate(some) for i in range(head, len(p))
            ]
            first = read(rows)
            rows, free = [], 1 + len(some)
            for n, prompt in enumerate(some):
                for option in written:
                    if len(option) > 1:
                        c.llama_memory_seq_cp(memory, 1 + n, free, -1, -1)
                        rows += [(t, len(prompt) + i, free, True) for i, t in enumerate(option[:-1])]
                        free += 1
            later = iter(read(rows) if rows else [])
            for after in first:
                for option in written:
                    found.append(float(after[option[0]] + sum(next(later)[t] for t in option[1:])))
            for sequence in range(1, free):
                c.llama_memory_seq_rm(memory, sequence, -1, -1)
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
    [
        Side("llama_decode, one after the other", forced),
        Side("llama_decode, a dozen rows at once", packed),
        Side("lm.decide", ours),
    ],
)

if __name__ == "__main__":
    main(BENCH)
