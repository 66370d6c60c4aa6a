"""A move of the live view, as data: the chain run again without decoding, its words, its line to paste."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.magics._parse import parse_cell
from llama_magic.microscope import SamplerTrace, describe, move, options_line
from llama_magic.request.sampling import Sampling
from llama_magic.request.stages import DEFAULT_ORDER
from llama_magic.words.tables import percent


@pytest.fixture(scope="module")
def trace(smollm2: Any) -> SamplerTrace:
    """The trace of one token."""
    return smollm2.xray("The best thing about the sea is", seed=1)  # type: ignore[no-any-return]


def test_a_move_runs_the_changed_chain_and_decodes_nothing(smollm2: Any, trace: SamplerTrace) -> None:
    """Its trace has the changed stages only; the cache saw no call."""
    before = smollm2.kv
    made = move(trace, top_k=3, samplers="top_k;temperature", temperature=0.5, seed=9)
    assert [(s.name, s.survivors) for s in made.trace.stages] == [
        ("logits", 49_152),
        ("top_k", 3),
        ("temperature", 3),
        ("dist", 3),
    ]
    assert (made.trace.seed, made.trace.sampling.top_k) == (9, 3)
    assert smollm2.kv.last == before.last
    assert [s.token_ids for s in smollm2.kv.sequences] == [s.token_ids for s in before.sequences]


def test_another_seed_draws_what_an_answer_with_that_seed_draws(smollm2: Any, trace: SamplerTrace) -> None:
    """For 12 seeds the rerun draws the token of `xray(seed=…)`; they are not all the same token."""
    hot = {"temperature": 1.5, "top_p": 1.0, "min_p": 0.0}
    ours = [trace.rerun(seed=seed, **hot).drawn.id for seed in range(12)]
    made = [smollm2.xray("The best thing about the sea is", seed=s, **hot).drawn.id for s in range(12)]
    assert ours == made
    assert len(set(ours)) > 2
    for wrong, error in ((-1, OptionError), (True, InputTypeError), ("1", InputTypeError)):
        with pytest.raises(error):
            trace.rerun(seed=wrong)  # type: ignore[arg-type]


def test_a_trace_leads_to_the_other_steps_of_its_answer(smollm2: Any) -> None:
    """`at` gives what `completion.xray` gives, and `steps` says how many there are."""
    answer = smollm2.complete("Once upon a time", max_tokens=5, seed=5)
    first = answer.xray(0)
    assert first.steps == 5
    assert [first.at(i).drawn.id for i in range(5)] == list(answer.token_ids)
    assert first.rerun(top_k=1).at(3).sampling == answer.sampling
    with pytest.raises(OptionError, match="no step 5"):
        first.at(5)


def test_warnings_are_those_of_the_changed_chain(trace: SamplerTrace) -> None:
    """Only what the move brought is said: a cold temperature names the stages that it leaves unused."""
    assert move(trace).warnings == ()
    [said] = move(trace, temperature=0.0).warnings
    assert "greedy decoding: top_k, top_p and min_p are not used" in said
    [said] = move(trace, samplers="temperature;top_p", temperature=1.5).warnings
    assert "temperature 1.5 stands before top_p" in said


def test_the_sentence_has_the_figures_of_the_last_stage(trace: SamplerTrace) -> None:
    """Survivors, probability cut, entropy and the drawn token, in words; a token of blanks is named."""
    made = move(trace, top_k=1).trace
    removed = 1 - made.stages[-1].mass_kept
    assert describe(made) == (
        f"1 token is left of 49,152; {percent(removed)} of the model's probability was cut; "
        "0.00 bits of entropy; “that” is drawn, at 100%."
    )
    assert describe(move(trace, temperature=0.0).trace) == "The likeliest of 49,152 tokens is taken: “that”."
    newline = trace.stages[0].ids[trace.stages[0].ids == 198]  # SmolLM2's "\n"
    only = trace.rerun(logit_bias={int(newline[0]): 1000.0})
    assert "; a line break is drawn, at 100%." in describe(only)
    rare = replace(made, drawn=replace(made.drawn, probability=0.0012))
    assert describe(rare).endswith("“that” is drawn, at 0.1%.")  # as in the table, not 0%


@pytest.mark.parametrize("seed", range(60))
def test_the_line_to_paste_gives_the_same_recipe(seed: int) -> None:
    """Read by the magic's own parser over any defaults of temperature, top_k, top_p and min_p."""
    r = random.Random(seed)
    order = r.sample(DEFAULT_ORDER, r.randint(0, len(DEFAULT_ORDER)))
    recipe = Sampling(
        temperature=round(r.uniform(0, 2), 2),
        top_k=r.choice([-1, 0, 1, 40, 300]),
        top_p=r.choice([0.95, 1.0, 0.123]),
        min_p=r.choice([0.05, 0.0, 0.005]),
        typical_p=r.choice([1.0, 0.7]),
        top_n_sigma=r.choice([-1.0, 1.5]),
        repeat_penalty=r.choice([1.0, 1.15]),
        mirostat=r.choice([0, 0, 2]),
        xtc_probability=r.choice([0.0, 0.5]),
        logit_bias=r.choice([(), ((15, -2.5), (3, float("-inf")))]),
        dry_sequence_breakers=r.choice([("\n", ":"), ("'\"", "\\n", "\t"), Sampling().dry_sequence_breakers]),
        samplers=tuple(order) if r.random() < 0.7 else DEFAULT_ORDER,
    )
    read = dict(parse_cell(f"xray {options_line(recipe, 7)}").options)
    assert read.pop("seed") == 7
    other = Sampling(temperature=0.1, top_k=7, top_p=0.5, min_p=0.3)
    assert other.replace(**read) == recipe


def test_the_line_names_what_was_moved_back_to_a_default() -> None:
    """A value that the trace began with elsewhere is named even where it equals llama.cpp's default."""
    base = Sampling(repeat_penalty=1.3)
    assert options_line(Sampling(), base=base) == (
        "--temperature 0.8 --top-k 40 --top-p 0.95 --min-p 0.05 --repeat-penalty 1"
    )
    assert options_line(Sampling(temperature=0.1 + 0.2)).startswith("--temperature 0.3 ")
