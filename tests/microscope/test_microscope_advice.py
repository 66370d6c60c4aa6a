"""Advice on recipes: what does nothing is named, what works is left alone."""

from __future__ import annotations

import math
from typing import Any

import pytest

from llama_magic.display import to_text
from llama_magic.microscope import advise
from llama_magic.request.sampling import Sampling


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
        {"top_k": 40, "repeat_penalty": 1.1, "xtc_probability": 0.5},
        {"mirostat": 2, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
        {"adaptive_target": 0.3, "samplers": "min_p;temperature;adaptive_p"},
        {"typical_p": 0.9, "top_n_sigma": 1.0, "samplers": "top_n_sigma;min_p;typical_p;temperature"},
        {"temperature": 0.5, "top_p": 1.0, "min_p": 0.0, "samplers": "temperature;top_k"},
    ],
    ids=str,
)
def test_a_recipe_that_works_gets_no_advice(given: dict[str, Any]) -> None:
    """llama.cpp's defaults and plain variants of them have nothing to warn of."""
    assert advise(Sampling(**given)) == ()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"temperature": 0.0}, "temperature 0 is greedy decoding: top_k, top_p and min_p are not used"),
        ({"temperature": 0.0, "dynatemp_range": 0.5}, "dynatemp_range is not used"),
        ({"mirostat": 2}, "mirostat 2 cuts by itself: top_k, top_p and min_p are not used"),
        ({"top_k": 1}, "top_k 1 leaves one token"),
        ({"top_p": 0.0}, "top_p 0 leaves one token"),
        ({"min_p": 1.0}, "min_p 1 leaves only"),
        ({"xtc_probability": 0.5, "xtc_threshold": 0.6}, "XTC does nothing"),
        ({"dry_multiplier": 1.0, "dry_base": 0.5}, "switches DRY off"),
        ({"dry_multiplier": 1.0, "dry_penalty_last_n": 0}, "gives DRY nothing to look at"),
        ({"repeat_penalty": 1.2, "repeat_last_n": 0}, "gives the penalties nothing to look at"),
        ({"repeat_penalty": 0.8}, "rewards repetition"),
        ({"repeat_penalty": 1.2, "dry_multiplier": 1.0}, "add up"),
        ({"dynatemp_range": 1.5}, "held at 0"),
        ({"top_k": 2, "min_keep": 5}, "does not hold for top_k"),
        ({"xtc_probability": 0.5, "samplers": "top_k;temperature"}, "xtc is set (xtc_probability 0.5)"),
        ({"adaptive_target": 0.3}, "adaptive_p is set"),
        ({"repeat_penalty": 1.2, "samplers": "top_k;penalties;temperature"}, "penalties stands after top_k"),
        ({"typical_p": 0.9, "top_n_sigma": 1.0}, "typical_p after top_n_sigma"),
        ({"typical_p": 0.9, "logit_bias": {5: -math.inf}}, "typical_p after logit_bias"),
        ({"temperature": 1.5, "samplers": "temperature;top_p"}, "flatter distribution"),
        ({"adaptive_target": 0.3, "samplers": "adaptive_p;top_k;temperature"}, "always runs last"),
        ({"xtc_threshold": 0.2}, "xtc_threshold does nothing: xtc is off (xtc_probability 0)"),
        ({"mirostat_tau": 3.0, "mirostat_eta": 0.2}, "mirostat_tau and mirostat_eta do nothing"),
        ({"dynatemp_exponent": 2.0}, "dynatemp_exponent 2 does nothing"),
    ],
    ids=str,
)
def test_what_does_nothing_is_said(given: dict[str, Any], words: str) -> None:
    """Each value or order that does nothing, or undoes another, has one sentence, shown with the chain."""
    sampling = Sampling(**given)
    assert sum(words in note for note in advise(sampling)) == 1
    assert words in to_text(sampling)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"temperature": 0.0}, ()),
        ({"temperature": 0.0, "top_p": 0.5}, ("temperature 0 is greedy decoding: top_p is not used.",)),
        ({"mirostat": 2}, ()),
        ({"mirostat": 2, "min_p": 0.2}, ("mirostat 2 cuts by itself: min_p is not used.",)),
        ({"temperature": 0.0, "dynatemp_range": 1.0}, ("temperature 0 is greedy decoding: dynatemp_range is "
                                                       "not used.",)),
        ({"repeat_penalty": 1.2, "dry_multiplier": 1.0}, ()),
        ({"temperature": 1.5, "samplers": "temperature;top_p"}, ()),
        ({"dry_base": 2.0}, ("dry_base does nothing: dry is off (dry_multiplier 0).",)),
        ({"adaptive_target": 0.05}, ("adaptive_p is set (adaptive_target 0.05), but the order in samplers "
                                     "leaves it out, so it does nothing.",)),
    ],
    ids=str,
)  # fmt: skip
def test_an_answer_says_which_of_the_options_did_nothing(
    scripted: Any, asked: dict[str, Any], said: tuple[str, ...]
) -> None:
    """Noted under an answer are options of that call that do nothing, and no others."""
    assert scripted.complete("a", max_tokens=1, **asked).notes == said
    assert scripted.complete("a", max_tokens=1, sampling=Sampling(**asked)).notes == said
    assert scripted.complete("a", max_tokens=1).notes == ()


def test_what_is_said_to_do_nothing_does_nothing(smollm2: Any) -> None:
    """Chains that differ only in what the advice calls unused leave the same distribution."""
    trace = smollm2.xray("The sky is", seed=1)
    pairs = [
        ({"temperature": 0.0}, {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}),
        ({"mirostat": 2}, {"mirostat": 2, "top_k": 3}),
        ({"xtc_probability": 1.0, "xtc_threshold": 0.6}, {}),
        ({"repeat_penalty": 1.9, "repeat_last_n": 0}, {}),
        ({"dry_multiplier": 1.0, "dry_base": 0.5}, {}),
        ({"xtc_threshold": 0.2, "mirostat_tau": 3.0, "dry_base": 2.0, "repeat_last_n": 5}, {}),
        ({"dynatemp_exponent": 3.0}, {}),
        ({"adaptive_target": 0.05}, {}),
    ]
    for with_it, without in pairs:
        a, b = trace.rerun(**with_it), trace.rerun(**without)
        assert a.drawn == b.drawn
        assert a.stages[-1].leaders == b.stages[-1].leaders


def test_the_text_form_of_a_chain_is_what_samplers_takes() -> None:
    """The order that the view prints builds the same order again."""
    sampling = Sampling(samplers=("min_p", "temperature", "xtc"))
    line = next(line for line in to_text(sampling).splitlines() if line.startswith("--samplers"))
    assert Sampling(samplers=line.split('"')[1]).samplers == sampling.samplers
