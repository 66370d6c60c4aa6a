"""The whole promise of a model, part by part; each takes a model with a window of 512 and its file.

`test_model_architectures.py` keeps it on a few kinds of model, `soak_architectures.py` on all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import random_models
from raw_llama import raw

import llama_magic as lm

PROMPT = "the red one and a blue two " * 5
GREEDY: dict[str, Any] = {"max_tokens": 12, "seed": 1, "temperature": 0, "ignore_eos": True}
DRAWN: dict[str, Any] = {"max_tokens": 10, "seed": 5, "temperature": 3, "ignore_eos": True}
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}, "ok": {"type": "boolean"}},
    "required": ["n", "ok"],
    "additionalProperties": False,
}


def memory(model: Any) -> None:
    """Foretold and allocated bytes differ by less than a tenth."""
    sizes = model.memory
    assert sizes["predicted_total"] == pytest.approx(sizes["actual_total"], rel=0.10), sizes


def greedy(model: Any, path: Path) -> None:
    """The likeliest tokens and their log-probabilities are those of plain llama_cpp, to the bit."""
    answer = model.complete(PROMPT, logprobs=1, **GREEDY)
    with raw(path) as plain:
        tokens, logprobs = plain.greedy(plain.tokens(PROMPT), 12)
    assert list(answer.token_ids) == tokens
    assert [entry.logprob for entry in answer.logprobs] == logprobs


def seeds(model: Any, path: Path) -> None:
    """A seeded answer beside others is the one it is alone; another seed is another answer."""
    alone = model.complete(PROMPT, **DRAWN)
    with ThreadPoolExecutor(3) as pool:
        others = [pool.submit(model.complete, "a" * n, max_tokens=6, ignore_eos=True) for n in (5, 40)]
        beside = pool.submit(model.complete, PROMPT, **DRAWN).result(120)
        assert [len(other.result(120).token_ids) for other in others] == [6, 6]
    assert beside.token_ids == alone.token_ids
    assert model.complete(PROMPT, **{**DRAWN, "seed": 6}).token_ids != alone.token_ids


def reuse(model: Any, path: Path) -> None:
    """A prompt that goes on from an answer gives what it gives when nothing is reused."""
    first = model.complete(PROMPT, **GREEDY)
    longer = PROMPT + "two and three"
    again, fresh = (model.complete(longer, reuse=reuse, **GREEDY) for reuse in (True, False))
    assert again.token_ids == fresh.token_ids
    assert fresh.usage.cached_tokens == 0
    assert model.complete(PROMPT, **GREEDY).token_ids == first.token_ids


def samples(model: Any, path: Path) -> None:
    """Samples of one seed differ from each other and come again."""
    first, again = (model.complete(PROMPT, n=3, **DRAWN) for _ in "ab")
    assert [sample.token_ids for sample in first] == [sample.token_ids for sample in again]
    assert len({sample.token_ids for sample in first}) > 1


def structured(model: Any, path: Path) -> None:
    """An answer under a schema is an instance of it."""
    answer = model.structured(PROMPT, SCHEMA, seed=3, max_tokens=250)
    assert answer.parsed.keys() == {"n", "ok"}
    assert 0 <= answer.parsed["n"] <= 99


def saved(model: Any, path: Path) -> None:
    """A sequence that was saved, cleared and restored is reused, and the answer is the one before."""
    with tempfile.TemporaryDirectory() as folder:
        before = model.complete(PROMPT, **GREEDY)
        file = model.kv_save(Path(folder, "x.kv"))
        model.kv_clear()
        model.kv_restore(file)
        after = model.complete(PROMPT, **GREEDY)
    assert after.token_ids == before.token_ids


def edge(model: Any, path: Path) -> None:
    """The window is filled to its last token; one more is refused."""
    ids = model.tokenize("a" * 400)
    text = "a" * (400 + 505 - len(ids))
    answer = model.complete(text, **{**GREEDY, "max_tokens": 7})
    assert len(answer.prompt_token_ids) + len(answer.token_ids) == 512
    with pytest.raises(lm.ContextOverflowError):
        model.complete(text, **{**GREEDY, "max_tokens": 8})


def cancelled(model: Any, path: Path) -> None:
    """A stream that is left after two pieces leaves nothing behind: the next seeded answer is the same."""
    before = model.complete(PROMPT, **DRAWN)
    stream = model.complete(PROMPT, stream=True, max_tokens=200, ignore_eos=True)
    next(iter(stream))
    stream.close()
    assert model.complete(PROMPT, **DRAWN).token_ids == before.token_ids


def embedded(model: Any, path: Path) -> None:
    """The vector of a text has cosine 1 to that of plain llama_cpp."""
    row = model.embed([PROMPT])[0]
    changes = {"embeddings": True, "n_batch": 512, "n_ubatch": 512, "n_outputs_max": 512, "pooling_type": 1}
    with raw(path, **changes) as plain:
        assert float(row @ plain.embed(plain.tokens(PROMPT))) == pytest.approx(1, abs=1e-4)


def adapted(model: Any, path: Path) -> None:
    """A LoRA adapter changes what it changes in plain llama_cpp, and its bytes are foretold."""
    with tempfile.TemporaryDirectory() as folder:
        adapter = random_models.write_adapter(Path(folder, "a.gguf"), path, seed=1)
        if not random_models.adapted(path):
            return  # nothing to adapt: no attention in it
        with lm.load(path, ctx=512, threads=1, lora=str(adapter)) as changed:
            memory(changed)
            assert changed.memory["actual_LoRA"] > 0
            answer = changed.complete(PROMPT, **GREEDY)
        with raw(path, adapters=[(adapter, 1.0)]) as plain:
            tokens, _ = plain.greedy(plain.tokens(PROMPT), 12)
        assert list(answer.token_ids) == tokens


PARTS: tuple[Callable[[Any, Path], None], ...] = (
    greedy, seeds, reuse, samples, structured, saved, edge, cancelled, embedded, adapted,
)  # fmt: skip
