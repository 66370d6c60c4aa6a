"""Small random models of a dozen kinds: the whole promise on each, against plain llama_cpp."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import random_models

import llama_magic as lm

HYBRIDS = ["lfm2", "falcon-h1", "jamba", "nemotron_h", "granitehybrid", "qwen35", "qwen3next"]
OTHERS = ["llama", "qwen3moe", "gemma3", "deepseek2", "gpt2", "mamba2"]
PROMPT = "abcdefgh " * 27
FREE: dict[str, Any] = {"max_tokens": 12, "ignore_eos": True}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All models of this module, built once."""
    return random_models.build(tmp_path_factory.mktemp("architectures"), [*HYBRIDS, *OTHERS])


@pytest.fixture
def load(files: dict[str, Path]) -> Iterator[Callable[..., Any]]:
    """Load a random model by name for one test."""
    kept: list[Any] = []

    def load(name: str, **options: Any) -> Any:
        kept.append(lm.load(files[name], **{"ctx": 512, "threads": 1, **options}))
        return kept[-1]

    yield load
    for model in kept:
        model.close()


def _count_decoded(model: Any) -> list[int]:
    """Note the size of every batch of the lane for unseeded requests from now on."""
    sizes: list[int] = []
    context = model._engine.call(lambda core: core.lane(exact=False)).context
    decode = context.decode

    def counted(tokens: Any, *rest: Any) -> Any:
        sizes.append(len(tokens))
        return decode(tokens, *rest)

    context.decode = counted
    return sizes


@pytest.mark.parametrize("name", [*HYBRIDS, "mamba2", "llama"])
@pytest.mark.parametrize("options", [{}, {"reuse": False}], ids=["reuse", "fresh"])
def test_unseeded_samples_end_and_read_each_prompt_once(
    load: Callable[..., Any], name: str, options: Any
) -> None:
    """Five samples that share no prompt end though their cells do not fit at once, beside other calls;
    nothing is read twice.
    """
    model = load(name)
    alone = model.complete(PROMPT, temperature=0, **FREE)
    sizes = _count_decoded(model)
    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(model.complete, "z" * n, max_tokens=3, ignore_eos=True) for n in (1, 2, 3)]
        samples = pool.submit(model.complete, PROMPT, n=5, temperature=0, **FREE, **options).result(60)
        beside = sum(len(f.result(60).prompt_token_ids) + 2 for f in others)
    assert len(samples) == 5
    assert all(len(sample.token_ids) == 12 for sample in samples)
    if not (name == "llama" and not options):  # batches of other sizes: the last bits may differ
        assert {sample.token_ids for sample in samples} == {alone.token_ids}
    shares = name == "llama" and not options
    prompts = 5 * len(alone.prompt_token_ids) if not shares else len(alone.prompt_token_ids)
    assert sum(sizes) <= prompts + 5 * 12 + beside


def test_a_sample_sent_back_waits_until_another_ends(load: Callable[..., Any]) -> None:
    """Where cells run out though all was counted, the lane goes on with fewer, one after the other."""
    model = load("lfm2")
    lane = model._engine.call(lambda core: core.lane(exact=False))
    lane._fits = lambda _running: True  # count wrongly on purpose: five prompts of 218 in 512 cells
    with ThreadPoolExecutor(1) as pool:
        samples = pool.submit(model.complete, PROMPT, n=5, temperature=0, **FREE).result(60)
    assert [len(sample.token_ids) for sample in samples] == [12] * 5
