"""The sampling recipe: which samplers run, in which order, with which parameters.

Names, order and defaults are llama.cpp's own (`common/common.h`, `common_params_sampling`).
Pure data; `engine.native` turns it into a chain.
"""

from __future__ import annotations

import difflib
import math
import numbers
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypedDict

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.words.names import meant
from llama_magic.words.shown import Shown

DEFAULT_ORDER = (
    "penalties",
    "dry",
    "top_n_sigma",
    "top_k",
    "typical_p",
    "top_p",
    "min_p",
    "xtc",
    "temperature",
)
STAGES = (*DEFAULT_ORDER, "logit_bias", "mirostat", "infill", "adaptive_p")
COLDEST = 1e-4
MAX_BREAKERS = 64
MAX_BIAS = 1e5
MAX_SEED = 0xFFFFFFFE  # 0xFFFFFFFF is llama.cpp's LLAMA_DEFAULT_SEED: "draw one"


# What other libraries call them.
OTHER_NAMES = {"temp": "temperature", "repetition_penalty": "repeat_penalty", "typ_p": "typical_p"}


@dataclass(frozen=True)
class Sampling(Shown):
    """How the next token is chosen from the logits.

    `temperature` 0 is greedy decoding. `samplers` is the order in which the stages run;
    a stage whose parameters switch it off is left out. `logit_bias` maps token ids to
    additive biases (natural-log units; `-inf` forbids). `mirostat` 1 or 2 replaces the
    truncating stages, as in llama.cpp.
    """

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
    samplers: tuple[str, ...] = field(default=DEFAULT_ORDER)

    def __post_init__(self) -> None:
        for name, low, high in _RANGES:
            object.__setattr__(self, name, _number(name, getattr(self, name), low, high))
        if self.mirostat not in (0, 1, 2):
            raise OptionError(f"mirostat is {self.mirostat!r}; expected 0 (off), 1 or 2.")
        object.__setattr__(self, "samplers", parse_order(self.samplers))
        object.__setattr__(self, "logit_bias", _parse_bias(self.logit_bias))
        object.__setattr__(self, "dry_sequence_breakers", _breakers(self.dry_sequence_breakers))
        before = self.samplers[: self.samplers.index("infill")] if "infill" in self.samplers else None
        if before is not None and not ("top_k" in before and self.top_k > 0):
            # llama.cpp compares every pair of candidates there: over a minute for a whole vocabulary.
            raise OptionError(
                "The sampler 'infill' needs 'top_k' before it, or it takes minutes for one token.",
                remedy='Write --samplers "top_k;infill;…" with a top-k above 0.',
            )

    @property
    def cold(self) -> bool:
        """Whether the temperature is too low to tell from 0; below that, llama.cpp's numbers overflow."""
        return self.temperature < COLDEST

    @property
    def greedy(self) -> bool:
        return self.cold and self.mirostat == 0

    def replace(self, **changes: Any) -> Sampling:
        """Return a copy with some parameters changed; an unknown name is an error that names the nearest."""
        known = {f.name for f in fields(self)}
        for name in changes:
            if name not in known:
                raise OptionError(
                    f"There is no sampling parameter {name!r}. {meant(name, known, OTHER_NAMES)}"
                )
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as JSON-ready data (tuples as lists)."""
        data = asdict(self)
        data["samplers"] = list(self.samplers)
        data["logit_bias"] = [[token, _json_float(bias)] for token, bias in self.logit_bias]
        data["dry_sequence_breakers"] = list(self.dry_sequence_breakers)
        return data


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
    logit_bias: Mapping[int, float] | Sequence[tuple[int, float]]
    samplers: str | Sequence[str]


_INF = math.inf
_RANGES: tuple[tuple[str, float, float], ...] = (
    ("temperature", 0.0, 1e4),
    ("top_k", -1, 2**31 - 1),
    ("top_p", 0, 1),
    ("min_p", 0, 1),
    ("typical_p", 0, 1),
    ("top_n_sigma", -1, _INF),
    ("repeat_penalty", 1e-6, 1e4),
    ("repeat_last_n", -1, 2**31 - 1),
    ("presence_penalty", -1e4, 1e4),
    ("frequency_penalty", -1e4, 1e4),
    ("dry_multiplier", 0, 1e4),
    ("dry_base", 0, 1e4),
    ("dry_allowed_length", 0, 2**31 - 1),
    ("dry_penalty_last_n", -1, 2**31 - 1),
    ("xtc_probability", 0, 1),
    ("xtc_threshold", 0, 1),
    ("dynatemp_range", 0, 1e4),
    ("dynatemp_exponent", 0, 1e4),
    ("mirostat_tau", 0, 1e4),
    ("mirostat_eta", 0, 1e4),
    ("adaptive_target", -1, 1),
    ("adaptive_decay", 0, 0.99),
    ("min_keep", 0, 2**31 - 1),
)
_INTEGERS = {"top_k", "repeat_last_n", "dry_allowed_length", "dry_penalty_last_n", "min_keep"}


def _number(name: str, value: Any, low: float, high: float) -> Any:
    """Return `value` as a plain number within its range."""
    whole = name in _INTEGERS
    wants = "a whole number" if whole else "a number"
    if isinstance(value, bool) or not isinstance(value, numbers.Integral if whole else numbers.Real):
        raise InputTypeError(f"{name} is {_short(value)}; expected {wants}.")
    given: Any = value
    if not low <= given <= high:  # NaN is neither
        raise OptionError(f"{name} is {_short(value)}; expected {wants} from {low:g} to {high:g}.")
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def parse_order(order: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """Read a sampler order: `"penalties;dry;top_k"` or a sequence of stage names."""
    given = order.split(";") if isinstance(order, str) else _texts("samplers", order)
    names = [n.strip() for n in given if n.strip()]
    for name in names:
        if name not in STAGES:
            near = difflib.get_close_matches(name, STAGES, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise OptionError(f"There is no sampler {name!r}.{hint} Known: {', '.join(STAGES)}.")
        if names.count(name) > 1:
            raise OptionError(f"The sampler {name!r} stands twice in the order; name each stage once.")
    return tuple(names)


def _texts(name: str, value: object) -> tuple[str, ...]:
    """Return a text, or several, as a tuple."""
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, (tuple, list)) or not all(isinstance(text, str) for text in texts):
        raise InputTypeError(f"{name} is {value!r}; expected a list of texts.")
    return tuple(texts)


def _parse_bias(bias: object) -> tuple[tuple[int, float], ...]:
    items = bias.items() if isinstance(bias, Mapping) else bias
    if not isinstance(items, Iterable):
        raise InputTypeError(
            f"logit_bias is {_short(bias)}; expected token ids and numbers, as {{123: -2.0}}."
        )
    pairs: list[tuple[int, float]] = []
    for item in items:
        try:
            token, value = item
            pairs.append((operator.index(token), float(value)))
        except (TypeError, ValueError, OverflowError):
            raise InputTypeError(
                f"logit_bias holds {_short(item)}; expected pairs of token id and number, as {{123: -2.0}}."
            ) from None
    for token, value in pairs:
        if not (value == -_INF or abs(value) <= MAX_BIAS):
            raise OptionError(
                f"The bias of token {token} is {value:g}; expected a number up to {MAX_BIAS:g} either way, "
                "or -inf to forbid it."
            )
    return tuple(pairs)


def _breakers(value: object) -> tuple[str, ...]:
    texts = tuple(dict.fromkeys(_texts("dry_sequence_breakers", value)))
    for text in texts:
        if text == "" or text != text.encode("utf-8", "ignore").decode():
            raise OptionError(
                f"A DRY sequence breaker is {_short(text)}; expected a text of at least one character."
            )
    if len(texts) > MAX_BREAKERS:
        raise OptionError(f"There are {len(texts)} DRY sequence breakers; expected at most {MAX_BREAKERS}.")
    return texts


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _json_float(value: float) -> float | str:
    return value if math.isfinite(value) else ("-inf" if value < 0 else "inf")


def check_seed(seed: object) -> int:
    """Return `seed` if it is one that llama.cpp takes as it is (0 to 2**32 - 2)."""
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise InputTypeError(
            f"seed is {seed!r}; expected a whole number from 0 to {MAX_SEED}, or None to draw one."
        )
    seed = operator.index(seed)
    if not 0 <= seed <= MAX_SEED:
        raise OptionError(
            f"seed is {seed}; expected a whole number from 0 to {MAX_SEED}, or None to draw one."
        )
    return seed
