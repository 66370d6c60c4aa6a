"""A recurrent model: its state cannot be cut back, so prefixes are read again, and all promises hold."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import random_mamba

import llama_magic as lm


@pytest.fixture(scope="module")
def mamba(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A random Mamba; what it writes is nonsense, but depends on every token before."""
    path = random_mamba.build(tmp_path_factory.mktemp("mamba") / "mamba.gguf")
    with lm.load(path, ctx=2048, threads=1) as model:
        assert model.backend.weights.recurrent
        yield model


def _cold(model: Any, prompt: str, **options: Any) -> Any:
    model.backend.call(lambda core: [lane.forget() for lane in core.lanes])
    return model.complete(prompt, reuse=False, **options).token_ids


OPTIONS: dict[str, Any] = {"max_tokens": 12, "seed": 5, "temperature": 0.7, "ignore_eos": True}


def test_seeded_answers_are_those_of_a_cold_engine(mamba: Any) -> None:
    """Prompts that extend and shorten each other, beside others and after cancels: the same tokens as
    cold.
    """
    draw = random.Random(2)
    text = "".join(draw.choice("abcdefgh ") for _ in range(400))
    prompts = [text[:n] for n in (63, 64, 129, 300, 128, 30)]
    expected = [_cold(mamba, p, **OPTIONS) for p in prompts]
    assert len(set(expected)) == len(expected)
    for _ in range(2):
        for prompt, tokens in zip(prompts, expected, strict=True):
            assert mamba.complete(prompt, **OPTIONS).token_ids == tokens
            stream = mamba.complete(prompt + "x", stream=True, max_tokens=500, ignore_eos=True, seed=1)
            next(stream)
            stream.cancel()
    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(mamba.complete, p, max_tokens=12, ignore_eos=True) for p in prompts]
        same = [mamba.complete(p, **OPTIONS).token_ids for p in prompts]
        assert all(len(future.result().token_ids) == 12 for future in others)
    assert same == expected


def test_unseeded_prefixes_are_reused_only_whole(mamba: Any) -> None:
    """A prompt that goes on where an answer ended reuses it all; a shorter one is read again. Greedy
    text holds.
    """
    options = {"max_tokens": 8, "temperature": 0, "ignore_eos": True}
    first = mamba.complete("a b c d e f g h " * 8, **options)
    longer = [*first.prompt_token_ids, *first.token_ids, *mamba.tokenize("z")]
    assert mamba.complete(longer, **options).usage.cached_tokens >= len(first.prompt_token_ids)
    shorter = mamba.complete(first.prompt[:40], **options)
    assert shorter.usage.cached_tokens in (0, len(shorter.prompt_token_ids) - 1)
    assert shorter.token_ids == _cold(mamba, first.prompt[:40], **options)


@pytest.mark.parametrize("seed", [None, 5])
def test_a_prompt_that_parts_from_others_goes_on_from_what_is_common(mamba: Any, seed: int | None) -> None:
    """The state is kept where it was seen that prompts part; seeded tokens are those of a cold engine."""
    mamba.kv_clear()
    head = "".join(random.Random(3).choice("abcdefgh ") for _ in range(300))
    ends, options = ("one", "two", "three", "four"), {**OPTIONS, "seed": seed}
    asked = [mamba.complete(head + end, **options) for end in ends]
    common = len(mamba.tokenize(head)) // 64 * 64
    cached = [one.usage.cached_tokens for one in asked]
    assert cached[2:] == [common, common]
    if seed is not None:
        assert [one.token_ids for one in asked] == [_cold(mamba, head + end, **OPTIONS) for end in ends]


def test_samples_share_nothing_wrongly(mamba: Any) -> None:
    """n=4 with a seed is the same on a re-run, and greedy samples are all the greedy answer."""
    prompt = "abcdefgh" * 10
    first, again = (mamba.complete(prompt, n=4, **OPTIONS) for _ in "ab")
    assert [r.token_ids for r in first] == [r.token_ids for r in again]
    greedy = {**OPTIONS, "temperature": 0}
    alone = mamba.complete(prompt, **greedy).token_ids
    assert {r.token_ids for r in mamba.complete(prompt, n=3, **greedy)} == {alone}
