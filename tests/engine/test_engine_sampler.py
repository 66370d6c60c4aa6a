"""The sampler chain against one built by hand from the C API; log-probabilities against raw logits."""

from __future__ import annotations

import ctypes
import json
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import llama_cpp as c
import numpy as np
import pytest
from scripted_gguf import Scripted

from llama_magic.engine.lanes.logits import LogitRow
from llama_magic.errors import OptionError

PROMPT = "The river runs through the river valley, and the river"


@pytest.fixture(scope="module")
def model(loaded: Callable[..., Any]) -> Any:
    return loaded("short")


@pytest.fixture(scope="module")
def logits(model: Any) -> Any:
    """The raw logits after the prompt, from the C API alone: the prompt in one batch of its own."""
    return _raw_logits(model, model.tokenize(PROMPT))


def _raw_logits(model: Any, ids: list[int]) -> Any:
    params = c.llama_context_default_params()
    params.n_ctx, params.n_threads, params.n_threads_batch = 512, 1, 1
    context = c.llama_init_from_model(model.backend.weights.pointer, params)
    tokens = (ctypes.c_int32 * len(ids))(*ids)
    assert c.llama_decode(context, c.llama_batch_get_one(tokens, len(ids))) == 0
    n = c.llama_vocab_n_tokens(c.llama_model_get_vocab(model.backend.weights.pointer))
    row = np.ctypeslib.as_array(c.llama_get_logits_ith(context, -1), (n,)).copy()
    c.llama_free(context)
    return row


def _draw(samplers: list[Any], logits: Any, prompt: list[int]) -> int:
    """Run hand-built samplers, shown the prompt first, on a copy of the logits."""
    chain = c.llama_sampler_chain_init(c.llama_sampler_chain_default_params())
    for sampler in samplers:
        c.llama_sampler_chain_add(chain, sampler)
    for token in prompt:
        c.llama_sampler_accept(chain, token)
    rows = np.zeros(len(logits), [("id", "i4"), ("logit", "f4"), ("p", "f4")])
    rows["id"], rows["logit"] = np.arange(len(logits)), logits
    data = (c.llama_token_data * len(logits)).from_buffer(rows)
    array = c.llama_token_data_array(data, len(logits), -1, False)
    c.llama_sampler_apply(chain, ctypes.byref(array))
    token = array.data[array.selected].id
    c.llama_sampler_free(chain)
    return int(token)


def _cases(n: int, vocab: Any, seed: int) -> dict[str, tuple[dict[str, Any], list[Any]]]:
    """Return settings by name, each with the same chain built by hand."""
    off: dict[str, Any] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0}

    def dist() -> Any:
        return c.llama_sampler_init_dist(seed)

    def temp(t: float = 1.0) -> Any:
        return c.llama_sampler_init_temp_ext(t, 0.0, 1.0)

    breakers = (ctypes.c_char_p * 1)(b"\n")
    return {
        "defaults": ({}, [c.llama_sampler_init_top_k(40), c.llama_sampler_init_top_p(0.95, 0),
                          c.llama_sampler_init_min_p(0.05, 0), temp(0.8), dist()]),
        "temperature": ({**off, "temperature": 1.7}, [temp(1.7), dist()]),
        "temperature first": (
            {**off, "temperature": 2.0, "top_p": 0.6, "samplers": "temperature;top_p"},
            [temp(2.0), c.llama_sampler_init_top_p(0.6, 0), dist()]),
        "temperature last": (
            {**off, "temperature": 2.0, "top_p": 0.6, "samplers": "top_p;temperature"},
            [c.llama_sampler_init_top_p(0.6, 0), temp(2.0), dist()]),
        "penalties": (
            {**off, "repeat_penalty": 1.9, "repeat_last_n": -1, "presence_penalty": 0.5,
             "frequency_penalty": 0.7},
            [c.llama_sampler_init_penalties(n, 2048, 1.9, 0.7, 0.5), temp(), dist()]),
        "greedy with penalties": (
            {"temperature": 0, "repeat_penalty": 3.0, "repeat_last_n": 64},
            [c.llama_sampler_init_penalties(n, 64, 3.0, 0.0, 0.0), c.llama_sampler_init_greedy()]),
        "typical": ({**off, "typical_p": 0.4}, [c.llama_sampler_init_typical(0.4, 0), temp(), dist()]),
        "top_n_sigma": ({**off, "top_n_sigma": 1.5}, [c.llama_sampler_init_top_n_sigma(1.5), temp(), dist()]),
        "min_keep": ({**off, "min_p": 0.9, "min_keep": 5},
                     [c.llama_sampler_init_min_p(0.9, 5), temp(), dist()]),
        "xtc": ({**off, "xtc_probability": 1.0, "xtc_threshold": 0.02},
                [c.llama_sampler_init_xtc(1.0, 0.02, 0, seed), temp(), dist()]),
        "dry": ({**off, "dry_multiplier": 3.0, "dry_sequence_breakers": ["\n"]},
                [c.llama_sampler_init_dry(vocab, 3.0, 1.75, 2, 64, breakers, 1), temp(), dist()]),
        "dry in full": (
            {**off, "dry_multiplier": 4.0, "dry_base": 2.5, "dry_allowed_length": 1, "dry_penalty_last_n": 20,
             "dry_sequence_breakers": ["\n"]},
            [c.llama_sampler_init_dry(vocab, 4.0, 2.5, 1, 20, breakers, 1), temp(), dist()]),
        "top_k": ({**off, "top_k": 3}, [c.llama_sampler_init_top_k(3), temp(), dist()]),
        "adaptive": (
            {**off, "adaptive_target": 0.3, "adaptive_decay": 0.5, "samplers": "temperature;adaptive_p"},
            [temp(), c.llama_sampler_init_adaptive_p(0.3, 0.5, seed)]),
        "dynatemp, exponent": ({**off, "dynatemp_range": 0.5, "dynatemp_exponent": 3.0},
                               [c.llama_sampler_init_temp_ext(1.0, 0.5, 3.0), dist()]),
        "mirostat, tau and eta": (
            {"mirostat": 2, "temperature": 1.0, "mirostat_tau": 2.0, "mirostat_eta": 0.5},
            [c.llama_sampler_init_temp(1.0), c.llama_sampler_init_mirostat_v2(seed, 2.0, 0.5)]),
        "dynatemp": ({**off, "dynatemp_range": 0.5},
                     [c.llama_sampler_init_temp_ext(1.0, 0.5, 1.0), dist()]),
        "mirostat 1": ({"mirostat": 1, "temperature": 1.0},
                       [c.llama_sampler_init_temp(1.0),
                        c.llama_sampler_init_mirostat(n, seed, 5.0, 0.1, 100)]),
        "mirostat 2": ({"mirostat": 2, "temperature": 1.0},
                       [c.llama_sampler_init_temp(1.0), c.llama_sampler_init_mirostat_v2(seed, 5.0, 0.1)]),
    }  # fmt: skip


def test_same_seed_same_token_as_the_c_api(model: Any, logits: Any) -> None:
    """For every kind of stage and two orders, eight seeds draw the tokens that a hand-built chain draws."""
    prompt = model.tokenize(PROMPT)
    vocab = c.llama_model_get_vocab(model.backend.weights.pointer)
    for seed in range(8):
        for name, (settings, samplers) in _cases(len(logits), vocab, seed).items():
            token = model.complete(PROMPT, max_tokens=1, seed=seed, ignore_eos=True, **settings).token_ids[0]
            assert token == _draw(samplers, logits, prompt), (name, seed)


@pytest.mark.parametrize("text", [" blue", "blue", "é", "\n", "\n\n", "<|im_end|>"])
def test_a_bias_may_name_its_token_by_text(model: Any, text: str) -> None:
    """A text of one token, a control token's included, is biased as its id is: in a call and in a trace."""
    (token,) = model.tokenize(text)
    assert model.complete(PROMPT, max_tokens=1, seed=1, logit_bias={text: 100}).token_ids in ((token,), ())
    assert model.xray(PROMPT, seed=1, logit_bias=[(text, 100)]).drawn.id == token


def test_a_bias_on_several_tokens_is_refused_with_its_pieces(model: Any) -> None:
    """The error shows each token with its id, so that one can be chosen."""
    ids = model.tokenize(" blue sky a")
    with pytest.raises(OptionError, match="which is 3 tokens") as caught:
        model.complete(PROMPT, logit_bias={" blue sky a": -100})
    assert f"' blue' ({ids[0]}), ' sky' ({ids[1]}), ' a' ({ids[2]})" in str(caught.value)


def test_logit_bias_moves_and_forbids(model: Any) -> None:
    """A bias of -inf forbids the greedy token, +100 forces another, and neither is lost beside a
    constraint.
    """
    best = model.complete(PROMPT, max_tokens=1, temperature=0, seed=1).token_ids[0]
    other = model.complete(PROMPT, max_tokens=1, temperature=0, seed=1, logit_bias={best: -float("inf")})
    assert other.token_ids[0] != best
    forced = model.tokenize(" zebra")[0]
    assert model.complete(PROMPT, max_tokens=1, seed=1, logit_bias={forced: 100.0}).token_ids == (forced,)
    yes = [model.tokenize(begun)[0] for begun in ("yes", "ye", "y")]
    for bias, answer in ((50.0, "yes"), (-50.0, "no")):
        done = model.complete(PROMPT, choices=["yes", "no"], seed=1, logit_bias=dict.fromkeys(yes, bias))
        assert done.text == answer


def test_logprobs_are_a_log_softmax_of_raw_logits(model: Any, logits: Any) -> None:
    """The chosen token and the alternatives have the log-softmax of the C API's logits, sampler or not."""
    shifted = logits.astype(np.float64) - logits.max()
    expected = shifted - np.log(np.exp(shifted).sum())
    order = np.argsort(-expected, kind="stable")[:5]
    for settings in ({"temperature": 0}, {"temperature": 1.5, "top_k": 3, "repeat_penalty": 1.5}):
        first = model.complete(PROMPT, max_tokens=2, seed=3, logprobs=5, **settings).logprobs[0]
        assert first.logprob == pytest.approx(expected[first.token_id], abs=1e-4)
        assert [token for token, _, _ in first.top] == order.tolist()
        assert [value for _, _, value in first.top] == pytest.approx(expected[order].tolist(), abs=1e-4)
    assert model.complete(PROMPT, max_tokens=1, seed=3, logprobs=0).logprobs[0].top == ()
    assert model.complete(PROMPT, max_tokens=1, seed=3).logprobs is None


# --- nothing that can be asked for ends the process ---------------------------------------------

_WILD = """
import json, sys
import llama_magic as lm
path, cases = json.loads(sys.stdin.read())
with lm.load(path, ctx=512, threads=1) as model:
    for case in cases:
        case = {k: float("-inf") if v == "-inf" else v for k, v in case.items()}
        if case.pop("forbid", False):
            case["logit_bias"] = {i: float("-inf") for i in range(len(model.info.tokens))}
        try:
            model.complete("ab", max_tokens=4, **case)
        except lm.LlamaMagicError:
            pass
print("alive")
"""


def test_wild_settings_do_not_end_the_process(scripted_file: Scripted) -> None:
    """Extreme and random parameters, every token forbidden, are answered or refused; the process lives."""
    draw = random.Random(5)
    extremes: dict[str, list[Any]] = {
        "temperature": [-1, 0, 1e-45, 1e-30, 1e4], "top_k": [-1, 0, 1, 2**31 - 1], "top_p": [0, 1e-9, 1],
        "min_p": [0, 1], "typical_p": [0, 1e-9, 1], "top_n_sigma": [0, 1e-9, 1e30],
        "repeat_penalty": [1e-6, 1e4],
        "repeat_last_n": [-1, 2**31 - 1], "presence_penalty": [-1e4, 1e4], "frequency_penalty": [-1e4, 1e4],
        "dry_multiplier": [0.0, 1e4], "dry_base": [1e4], "dry_allowed_length": [0, 2**31 - 1],
        "dry_penalty_last_n": [-1, 2**31 - 1], "xtc_probability": [1], "xtc_threshold": [0, 0.5],
        "dynatemp_range": [1e4], "dynatemp_exponent": [0, 1e4], "mirostat": [1, 2], "mirostat_tau": [0, 1e4],
        "mirostat_eta": [0, 1e4], "min_keep": [0, 2**31 - 1], "adaptive_target": [0, 1],
        "samplers": ["", "top_k", "infill", "adaptive_p", "temperature;min_p"], "seed": [0, 2**32 - 2],
        "n": [1, 3],
    }  # fmt: skip
    cases: list[dict[str, Any]] = [{name: value} for name, values in extremes.items() for value in values]
    for _ in range(150):
        names = draw.sample(list(extremes), 6)
        cases.append({name: draw.choice(extremes[name]) for name in names})
    cases += [{"forbid": True}, {"forbid": True, "temperature": 0}, {"forbid": True, "mirostat": 1}]
    cases += [{"forbid": True, "choices": ["a", "b"]}, {"forbid": True, "mirostat": 2}]
    done = subprocess.run(
        [sys.executable, "-c", _WILD], input=json.dumps([str(scripted_file.path), cases]),
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "alive"), done.stderr[-1500:]


def _rows() -> list[Any]:
    """Rows of logits of many sizes, some with few different values, some mostly forbidden."""
    chance = np.random.default_rng(7)
    rows = [chance.normal(size=n).astype(np.float32) for n in (1, 2, 63, 64, 65, 640, 5000, 49_152)]
    rows += [np.round(row) for row in rows]  # many ties
    for row in list(rows[3:8]):
        masked = row.copy()
        masked[chance.random(len(row)) < 0.99] = -np.inf
        masked[len(row) // 2] = 1.5
        rows.append(masked)
    return rows


def test_likeliest_tokens_are_those_of_a_sort() -> None:
    """The likeliest tokens and their order are those of a sort of the whole row, lower ids first among
    equals, also where they lie together and where most are forbidden.
    """
    for row in _rows():
        for values in (row, np.sort(row), np.sort(row)[::-1].copy()):
            order, normaliser = np.lexsort((np.arange(len(values)), -values)), LogitRow(values).normaliser
            for k in (1, 2, 5, 20, len(values)):
                expected = tuple((int(i), float(values[i]) - normaliser) for i in order[:k])
                assert LogitRow(values).top(k) == expected


def test_greedy_draw_is_the_librarys() -> None:
    """The first of the largest logits is what llama.cpp's greedy sampler draws, ties included."""
    for row in _rows():
        assert int(row.argmax()) == _draw([c.llama_sampler_init_greedy()], row, [])


def test_greedy_answer_goes_through_every_stage_that_changes_logits(model: Any) -> None:
    """At temperature 0 a bias and a penalty still count: the token that a plain answer begins with can be
    forbidden, and one that would be repeated is not.
    """
    options = {"max_tokens": 24, "temperature": 0, "ignore_eos": True}
    plain = model.complete(PROMPT, **options).token_ids
    biased = model.complete(PROMPT, logit_bias={plain[0]: -100}, **options).token_ids
    penalised = model.complete(PROMPT, repeat_penalty=100.0, repeat_last_n=-1, **options).token_ids
    assert biased[0] != plain[0]
    assert len(set(plain)) < len(plain)
    assert len(set(penalised)) == len(penalised)
