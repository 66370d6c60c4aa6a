"""One row a sampler stage: chain, option, help, range, slider, "off" and advice all read it.

To add a stage: its row and its parameters here, and its constructor in `engine/native/sampler.py`.
Pure data, and light: the magics read it when the extension is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, TypedDict

MAX_SEED = 0xFFFFFFFE  # 0xFFFFFFFF is llama.cpp's LLAMA_DEFAULT_SEED: "draw one"
COLDEST = 1e-4  # below this temperature llama.cpp's numbers overflow
_MOST = 1e4
_WHOLE = 2**31 - 1


@dataclass(frozen=True)
class Slider:
    """Least, most and step of a slider (whole numbers for whole steps), and what it says when pointed at."""

    low: float
    high: float
    step: float
    hint: str


@dataclass(frozen=True)
class Parameter:
    """One parameter. Its type and default stand in `Parameters`, under its name.

    `low` and `high` are taken too; `choices` are the only values instead. `reader` names how the option is
    read (`magics._readers.READERS`), where the type does not say it. `file_key` is its key under
    `general.sampling` in a GGUF file; `other_names` are what other libraries call it.
    """

    name: str
    help: str
    low: float = 0
    high: float = _MOST
    slider: Slider | None = None
    choices: tuple[int, ...] = ()
    metavar: str = ""
    reader: str = ""
    flags: str = ""
    file_key: str = ""
    other_names: tuple[str, ...] = ()

    @property
    def type(self) -> str:
        """Return its type as it is written: `float`, `int` or a tuple."""
        return _TYPES[self.name]

    @property
    def option(self) -> str:
        """Return its option of `%%llama`, the long one."""
        return self.flags.split()[-1] if self.flags else "--" + self.name.replace("_", "-")


@dataclass(frozen=True)
class Stage:
    """One sampler stage.

    `off` tells whether its own parameters leave it nothing to do (`is_off` asks). It `cuts` candidates,
    `reweighs` them, or `draws` the token and is last. `looks_back`: it must be shown earlier tokens.
    `remembers`: its state depends on what it drew from. `usual`: it is in llama.cpp's own order.
    `first`, `alone`: it runs before all others, or in place of those that cut, wherever it is named.
    `other_names` are those that llama.cpp's own `--samplers` takes for it, hyphens written as `_`.
    `says` are sentences for values that do nothing or leave nothing to choose, with their tests.
    """

    name: str
    help: str
    does: Literal["cuts", "reweighs", "draws"]
    off: Callable[[Parameters], bool]
    parameters: tuple[Parameter, ...] = ()
    looks_back: bool = False
    remembers: bool = False
    usual: bool = True
    first: bool = False
    alone: bool = False
    says: tuple[tuple[Callable[[Parameters], bool], str], ...] = ()
    other_names: tuple[str, ...] = ()


_ROWS = (
    Stage(
        "penalties", "lowers tokens that stand in the text already", "reweighs",
        lambda s: s.repeat_last_n == 0 or not s.penalised,
        (
            Parameter("repeat_penalty", "1: off", 1e-6, file_key="penalty_repeat",
                      other_names=("repetition_penalty", "penalty_repeat"),
                      slider=Slider(1.0, 2.0, 0.01, "above 1 discourages repeats (1: off)")),
            Parameter("repeat_last_n", "tokens the penalties look back on; -1: all", -1, _WHOLE,
                      file_key="penalty_last_n", other_names=("penalty_last_n",)),
            Parameter("presence_penalty", "0: off", -_MOST, other_names=("penalty_present",), slider=Slider(
                0.0, 2.0, 0.05, "lowers every token that stands in the text already (0: off)")),
            Parameter("frequency_penalty", "0: off", -_MOST, other_names=("penalty_freq",), slider=Slider(
                0.0, 2.0, 0.05, "lowers tokens by how often they stand in the text (0: off)")),
        ),
        looks_back=True,
        says=(
            (lambda s: s.penalised and s.repeat_last_n == 0,
             "repeat_last_n 0 gives the penalties nothing to look at, so they do nothing."),
            (lambda s: s.repeat_penalty < 1 and s.repeat_last_n != 0,
             "repeat_penalty {s.repeat_penalty:g} is below 1: it rewards repetition."),
        ),
    ),
    Stage(
        "dry", "lowers tokens that would go on as the text did before", "reweighs",
        lambda s: s.dry_multiplier <= 0 or s.dry_base < 1 or s.dry_penalty_last_n == 0,
        (
            Parameter("dry_multiplier", "DRY repetition penalty; 0: off", slider=Slider(
                0.0, 2.0, 0.05, "punishes going on as the text did before (0: off)")),
            Parameter("dry_base", "DRY base"),
            Parameter("dry_allowed_length", "longest repetition DRY allows", 0, _WHOLE),
            Parameter("dry_penalty_last_n", "tokens DRY looks back on; -1: all", -1, _WHOLE),
            Parameter("dry_sequence_breakers", "a text that ends a repetition", metavar="S", reader="escaped",
                      flags="--dry-sequence-breaker"),
        ),
        looks_back=True,
        says=(
            (lambda s: s.dry_multiplier > 0 and s.dry_base < 1,
             "dry_base {s.dry_base:g} is below 1, which switches DRY off."),
            (lambda s: s.dry_multiplier > 0 and s.dry_penalty_last_n == 0,
             "dry_penalty_last_n 0 gives DRY nothing to look at, so it does nothing."),
        ),
    ),
    Stage(
        "top_n_sigma", "keeps logits near the largest, by their spread", "cuts",
        lambda s: s.top_n_sigma <= 0,
        (
            Parameter("top_n_sigma", "keep logits within n standard deviations; -1: off", -1, slider=Slider(
                0.0, 5.0, 0.1, "keep logits within n standard deviations of the best (0: off)")),
        ),
    ),
    Stage(
        "top_k", "keeps the k likeliest", "cuts",
        lambda s: s.top_k <= 0,
        (
            Parameter("top_k", "keep the k likeliest tokens; 0: all", -1, _WHOLE, file_key="top_k",
                      slider=Slider(0, 200, 1, "keep the k likeliest tokens (0: all)")),
        ),
        says=(
            (lambda s: s.chosen_by("top_k") and s.top_k == 1,
             "top_k 1 leaves one token: every stage after it, and the temperature, do nothing."),
            (lambda s: s.chosen_by("top_k") and 0 < s.top_k < s.min_keep,
             "min_keep {s.min_keep} does not hold for top_k, which keeps {s.top_k}."),
        ),
    ),
    Stage(
        "typical_p", "keeps those about as surprising as expected", "cuts",
        lambda s: s.typical_p >= 1,
        (
            Parameter("typical_p", "locally typical sampling; 1: off", 0, 1, other_names=("typ_p", "typical"),
                      slider=Slider(
                0.0, 1.0, 0.01, "keep tokens as surprising as expected, up to this mass (1: off)")),
        ),
        other_names=("typ_p", "typical", "typ"),
    ),
    Stage(
        "top_p", "keeps the likeliest up to a mass", "cuts",
        lambda s: s.top_p >= 1,
        (
            Parameter("top_p", "keep the likeliest tokens up to this mass", 0, 1, file_key="top_p",
                      slider=Slider(0.0, 1.0, 0.01, "keep the likeliest tokens of this mass (1: all)")),
        ),
        says=(
            (lambda s: s.chosen_by("top_p") and s.top_p == 0 and s.min_keep <= 1,
             "top_p 0 leaves one token, like temperature 0."),
        ),
        other_names=("nucleus",),
    ),
    Stage(
        "min_p", "drops those far less likely than the likeliest", "cuts",
        lambda s: s.min_p <= 0,
        (
            Parameter("min_p", "drop tokens below this share of the likeliest", 0, 1, file_key="min_p",
                      slider=Slider(
                0.0, 1.0, 0.005, "drop tokens below this share of the likeliest (0: none)")),
        ),
        says=(
            (lambda s: s.chosen_by("min_p") and s.min_p == 1 and s.min_keep <= 1,
             "min_p 1 leaves only tokens as likely as the likeliest one."),
        ),
    ),
    Stage(
        "xtc", "leaves out the top choices at times", "cuts",
        lambda s: s.xtc_probability <= 0 or s.xtc_threshold > 0.5,
        (
            Parameter("xtc_probability", "chance of excluding top choices; 0: off", 0, 1,
                      file_key="xtc_probability",
                      slider=Slider(0.0, 1.0, 0.01, "chance of excluding the top choices (0: off)")),
            Parameter("xtc_threshold", "least probability of a top choice", 0, 1, file_key="xtc_threshold",
                      slider=Slider(0.0, 0.5, 0.01, "least probability of a top choice for XTC")),
        ),
        remembers=True,
        says=(
            (lambda s: s.xtc_probability > 0 and s.xtc_threshold > 0.5,
             "xtc_threshold {s.xtc_threshold:g} is above 0.5, which no two tokens reach: XTC does nothing."),
        ),
    ),
    Stage(
        "temperature", "flattens or sharpens all of them", "reweighs",
        lambda s: s.temperature == 1 and s.dynatemp_range <= 0,
        (
            Parameter("temperature", "0 is greedy", 0, flags="-t --temperature", file_key="temp",
                      other_names=("temp",), slider=Slider(0.0, 2.0, 0.05, "0 is greedy, more is bolder")),
            Parameter("dynatemp_range", "dynamic temperature; 0: off"),
            Parameter("dynatemp_exponent", "dynamic temperature's exponent", other_names=("dynatemp_exp",)),
        ),
        says=(
            (lambda s: s.plain and s.dynatemp_range > s.temperature,
             "dynatemp_range {s.dynatemp_range:g} is more than the temperature {s.temperature:g}: "
             "the lowest temperature is held at 0."),
            (lambda s: s.dynatemp_exponent != 1 and s.dynatemp_range <= 0,
             "dynatemp_exponent {s.dynatemp_exponent:g} does nothing: dynatemp_range is 0."),
        ),
        other_names=("temp",),
    ),
    Stage(
        "logit_bias", "adds to the logits of tokens by name", "reweighs",
        lambda s: not s.logit_bias,
        (
            Parameter("logit_bias", "add to one token's logit; text in inner quotes", reader="bias",
                      metavar="ID=BIAS|\"'TEXT'=BIAS\""),
        ),
        usual=False, first=True,
    ),
    Stage(
        "mirostat", "cuts to hold the surprise at a target, and draws", "draws",
        lambda s: s.mirostat == 0,
        (
            Parameter("mirostat", "0 (off), 1 or 2", choices=(0, 1, 2), metavar="0|1|2", file_key="mirostat",
                      other_names=("mirostat_mode",)),
            Parameter("mirostat_tau", "Mirostat target surprise", file_key="mirostat_tau",
                      other_names=("mirostat_ent",)),
            Parameter("mirostat_eta", "Mirostat learning rate", file_key="mirostat_eta",
                      other_names=("mirostat_lr",)),
        ),
        usual=False, alone=True, remembers=True,
    ),
    Stage("infill", "joins candidates that begin alike, for code", "cuts", lambda s: False, usual=False),
    Stage(
        "adaptive_p", "draws near a target probability", "draws",
        lambda s: s.adaptive_target < 0,
        (
            Parameter("adaptive_target", "adaptive-p target probability; -1: off", -1, 1),
            Parameter("adaptive_decay", "adaptive-p decay", 0, 0.99),
        ),
        usual=False, remembers=True,
    ),
)  # fmt: skip
# What belongs to no one stage.
_COMMON = (
    Parameter("min_keep", "tokens that every stage must leave", 0, _WHOLE),
    Parameter(
        "samplers",
        "the order in which the stages run",
        reader="stages",
        metavar='"penalties;dry;top_k;…"',
        other_names=("sampler_seq", "sampling_seq", "sampler_order"),
    ),
)
STAGES: Mapping[str, Stage] = {stage.name: stage for stage in _ROWS}
_STAGES_ELSEWHERE = {other: stage.name for stage in _ROWS for other in stage.other_names}
DEFAULT_ORDER = tuple(stage.name for stage in _ROWS if stage.usual)


@dataclass(frozen=True)
class Parameters:
    """Every parameter with its type and default: those of llama.cpp. `Sampling` checks and explains them."""

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical_p: float = 1.0
    top_n_sigma: float = -1.0
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 64
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    adaptive_target: float = -1.0
    adaptive_decay: float = 0.9
    min_keep: int = 0
    logit_bias: tuple[tuple[int, float], ...] = ()
    samplers: tuple[str, ...] = DEFAULT_ORDER

    @property
    def cold(self) -> bool:
        """Whether the temperature is too low to tell from 0; below that, llama.cpp's numbers overflow."""
        return self.temperature < COLDEST

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken."""
        return self.cold and self.mirostat == 0

    @property
    def certain(self) -> bool:
        """Whether nothing is left to chance, so that the same logits give the same answer."""
        if not (self.top_k == 1 and self.chosen_by("top_k")):
            return self.greedy
        # XTC leaves tokens out by chance, where it runs before the one is chosen.
        before = self.samplers[: self.samplers.index("top_k")]
        return "xtc" not in before or self.xtc_probability <= 0

    @property
    def plain(self) -> bool:
        """Whether the stages run in the order of `samplers`, and then one token is drawn."""
        return self.mirostat == 0 and not self.cold

    @property
    def penalised(self) -> bool:
        """Whether a penalty differs from the value that does nothing."""
        return self.repeat_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0

    def chosen_by(self, stage: str) -> bool:
        """Tell whether `stage` has its place in the chain, if its parameters leave it something to do."""
        return self.plain and stage in self.samplers


class SamplingOptions(TypedDict, total=False):
    """The fields of `Sampling` as keywords of a call; one that is left out is the model's own."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    typical_p: float
    top_n_sigma: float
    repeat_penalty: float
    repeat_last_n: int
    presence_penalty: float
    frequency_penalty: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_sequence_breakers: Sequence[str]
    xtc_probability: float
    xtc_threshold: float
    dynatemp_range: float
    dynatemp_exponent: float
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    adaptive_target: float
    adaptive_decay: float
    min_keep: int
    logit_bias: Mapping[int, float] | Mapping[str, float] | Sequence[tuple[int | str, float]]
    samplers: str | Sequence[str]


_TYPES: dict[str, str] = {field.name: str(field.type) for field in fields(Parameters)}
_PLACE = list(_TYPES)
# Every parameter in the order of `Parameters`, by name.
PARAMETERS: Mapping[str, Parameter] = {
    parameter.name: parameter
    for parameter in sorted(
        (*_COMMON, *(parameter for stage in _ROWS for parameter in stage.parameters)),
        key=lambda parameter: _PLACE.index(parameter.name),
    )
}
# What other libraries, and the file's metadata, call a parameter.
OTHER_NAMES: Mapping[str, str] = {other: p.name for p in PARAMETERS.values() for other in p.other_names}


def stage_name(name: str) -> str:
    """Return our name of a stage that llama.cpp calls `typ_p`, `top-k` or `temp`; else the name as it is."""
    written = name.replace("-", "_")
    return written if written in STAGES else _STAGES_ELSEWHERE.get(written, name)


def is_off(parameters: Parameters, stage: str) -> bool:
    """Tell whether a stage's own parameters leave it nothing to do. What is off is not in the chain."""
    return STAGES[stage].off(parameters)


def chain(parameters: Parameters) -> tuple[str, ...]:
    """Return the stages that run, in order, as llama.cpp's `common_sampler_init` has them: the draw last.

    `greedy` and `dist` are the plain draws, which have no parameters.
    """
    on = [name for name in STAGES if not is_off(parameters, name)]
    first = [name for name in on if STAGES[name].first]
    alone = [name for name in on if STAGES[name].alone]
    order = [name for name in parameters.samplers if name in on and name not in (*first, *alone)]
    if alone or parameters.greedy:
        back = [name for name in order if STAGES[name].looks_back]
        return (*first, *back, *(("temperature", alone[0]) if alone else ("greedy",)))
    draws = [name for name in order if STAGES[name].does == "draws"]
    return (*first, *(name for name in order if name not in draws), draws[0] if draws else "dist")
