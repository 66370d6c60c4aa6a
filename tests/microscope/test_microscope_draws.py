"""Many draws from one distribution: llama.cpp's own chain with each seed, and frequencies within a bound."""

from __future__ import annotations

import ctypes
import math
import re
from typing import Any

import llama_cpp as c
import numpy as np
import pytest

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.microscope import Draws, SamplerTrace
from llama_magic.request.stages import MAX_SEED

PROMPT = "The best thing about the sea is"
# Recipes, and whether every seed has to run every stage.
RECIPES: dict[str, tuple[dict[str, Any], bool]] = {
    "default": ({}, False),
    "hot": ({"temperature": 1.5, "top_k": 0, "top_p": 1.0, "min_p": 0.0}, False),
    "order": ({"samplers": "temperature;top_p;top_k", "temperature": 1.3, "top_k": 5}, False),
    "only the draw": ({"samplers": ""}, False),
    "penalties": ({"repeat_penalty": 1.5, "presence_penalty": 0.5}, False),
    "greedy": ({"temperature": 0.0}, False),
    "xtc": ({"xtc_probability": 0.5}, True),
    "mirostat": ({"mirostat": 2}, True),
    "adaptive": ({"adaptive_target": 0.3, "samplers": "top_k;adaptive_p"}, True),
}


@pytest.fixture(scope="module")
def trace(smollm2: Any) -> SamplerTrace:
    """The trace of one token."""
    return smollm2.xray(PROMPT, seed=1)  # type: ignore[no-any-return]


def native(samplers: list[Any], logits: Any, skip: int = 0) -> int:
    """Return what a chain built from the C API draws the `skip + 1`-th time from the same logits."""
    chain = c.llama_sampler_chain_init(c.llama_sampler_chain_default_params())
    for sampler in samplers:
        c.llama_sampler_chain_add(chain, sampler)
    for _ in range(skip + 1):
        rows = np.zeros(len(logits), [("id", np.int32), ("logit", np.float32), ("p", np.float32)])
        rows["id"], rows["logit"] = np.arange(len(logits)), logits
        data = ctypes.cast(rows.ctypes.data, ctypes.POINTER(c.llama_token_data))
        array = c.llama_token_data_array(data, len(logits), -1, False)
        c.llama_sampler_apply(chain, ctypes.byref(array))
    token = array.data[array.selected].id
    c.llama_sampler_free(chain)
    return int(token)


def test_each_draw_is_that_of_llama_cpps_own_chain(trace: SamplerTrace) -> None:
    """40 seeds through a chain built by hand from the C API: token for token what `draws` says."""
    logits = np.full(trace.stages[0].survivors, -np.inf, np.float32)
    logits[trace.stages[0].ids] = trace.stages[0].logits
    made = trace.draws(40)
    assert made.seeds == tuple(range(1, 41))
    for seed, token in zip(made.seeds, made.ids, strict=True):
        chain = [
            c.llama_sampler_init_top_k(40),
            c.llama_sampler_init_top_p(0.95, 0),
            c.llama_sampler_init_min_p(0.05, 0),
            c.llama_sampler_init_temp_ext(0.8, 0.0, 1.0),
            c.llama_sampler_init_dist(seed),
        ]
        assert native(chain, logits) == token, seed
    assert len(set(made.ids)) >= 4
    assert made.ids[0] == trace.drawn.id


@pytest.mark.parametrize("name", RECIPES)
def test_each_draw_is_that_of_a_rerun(trace: SamplerTrace, name: str) -> None:
    """Whichever stages have random numbers; probabilities are those of the last stage, or not said."""
    changes, alone = RECIPES[name]
    begun = trace.rerun(seed=7, **changes)
    made = begun.draws(12)
    assert made.ids == tuple(begun.rerun(seed=seed).drawn.id for seed in range(7, 19))
    assert made.drawn.id == begun.drawn.id
    assert made.sampling == begun.sampling
    for token in made.tokens:
        assert token.seeds == tuple(s for s, i in zip(made.seeds, made.ids, strict=True) if i == token.id)
        assert token.count == len(token.seeds)
        if alone:
            assert token.probability is None
        elif name == "greedy":
            assert token.probability == 1
        else:
            [place] = np.flatnonzero(begun.stages[-1].ids == token.id)
            assert token.probability == begun.stages[-1].probabilities[place]
    assert sum(token.count for token in made.tokens) == made.n == 12
    assert made.others == tuple(s for s, i in zip(made.seeds, made.ids, strict=True) if i != made.ids[0])


@pytest.mark.parametrize(("recipe", "n"), [("default", 3_000), ("hot", 1_000)])
def test_frequencies_agree_with_the_probabilities(trace: SamplerTrace, recipe: str, n: int) -> None:
    """Of so many draws each count is within Bernstein's bound of n·p, which a right sampler leaves once in a
    million for any of the tokens; and a wrong temperature would be far outside of it."""
    begun = trace.rerun(**RECIPES[recipe][0])
    made = begun.draws(n)
    last = begun.stages[-1]
    counts = {token.id: token.count for token in made.tokens}
    log = math.log(2 * len(last.ids) * 1e6)

    def outside(probabilities: Any) -> int:
        far = 0
        for token, p in zip(last.ids.tolist(), probabilities.tolist(), strict=True):
            mean = made.n * p
            bound = math.sqrt(2 * mean * (1 - p) * log) + 2 * log / 3
            far += abs(counts.get(token, 0) - mean) > bound
        return far

    assert outside(last.probabilities.astype(np.float64)) == 0
    other = np.exp(last.logits.astype(np.float64) * 1.5)  # two thirds of the temperature
    assert outside(other / other.sum()) > 0


def test_draws_of_a_later_step_go_on_from_its_own_random_numbers(smollm2: Any) -> None:
    """At step 3 a seed's fourth number is drawn, and the answer's own seed draws the answer's token."""
    answer = smollm2.complete("Once upon a time", max_tokens=5, seed=5, temperature=1.2, min_p=0.0)
    trace = answer.xray(3)
    made = trace.draws(30)
    assert made.ids[0] == answer.token_ids[3]
    assert made.step == 3
    logits = trace.stages[0].logits
    for seed, token in zip(made.seeds[:6], made.ids, strict=False):
        chain = [
            c.llama_sampler_init_top_k(40),
            c.llama_sampler_init_top_p(0.95, 0),
            c.llama_sampler_init_temp_ext(1.2, 0.0, 1.0),
            c.llama_sampler_init_dist(seed),
        ]
        assert native(chain, logits, skip=3) == token, seed
    remembering = smollm2.complete("Once upon a time", max_tokens=5, seed=5, xtc_probability=0.5)
    again = remembering.xray(4).draws(3)
    assert again.ids[0] == remembering.token_ids[4]


def test_a_constraint_holds_for_every_draw(smollm2: Any) -> None:
    """Only what it allows is drawn; where it forces the token there is nothing to draw."""
    answer = smollm2.complete("Answer:", choices=["yes", "no"], seed=3, max_tokens=4, temperature=2.0)
    trace = answer.xray(0)
    allowed = set(trace.stages[1].ids.tolist())
    made = trace.rerun(top_k=0, top_p=1.0, min_p=0.0).draws(200)
    assert set(made.ids) <= allowed
    assert len(set(made.ids)) > 1
    forced = smollm2.complete("Colour:", choices=["crimson", "crimson red"], seed=1, max_tokens=8)
    step = next(i for i in range(len(forced.token_ids)) if len(forced.xray(i).stages) == 1)
    with pytest.raises(OptionError, match="holds no logits"):
        forced.xray(step).draws()


def test_seeds_are_counted_up_and_begin_again_at_0(trace: SamplerTrace) -> None:
    """After the largest seed comes 0; how many draws there are is checked."""
    made = trace.rerun(seed=MAX_SEED - 1).draws(4)
    assert made.seeds == (MAX_SEED - 1, MAX_SEED, 0, 1)
    assert trace.draws().n == 100
    for wrong, error in (
        ("3", InputTypeError),
        (True, InputTypeError),
        (0, OptionError),
        (10**9, OptionError),
    ):
        with pytest.raises(error, match="n is"):
            trace.draws(wrong)  # type: ignore[arg-type]


def test_draws_are_shown_and_read(trace: SamplerTrace) -> None:
    """Counts by text, a frame of a row a token, and a view that marks the trace's own token."""
    made = trace.draws(100)
    assert isinstance(made, Draws)
    assert sum(made.counts.values()) == 100
    assert made.counts[trace.drawn.text] == made.drawn.count
    frame = made.to_pandas()
    assert list(frame["count"]) == sorted(frame["count"], reverse=True)
    assert frame["share"].sum() == pytest.approx(1)
    said = str(made)
    first = made.tokens[0]
    assert "draws: 100 · seeds 1 to 100" in said
    assert re.search(rf"{first.count} +{first.count}% +{first.probability:.0%} +2, 3, 5", said)
    assert f"Seed 1 draws ◉ ·just. {len(made.others)} seeds of 100 would have drawn another token" in said
    wide = trace.rerun(temperature=1.8, top_k=0, top_p=1.0, min_p=0.0).draws(60)
    rows = [line for line in str(wide).split("\n") if line.startswith("◉ ")]
    assert len(rows) == 1
    assert "other tokens, drawn" in str(wide)
    assert "All of these seeds draw ◉ ·that." in str(trace.rerun(temperature=0.0).draws(5))
    assert "A stage of this chain draws, too" in str(trace.rerun(mirostat=1).draws(5))
