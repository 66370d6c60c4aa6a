"""`xray` against NumPy: each stage of 80 random chains; steps of real answers against what was drawn."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from typing import Any

import llama_cpp
import numpy as np
import pytest
from numpy_samplers import Chain

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.microscope import SamplerTrace
from llama_magic.request.sampling import Sampling
from llama_magic.request.stages import DEFAULT_ORDER
from llama_magic.words.harmless import blanks_shown

PROMPTS = (
    "Once upon a time",
    "The three primary colours are red, green and",
    'she said: "no" and she said: "no" and she said: "',
    "one two three four one two three four one two three",
    "import numpy as np\nimport",
)


class Words:
    """What the NumPy chain asks of a vocabulary."""

    def __init__(self, model: Any) -> None:
        native = model.backend.tokenizer.native
        self.native = native
        self.n_tokens = native.n_tokens
        self.eog = set(native.eog_ids)
        self.eot = native.eot_id if native.eot_id is not None else native.eos_id
        self._texts: list[bytes] = []
        self._breakers: dict[Any, dict[int, list[tuple[int, ...]]]] = {}

    def piece(self, token: int) -> bytes:
        return self.native.piece(token, special=False)

    def dry_breakers(self, texts: tuple[str, ...]) -> dict[int, list[tuple[int, ...]]]:
        """Return for each token the tails that complete a breaker which begins in it."""
        if not self._texts:
            self._texts = [
                self.native.detokenize([i], remove_special=False, unparse_special=True)
                for i in range(self.n_tokens)
            ]
        if texts not in self._breakers:
            heads: dict[int, list[tuple[int, ...]]] = {}
            for text in map(str.encode, texts):
                for token, word in enumerate(self._texts):
                    if text in word:
                        heads.setdefault(token, []).append(())
                        continue
                    for size in range(1, len(text)):  # the token ends with a beginning of the breaker
                        if word.endswith(text[:size]):
                            tail = self.native.tokenize(text[size:], add_special=False, parse_special=False)
                            heads.setdefault(token, []).append(tuple(tail[:20]))
            self._breakers[texts] = heads
        return self._breakers[texts]


@pytest.fixture(scope="module")
def words(smollm2: Any) -> Words:
    return Words(smollm2)


@pytest.fixture(scope="module")
def traces(smollm2: Any) -> list[SamplerTrace]:
    return traces_of(smollm2)


def traces_of(smollm2: Any) -> list[SamplerTrace]:
    """Return one trace a prompt; every random chain runs on the logits of one of them."""
    return [smollm2.xray(prompt, seed=1) for prompt in PROMPTS]


def recipe(seed: int) -> Sampling:
    """Return a random recipe: any subset of stages, in the default or a random order."""
    r = random.Random(seed)
    order = list(DEFAULT_ORDER)
    if r.random() < 0.5:
        r.shuffle(order)
        order = order[: r.randint(2, len(order))]
    if r.random() < 0.15:
        order.append("infill")

    def maybe(value: Any, off: Any, share: float = 0.4) -> Any:
        return value if r.random() < share else off

    given = {
        "temperature": maybe(r.choice([0.0, 5e-5]), r.uniform(0.1, 2.0), 0.1),
        "top_k": maybe(r.choice([1, 2, 5, 40, 200, 1000]), 0, 0.6),
        "top_p": maybe(r.choice([0.0, r.uniform(0.05, 0.99)]), 1.0, 0.6),
        "min_p": maybe(r.uniform(0.001, 1.0), 0.0),
        "typical_p": maybe(r.uniform(0.05, 0.99), 1.0),
        "top_n_sigma": maybe(r.uniform(0.2, 3.0), -1.0, 0.25),
        "repeat_penalty": maybe(r.uniform(0.7, 2.0), 1.0),
        "repeat_last_n": r.choice([-1, 0, 3, 64]),
        "presence_penalty": maybe(r.uniform(-1, 1), 0.0, 0.25),
        "frequency_penalty": maybe(r.uniform(-1, 1), 0.0, 0.25),
        "dry_multiplier": maybe(r.uniform(0.1, 2.0), 0.0, 0.3),
        "dry_base": r.choice([1.0, 1.2, 1.75, 3.0]),
        "dry_allowed_length": r.choice([0, 1, 2, 3]),
        "dry_penalty_last_n": r.choice([-1, 4, 64]),
        "dry_sequence_breakers": r.choice([("\n", ":", '"', "*"), (": ", " and she"), ()]),
        "xtc_probability": maybe(r.uniform(0.1, 1.0), 0.0),
        "xtc_threshold": r.uniform(0.01, 0.6),
        "dynatemp_range": maybe(r.uniform(0.1, 1.5), 0.0, 0.25),
        "dynatemp_exponent": r.uniform(0.5, 2.0),
        "min_keep": r.choice([0, 0, 1, 3]),
        "logit_bias": maybe(((10, 5.0), (260, -2.0), (284, float("-inf"))), (), 0.2),
    }
    kind = r.random()
    if kind < 0.1:
        given |= {
            "mirostat": r.choice([1, 2]),
            "mirostat_tau": r.uniform(1, 6),
            "temperature": r.uniform(0.5, 1.5),
        }
    elif kind < 0.2:
        order.append("adaptive_p")
        given["adaptive_target"] = r.uniform(0.0, 1.0)
    if "infill" in order:
        given["top_k"] = min(given["top_k"], 40) or 40  # it compares every token with every other one
        order = ["top_k", *(name for name in order if name != "top_k")]
    return Sampling(samplers=tuple(order), **given)


SEEDS = 80  # of 200 in soak_stages.py; Mirostat 1 is at work in two, every other stage in four or more


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_stage_is_the_numpy_statement_of_it(
    smollm2: Any, words: Words, traces: list[SamplerTrace], seed: int
) -> None:
    """Names, survivors, logits and the drawn token equal the definition of each sampler, stage by stage."""
    follow(smollm2, words, traces, seed)


def follow(smollm2: Any, words: Words, traces: list[SamplerTrace], seed: int) -> Sampling:
    """Follow one random chain and return its recipe.

    A chain is followed no further where a sum of thousands of float32 probabilities meets its limit
    to the last bits: one token of less than 0.0001 may then be in or out.
    """
    trace = traces[seed % len(traces)]
    sampling = recipe(seed)
    again = trace.rerun(sampling)
    history = smollm2.tokenize(PROMPTS[seed % len(PROMPTS)])
    logits = np.empty(words.n_tokens, np.float32)
    logits[trace.stages[0].ids] = trace.stages[0].logits
    expected = Chain(sampling, again.seed, words, history).run(logits)
    assert [stage.name for stage in again.stages[1:]] == [name for name, _, _ in expected]
    before = logits
    for stage, (name, left, drawn) in zip(again.stages[1:], expected, strict=True):
        if name == "typical_p" and (np.exp(before - before.max()) == 0).any():
            return sampling  # 0 * log 0: llama.cpp's entropy is NaN there, and what it keeps is arbitrary
        alive = left.logits > -np.inf
        differ = np.setxor1d(stage.ids, left.ids[alive])
        if len(differ):
            # One more or less where a float32 sum over thousands meets its limit by a hair.
            share = np.exp(logits[differ] - logits.max()) / np.exp(logits - logits.max()).sum()
            assert name in ("top_p", "typical_p"), (name, sampling)
            assert len(differ) == 1, (name, sampling)
            assert share.max() < 1e-4, (name, sampling)
            return sampling
        ours, theirs = np.argsort(stage.ids), np.argsort(left.ids[alive])
        np.testing.assert_array_equal(stage.ids[ours], left.ids[alive][theirs], err_msg=f"{name} {sampling}")
        np.testing.assert_allclose(
            stage.logits[ours], left.logits[alive][theirs], rtol=1e-4, atol=1e-4, err_msg=name
        )
        weights = np.exp(left.logits[alive].astype(np.float64) - left.logits.max())
        p = weights[weights > 0] / weights.sum()
        assert stage.entropy_bits == pytest.approx(-(p * np.log2(p)).sum(), abs=1e-3), name
        assert stage.survivors == alive.sum()
        if drawn is not None:
            assert again.drawn.id == left.ids[drawn], sampling
        before = left.logits
    return sampling


def test_mass_kept_is_measured_in_the_models_own_distribution(smollm2: Any) -> None:
    """After top_k 3 the mass kept is the sum of the three largest softmax values, temperature or not."""
    trace = smollm2.xray("The sky is", seed=1, samplers=("temperature", "top_k"), temperature=0.5, top_k=3)
    whole = np.sort(trace.stages[0].probabilities)[::-1]
    assert trace.stages[-1].mass_kept == pytest.approx(float(whole[:3].sum()), abs=1e-6)
    assert trace.stages[0].mass_kept == trace.stages[1].mass_kept == 1.0
    assert [text for text, _ in trace.stages[2].leaders] == [text for text, _ in trace.stages[0].leaders[:3]]


RECIPES: tuple[dict[str, Any], ...] = (
    {"seed": 3},
    {"temperature": 1.5},
    {"seed": 3, "temperature": 0.0},
    {"seed": 3, "xtc_probability": 0.5, "xtc_threshold": 0.05},
    {"seed": 3, "mirostat": 1},
    {"seed": 3, "mirostat": 2, "mirostat_tau": 3.0},
    {"seed": 4, "adaptive_target": 0.3, "samplers": "top_k;temperature;adaptive_p"},
    {"seed": 5, "repeat_penalty": 1.3, "dry_multiplier": 0.8},
    {"seed": 1, "regex": "[a-z ]{5,20}"},
    {"seed": 5, "n": 3},
)


# A Gemma's seeded calls go one at a time; what a chain remembers is the same.
# `soak_real_models.py` has the real one.
ON_GEMMA = [0, 1, 8, 9]
STEPS = [("short", recipe) for recipe in RECIPES] + [("windowed", RECIPES[i]) for i in ON_GEMMA]


@pytest.mark.parametrize(("name", "options"), STEPS, ids=str)
def test_every_step_of_an_answer_draws_what_the_answer_has(
    name: str, options: dict[str, Any], loaded: Callable[..., Any]
) -> None:
    """The rebuilt chain, memory and random numbers included, draws each token again."""
    made = loaded(name).complete("Once upon a time there was", max_tokens=8, **options)
    for answer in made if isinstance(made, list) else [made]:
        steps = [answer.xray(step) for step in range(len(answer.token_ids))]
        assert [step.drawn.id for step in steps] == list(answer.token_ids)
        assert not any("draws" in note for step in steps for note in step.notes)


def test_the_draw_that_ended_an_answer_can_be_seen(smollm2: Any) -> None:
    """After the last token comes the step at which the model chose to stop."""
    answer = smollm2.chat([{"role": "user", "content": "Say hi."}], max_tokens=60, seed=1, temperature=0.0)
    assert answer.finish_reason == "stop"
    end = answer.xray(len(answer.token_ids))
    assert end.drawn.text == "<|im_end|>"
    with pytest.raises(OptionError, match="There is no step"):
        answer.xray(len(answer.token_ids) + 1)
    with pytest.raises(InputTypeError):
        answer.xray(True)


def test_a_constraint_is_a_stage_of_its_own(smollm2: Any) -> None:
    """What a constraint forbids is gone before the first sampler; forced tokens are said to be forced."""
    answer = smollm2.complete("Colour:", choices=["crimson", "crimson red"], seed=1, max_tokens=8)
    stages = [answer.xray(step) for step in range(len(answer.token_ids))]
    assert all(
        trace.stages[0].name == "constraint" or trace.stages[1].name == "constraint" for trace in stages
    )
    forced = [trace for trace in stages if len(trace.stages) == 1]
    assert forced
    assert all("without a draw" in trace.notes[0] and trace.drawn.probability == 1.0 for trace in forced)
    with pytest.raises(OptionError, match="no logits"):
        forced[0].rerun(top_k=1)


def newer_answers(model: Any) -> None:
    """Keep so many rows of logits that those of all answers so far are overwritten."""
    store, row = model.backend.steps, np.zeros(model.backend.tokenizer.n_tokens, np.float32)
    model.backend.call(lambda _core: [store.put(row) for _ in range(store.capacity)])


def test_steps_that_are_no_longer_kept_are_read_again(short: Any) -> None:
    """When newer answers took the memory, the text is read again and the trace says so."""
    answer = short.complete("Once upon a time there was", max_tokens=6, seed=3)
    kept = answer.xray(4)
    newer_answers(short)
    again = answer.xray(4)
    assert "no longer kept" in again.notes[0]
    assert abs(again.stages[0].entropy_bits - kept.stages[0].entropy_bits) < 0.2
    assert again.context == kept.context


def test_candidates_are_the_leaders_of_every_stage(short: Any) -> None:
    """Each row's id is the token's own, and its probability the stage's."""
    trace = short.xray("The sky is", seed=1)
    frame = trace.candidates()
    assert list(frame["stage"].unique()) == [stage.name for stage in trace.stages]
    for stage in trace.stages:
        rows = frame[frame["stage"] == stage.name]
        assert list(zip(rows["token"], rows["probability"], strict=True)) == list(stage.leaders)
        assert all(short.detokenize([i]) == text for i, text in zip(rows["id"], rows["token"], strict=True))


def test_a_step_read_again_has_its_constraint(short: Any) -> None:
    """The matcher is led over the answer's tokens: the same tokens are left as at the draw."""
    answer = short.complete("Colour:", regex="[a-z]{3,9} (red|blue)", seed=1, max_tokens=12)
    steps = [step for step in range(len(answer.token_ids)) if len(answer.xray(step).stages) > 1]
    kept = [answer.xray(step).stages[1] for step in steps]
    assert len(steps) > 2
    newer_answers(short)
    again = [answer.xray(step).stages[1] for step in steps[-2:]]
    for now, then in zip(again, kept[-2:], strict=True):
        assert now.name == then.name == "constraint"
        assert now.survivors == then.survivors
        np.testing.assert_array_equal(now.ids, then.ids)


def test_a_draw_that_cannot_be_repeated_is_not_called_one(short: Any) -> None:
    """Where Mirostat's state is gone the headline says what the chain would draw and what the answer has."""
    answer = short.complete("Once upon a time there was", max_tokens=12, seed=3, mirostat=2)
    kept = [answer.xray(step) for step in range(12)]
    assert all(trace.exact and trace.drawn.text == trace.answer for trace in kept)
    assert f"drawn: “{blanks_shown(kept[5].answer)}”" in str(kept[5])
    newer_answers(short)
    lost = [answer.xray(step) for step in range(1, 12)]
    assert not any(trace.exact for trace in lost)
    assert [trace.answer for trace in lost] == [trace.answer for trace in kept[1:]]
    for trace in lost:
        shown = str(trace).splitlines()[0]
        if trace.drawn.text == trace.answer:
            assert shown.startswith("x-ray: drawn: ")
        else:
            said = f"would draw: “{blanks_shown(trace.drawn.text)}”"
            said += f", the answer has: “{blanks_shown(trace.answer)}”"
            assert shown.startswith(f"x-ray: {said}")
    assert any(trace.drawn.text != trace.answer for trace in lost)


def test_kept_logits_stay_within_their_budget(short: Any) -> None:
    """The ring of a model takes 64 MB at most, whatever was generated."""
    store = short.backend.steps
    assert store.capacity * 4 * short.backend.tokenizer.n_tokens <= 64 * 2**20
    newer_answers(short)
    assert 60 * 2**20 < store.nbytes <= 64 * 2**20


def test_a_rerun_decodes_nothing(short: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slider's move runs the chain on stored logits only: no token is fed."""
    trace = short.xray("The sky is", seed=1)
    before = short.kv
    with monkeypatch.context() as patch:
        patch.setattr(llama_cpp, "llama_decode", None)  # any call would be a TypeError
        for i in range(30):
            trace.rerun(temperature=0.2 + i / 30, top_k=i)
    after = short.kv
    assert [s.token_ids for s in before.sequences] == [s.token_ids for s in after.sequences]
    assert before.last == after.last


def test_a_trace_is_a_table_and_leaves_completions_copyable(short: Any) -> None:
    """One row a stage in pandas; a pickled answer is equal, and has no engine in it."""
    answer = short.complete("The sky is", max_tokens=2, seed=1)
    frame = answer.xray(0).to_pandas()
    assert next(iter(frame["stage"])) == "logits"
    assert list(frame["survivors"]) == sorted(frame["survivors"], reverse=True)
    for other in (pickle.loads(pickle.dumps(answer)), copy.deepcopy(answer)):
        assert other == answer
        with pytest.raises(OptionError, match="not generated in this process"):
            other.xray(0)
    assert "_tracer" not in repr(answer)
