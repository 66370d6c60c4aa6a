"""Temperature 0 without a seed: the same tokens whatever the caches hold and whatever else runs."""

from __future__ import annotations

import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import llama_magic as lm
from llama_magic.errors import FitError

# The likeliest tokens of their answers lie so near that another order of sums changed them within 8 steps.
PROMPTS = [
    "Write a short story about the history of Rome.",
    "Write a short story about cooking rice well.",
]


def _ask(model: Any, prompt: str, **how: Any) -> Any:
    given = {"max_tokens": 10, "temperature": 0, "ignore_eos": True, **how}
    return model.chat([{"role": "user", "content": prompt}], **given)


def test_the_answer_is_that_of_a_fresh_reading(loaded: Callable[..., Any]) -> None:
    """Read anew, gone on with after others, beside others, with a seed, at top-k 1: the same tokens.

    Without a seed on a processor where rows are alike, as on all with AVX2; with one anywhere.
    """
    model = loaded("smollm2", threads=2)
    how = {} if model.backend.call(lambda core: core.alike()) else {"seed": 3}
    fresh = [_ask(model, prompt, reuse=False, **how).token_ids for prompt in PROMPTS]
    again = [_ask(model, prompt, **how) for prompt in PROMPTS]
    assert [answer.token_ids for answer in again] == fresh
    assert how or all(a.usage.cached_tokens > 20 and not a.receipt["seeded"] for a in again)
    with ThreadPoolExecutor(3) as threads:
        beside = threads.submit(_ask, model, "Something else, at length.", temperature=0.9, max_tokens=32)
        assert [a.token_ids for a in threads.map(lambda p: _ask(model, p, **how), PROMPTS)] == fresh
        beside.result()
    assert [_ask(model, prompt, seed=7).token_ids for prompt in PROMPTS] == fresh
    assert _ask(model, PROMPTS[1], temperature=2, top_k=1, **how).token_ids == fresh[1]


@pytest.fixture
def new(path_of: Callable[[str], Path], request: pytest.FixtureRequest) -> Any:
    """Return a function that gives a model which nothing was asked of."""

    def load(name: str, **how: Any) -> Any:
        model = lm.load(path_of(name), ctx=514, threads=1, **how)
        request.addfinalizer(model.close)
        return model

    return load


def test_where_rows_differ_it_is_answered_beside_others(new: Any) -> None:
    """Weights that are repacked make no context for it: there it would be answered one at a time."""
    model = new("windowed")
    alike = model.backend.call(lambda core: core.alike())
    _ask(model, "Hi", max_tokens=2)
    assert (model.backend.call(lambda core: core.lanes.exact) is None) is not alike


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="products may go by pairs of rows")
def test_weights_as_they_are_in_the_file_are_the_way_to_it(new: Any) -> None:
    """Gemma's Q4_K and Q6_K are then multiplied row by row, as README's troubleshooting says."""
    model = new("gemma", profile="quality")
    answers = [_ask(model, "Hi", max_tokens=4, **how).token_ids for how in ({}, {"seed": 1})]
    assert model.backend.call(lambda core: core.lanes.exact.together)
    assert model.backend.call(lambda core: core.lanes.shared.last) is None  # no answer was written there
    assert answers[0] == answers[1]


def test_without_memory_for_a_second_context_it_is_answered_in_the_first(new: Any) -> None:
    """It is tried once; a seed is refused as before."""
    model, tried = new("short"), []

    def refuse() -> None:
        tried.append(1)
        raise FitError("no room")

    object.__setattr__(model.backend.options, "before", {"exact": refuse})
    answers = [_ask(model, "Hi", max_tokens=4).token_ids for _ in range(2)]
    assert answers[0] == answers[1]
    assert len(tried) == 1
    with pytest.raises(FitError, match="no room"):
        _ask(model, "Hi", max_tokens=4, seed=1)
