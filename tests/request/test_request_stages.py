"""The table of sampler stages: what derives from a row agrees with it, and with llama.cpp."""

from __future__ import annotations

import ctypes
import typing
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import llama_cpp as c
import numpy as np
import pytest

from llama_magic.display.boards import controls
from llama_magic.engine.native import SamplerChain
from llama_magic.engine.native.sampler import CANDIDATE, MAKERS
from llama_magic.errors import InputTypeError, OptionError
from llama_magic.loading.facts import file_sampling
from llama_magic.magics._options import SAMPLING
from llama_magic.magics._parse import parse_cell
from llama_magic.magics._readers import READERS
from llama_magic.request import stages
from llama_magic.request.sampling import Sampling
from llama_magic.request.stages import PARAMETERS, STAGES, Parameter, SamplingOptions, is_off

NUMBERS = [p for p in PARAMETERS.values() if p.type in ("int", "float")]


def _values(parameter: Parameter) -> Iterator[Any]:
    """Yield values that tell: the default, the ends of the range and of the slider, and between."""
    kind = int if parameter.type == "int" else float
    default = getattr(Sampling(), parameter.name)
    shape = parameter.slider
    ends = (parameter.low, min(parameter.high, 64), *((shape.low, shape.high) if shape else ()))
    near = (default, 0, 0.3, 0.5, 0.7, 1, 2, 3)
    for value in dict.fromkeys(kind(value) for value in (*near, *ends)):
        if parameter.choices and value not in parameter.choices:
            continue
        if parameter.low <= value <= parameter.high:
            yield value


@pytest.mark.parametrize(
    ("recipe", "certain"),
    [
        ({}, False),
        ({"temperature": 0}, True),
        ({"temperature": 0, "top_k": 1, "samplers": ()}, True),
        ({"temperature": 0, "mirostat": 1}, False),
        ({"top_k": 1}, True),
        ({"top_k": 1, "samplers": ("temperature",)}, False),
        ({"top_k": 1, "mirostat": 2}, False),
        ({"top_k": 1, "samplers": ("xtc", "top_k"), "xtc_probability": 0.5}, False),
        ({"top_k": 1, "samplers": ("top_k", "xtc"), "xtc_probability": 0.5}, True),
        ({"top_k": 1, "samplers": ("xtc", "top_k")}, True),
    ],
)
def test_what_leaves_nothing_to_chance(recipe: dict[str, Any], certain: bool) -> None:
    """Temperature 0, or one token left by a stage that runs, with no chance before it."""
    assert Sampling(**recipe).certain is certain


def _recipes(stage: str) -> Iterator[Sampling]:
    """Yield recipes in which one or two of a stage's parameters differ from the default."""
    base = Sampling(samplers=("top_k", stage) if stage != "top_k" else ("top_k",))
    yield replace(base, logit_bias=((5, 2.0),)) if stage == "logit_bias" else base
    for one in STAGES[stage].parameters:
        for other in STAGES[stage].parameters:
            if {one.type, other.type} <= {"int", "float"}:
                for a in _values(one):
                    for b in _values(other) if other is not one else (a,):
                        yield replace(base, **{one.name: a, other.name: b})


@pytest.fixture(scope="module")
def weights(loaded: Callable[..., Any]) -> Any:
    return loaded("smollm2").backend.weights


def test_fields_options_and_rows_agree() -> None:
    """Each field of Sampling is one row's parameter and one keyword of a call, of the same type."""
    rows = [p.name for stage in STAGES.values() for p in stage.parameters] + ["min_keep", "samplers"]
    names = [field.name for field in fields(Sampling)]
    assert sorted(rows) == sorted(names)
    assert list(PARAMETERS) == names
    keywords = typing.get_type_hints(SamplingOptions)
    assert list(keywords) == names
    for name, kind in typing.get_type_hints(Sampling).items():
        if kind in (int, float):
            assert keywords[name] is kind, name
        else:  # a tuple is one of the sequences that the keyword takes
            assert typing.get_origin(kind) is tuple
            assert "Sequence" in str(keywords[name]), name


@pytest.mark.parametrize("parameter", NUMBERS, ids=lambda p: p.name)
def test_a_range_holds_its_default_and_its_slider(parameter: Parameter) -> None:
    """Each end of a range is taken, what lies beyond is refused, and default and slider lie within."""
    kind = int if parameter.type == "int" else float
    low, high = (min(parameter.choices), max(parameter.choices)) if parameter.choices else (
        parameter.low, parameter.high)  # fmt: skip
    kept = {"samplers": ("top_k",)}
    for value in (low, high):
        assert getattr(Sampling(**kept, **{parameter.name: kind(value)}), parameter.name) == kind(value)
    for value in (kind(low - 1), kind(high + 1)):
        with pytest.raises(OptionError, match=parameter.name):
            Sampling(**{parameter.name: value})
    default = getattr(Sampling(), parameter.name)
    assert low <= default <= high
    if shape := parameter.slider:
        assert low <= shape.low < shape.high <= high
        assert isinstance(shape.step, int) == (parameter.type == "int")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("parameter", [p for p in NUMBERS if p.type == "float"], ids=lambda p: p.name)
def test_no_parameter_is_endless(parameter: Parameter, value: float) -> None:
    """NaN and both infinities are refused by name wherever a number is asked for."""
    with pytest.raises(OptionError, match=f"^{parameter.name} is {value}"):
        Sampling(**{parameter.name: value})


def test_every_row_has_a_native_constructor() -> None:
    """llama.cpp's constructors are those of the rows, no more and no fewer."""
    assert MAKERS.keys() == STAGES.keys()


@pytest.mark.parametrize("stage", STAGES)
def test_every_row_is_in_the_chain(weights: Any, stage: str) -> None:
    """A stage that is on is in the chain under its name, and llama.cpp's sampler there is the right one."""
    recipe = next(r for r in _recipes(stage) if not is_off(r, stage))
    chain = SamplerChain(weights, recipe, 1)
    try:
        native = [
            c.llama_sampler_name(c.llama_sampler_chain_get(chain.pointer, i)).decode()
            for i in range(len(chain.stages))
        ]
    finally:
        chain.close()
    assert tuple(chain.stages) == stages.chain(recipe)
    theirs = native[chain.stages.index(stage)].replace("-", "_")
    assert theirs.startswith({"typical_p": "typical", "temperature": "temp"}.get(stage, stage)), theirs


@pytest.mark.parametrize("stage", [s for s in STAGES if STAGES[s].does != "draws" and s != "infill"])
def test_what_is_off_changes_nothing(weights: Any, stage: str) -> None:
    """llama.cpp's own sampler, built from what `is_off` calls off, leaves the logits as they are."""
    logits = np.random.default_rng(7).normal(0, 4, weights.vocab.n_tokens).astype(np.float32)
    tried = {False: 0, True: 0}
    for recipe in dict.fromkeys(_recipes(stage)):
        off = is_off(recipe, stage)
        assert off == (stage not in stages.chain(recipe) and not recipe.greedy), recipe
        tried[off] += 1
        if off and tried[True] <= 12:
            assert _left_alone(MAKERS[stage](weights, recipe, 1), logits), recipe
    if stage != "logit_bias":
        assert min(tried.values()) > 0


def _left_alone(sampler: Any, logits: Any) -> bool:
    """Tell whether a sampler leaves the candidates as they are, shown a text that repeats."""
    rows = np.zeros(len(logits), CANDIDATE)
    rows["id"], rows["logit"] = np.arange(len(logits), dtype=np.int32), logits
    data = ctypes.cast(rows.ctypes.data, ctypes.POINTER(c.llama_token_data))
    array = c.llama_token_data_array(data, len(rows), -1, False)
    for token in (11, 12, 13, 14, 11, 12, 13, 14, 11, 12, 13):
        c.llama_sampler_accept(sampler, token)
    c.llama_sampler_apply(sampler, ctypes.byref(array))
    c.llama_sampler_free(sampler)
    return array.size == len(logits) and bool((np.sort(rows["logit"]) == np.sort(logits)).all())


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_parameter_is_on_the_command_line(name: str) -> None:
    """Each parameter has one option, whose value as it is written comes back as that parameter."""
    (option,) = [option for option in SAMPLING if option.key == name]
    assert option.flags[-1] == PARAMETERS[name].option
    assert option.kind in READERS
    assert option.help
    default = getattr(Sampling(), name)
    text, value = {
        "samplers": ("top_k", "top_k"),
        "logit_bias": ("7=2", ((7, 2.0),)),
        "dry_sequence_breakers": ("x", ("x",)),
    }.get(name, (str(default), default))
    given = parse_cell(f"complete {option.flags[-1]} {text}").options
    assert given == {name: value}
    Sampling(**given)


def test_every_slider_is_a_rows() -> None:
    """A parameter has a slider if its row says so, with the row's range, step and words."""
    assert set(controls.SLIDERS) == {p.name for p in PARAMETERS.values() if p.slider}
    assert {"temperature", "top_k", "top_p", "min_p", "repeat_penalty"} <= set(controls.SLIDERS)
    for name in controls.SLIDERS:
        shape, made = PARAMETERS[name].slider, controls.slider(name)
        assert shape is not None
        low = min(shape.low, getattr(Sampling(), name))
        assert (made.min, made.max, made.step, made.tooltip) == (low, shape.high, shape.step, shape.hint)


def test_every_file_key_is_read() -> None:
    """What a GGUF file says under `general.sampling` is the default; llama.cpp's keys are all known."""
    keys = {p.file_key: p.name for p in PARAMETERS.values() if p.file_key}
    assert set(keys) == {
        "temp", "top_k", "top_p", "min_p", "xtc_probability", "xtc_threshold", "penalty_last_n",
        "penalty_repeat", "mirostat", "mirostat_tau", "mirostat_eta",
    }  # fmt: skip
    for key, name in keys.items():
        assert getattr(file_sampling({f"general.sampling.{key}": 1}), name) == 1


def test_sentences_of_rows_name_what_they_are_about() -> None:
    """Every sentence that a row may say is said for some recipe, filled in, and names a parameter."""
    for stage in STAGES.values():
        for told, text in stage.says:
            recipe = next(r for r in _all_recipes(stage.name) if told(r))
            said = text.format(s=recipe)
            assert "{" not in said
            assert any(p.name in said for p in stage.parameters), said


def _all_recipes(stage: str) -> Iterator[Sampling]:
    yield from _recipes(stage)
    for recipe in _recipes(stage):
        yield replace(recipe, min_keep=50)


def test_llama_cpps_own_names_of_stages_are_understood() -> None:
    """The order that `llama-cli --help` prints, its other names, and hyphens; what is no stage is named."""
    printed = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"
    assert Sampling(samplers=printed).samplers == Sampling().samplers
    assert Sampling(samplers="top-k;nucleus;typical-p;temp").samplers == (
        *("top_k", "top_p", "typical_p", "temperature"),
    )
    with pytest.raises(OptionError, match="'top_p' stands twice"):
        Sampling(samplers="top_p;nucleus")
    with pytest.raises(OptionError, match="no sampler 'tempo'"):
        Sampling(samplers="tempo")


@pytest.mark.parametrize(
    "bias", [{True: 1}, {1: True}, {1: False}, [(5, False)], [[False, 1.0]], {1: None}, {1.5: 1}, {1: []}]
)
def test_a_bias_is_a_token_and_a_number(bias: Any) -> None:
    """True and False are no token and no number: False, which forbids elsewhere, did nothing."""
    with pytest.raises(InputTypeError, match="-inf in place of the number forbids"):
        Sampling(logit_bias=bias)
    assert Sampling(logit_bias={np.int64(5): np.float32(2)}).logit_bias == ((5, 2.0),)
