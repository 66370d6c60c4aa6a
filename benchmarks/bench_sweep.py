"""`lm.sweep` of eight prompts by eight seeds, against a bare loop that decodes all 64 in one batch.

    python benchmarks/bench_sweep.py [--rounds N] [--threads N] [MODEL.gguf …]

The prompts begin with the same 500 tokens. The bare loop reads these once, each prompt's rest once, and draws
with the same samplers; it makes no text, keeps nothing and shows nothing.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

import plain
from harness import Bench, Options, Side, main

SEEDS, LENGTH = 8, 32
HEAD = "You judge what people write to a shop, in a few plain words, and you never say more than asked. " * 23
ENDINGS = ["Is it good?", "Is it bad?", "One word.", "A colour!", "A town!", "Say hello.", "Count.", "Go."]
HEAT, TOP_K, TOP_P = 0.8, 40, 0.95


def bare(options: Options) -> dict[str, float]:
    import llama_cpp as c

    rows = SEEDS * len(ENDINGS)
    model, context = plain.opened(options, n_ctx=4096, n_seq_max=rows + 1, kv_unified=True)
    memory, vocab = c.llama_get_memory(context), c.llama_model_get_vocab(model)
    batch = c.llama_batch_init(512, 0, 1)

    def tokenized(ending: str) -> list[int]:
        text = f"<|im_start|>user\n{HEAD}{ending}<|im_end|>\n<|im_start|>assistant\n".encode()
        ids = (ctypes.c_int32 * 1024)()
        return list(ids[: c.llama_tokenize(vocab, text, len(text), ids, 1024, False, True)])

    def decode(part: list[tuple[int, int, int, bool]]) -> None:
        batch.n_tokens = len(part)
        for i, (token, position, sequence, wanted) in enumerate(part):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position, wanted
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
        assert c.llama_decode(context, batch) == 0

    def sampler(seed: int) -> Any:
        chain = c.llama_sampler_chain_init(c.llama_sampler_chain_default_params())
        for stage in (
            c.llama_sampler_init_top_k(TOP_K),
            c.llama_sampler_init_top_p(TOP_P, 1),
            c.llama_sampler_init_temp(HEAT),
            c.llama_sampler_init_dist(seed),
        ):
            c.llama_sampler_chain_add(chain, stage)
        return chain

    began = time.perf_counter()
    prompts = [tokenized(ending) for ending in ENDINGS]
    shared = next(i for i in range(len(prompts[0])) if len({tuple(p[: i + 1]) for p in prompts}) > 1)
    for start in range(0, shared, 512):
        decode(
            [(t, start + i, rows, False) for i, t in enumerate(prompts[0][start : min(start + 512, shared)])]
        )
    for i in range(len(prompts)):
        c.llama_memory_seq_cp(memory, rows, SEEDS * i, -1, -1)
    tails = [
        [(t, shared + k, SEEDS * i, False) for k, t in enumerate(p[shared:-1])] for i, p in enumerate(prompts)
    ]
    decode([one for tail in tails for one in tail])
    for i in range(len(prompts)):
        for k in range(1, SEEDS):
            c.llama_memory_seq_cp(memory, SEEDS * i, SEEDS * i + k, -1, -1)
    chains = [sampler(1 + k) for _ in prompts for k in range(SEEDS)]
    tokens = [p[-1] for p in prompts for _ in range(SEEDS)]
    places = [len(p) - 1 for p in prompts for _ in range(SEEDS)]
    for step in range(LENGTH):
        decode([(t, place + step, i, True) for i, (t, place) in enumerate(zip(tokens, places, strict=True))])
        tokens = [c.llama_sampler_sample(chain, context, i) for i, chain in enumerate(chains)]
    return {"64 answers": rows * LENGTH / (time.perf_counter() - began)}


def ours(options: Options, *, seeded: bool = True) -> dict[str, float]:
    import llama_magic as lm

    how: dict[str, Any] = {"over": {"seed": list(range(1, 1 + SEEDS))}} if seeded else {"n": SEEDS}
    how |= {
        "max_tokens": LENGTH,
        "temperature": HEAT,
        "top_k": TOP_K,
        "top_p": TOP_P,
        "min_p": 0,
        "ignore_eos": True,
    }
    with lm.load(options.model, ctx=4096, threads=options.threads) as model:
        model.complete("x", max_tokens=1, seed=1 if seeded else None)
        prompts = {ending: HEAD + ending for ending in ENDINGS}
        began = time.perf_counter()
        runs = lm.sweep(prompts, model=model, progress=False, **how)
        spent = time.perf_counter() - began
        return {"64 answers": sum(len(run.completion.token_ids) for run in runs) / spent}


def unseeded(options: Options) -> dict[str, float]:
    return ours(options, seeded=False)


BENCH = Bench(
    "sweep",
    "Eight prompts by eight seeds behind a common head of 500 tokens, against a bare loop over one batch",
    "tokens a second",
    [Side("bare loop, batches of 64", bare), Side("lm.sweep", ours), Side("lm.sweep, no seed", unseeded)],
)

if __name__ == "__main__":
    main(BENCH)
