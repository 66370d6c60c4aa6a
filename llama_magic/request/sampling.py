"""The sampling recipe: which samplers run, in which order, with which parameters.

Names, order and defaults are llama.cpp's own (`common/common.h`, `common_params_sampling`);
they stand in `stages.py`. Pure data; `engine.native` turns it into a chain.
"""

from __future__ import annotations

import functools
import math
import numbers
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.request.stages import (
    MAX_SEED,
    OTHER_NAMES,
    PARAMETERS,
    STAGES,
    Parameter,
    Parameters,
    stage_name,
)
from llama_magic.words.given import quoted, whole
from llama_magic.words.names import hint, meant
from llama_magic.words.shown import Shown

MAX_BREAKERS = 64
MAX_BIAS = 1e5


@dataclass(frozen=True)
class Sampling(Parameters, Shown):
    """How the next token is chosen from the logits.

    `temperature` 0 is greedy decoding. `samplers` is the order in which the stages run;
    a stage whose parameters switch it off is left out. `logit_bias` maps token ids to
    additive biases (natural-log units; `-inf` forbids). `mirostat` 1 or 2 replaces the
    truncating stages, as in llama.cpp. The fields stand in `Parameters`.
    """

    def __post_init__(self) -> None:
        for parameter in PARAMETERS.values():
            if parameter.type in ("int", "float"):
                value = _checked(parameter, getattr(self, parameter.name))
                object.__setattr__(self, parameter.name, value)
        object.__setattr__(self, "samplers", parse_order(self.samplers))
        object.__setattr__(self, "logit_bias", _parse_bias(self.logit_bias))
        object.__setattr__(self, "dry_sequence_breakers", _breakers(self.dry_sequence_breakers))
        before = self.samplers[: self.samplers.index("infill")] if "infill" in self.samplers else None
        if before is not None and not ("top_k" in before and self.top_k > 0):
            # llama.cpp compares every pair of candidates there: over a minute for a whole vocabulary.
            raise OptionError(
                "The sampler 'infill' needs 'top_k' before it, or it takes minutes for one token.",
                remedy="Let samplers name top_k before infill, with a top_k above 0.",
            )

    def replace(self, **changes: Any) -> Sampling:
        """Return a copy with some parameters changed; an unknown name is an error that names the nearest."""
        for name in changes:
            if name not in PARAMETERS:
                raise OptionError(
                    f"There is no sampling parameter {name!r}. {meant(name, PARAMETERS, OTHER_NAMES)}"
                )
        return replace(self, **changes) if changes else self

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as JSON-ready data (tuples as lists)."""
        data = {name: getattr(self, name) for name in self.__dataclass_fields__}
        data["samplers"] = list(self.samplers)
        data["logit_bias"] = [[token, _json_float(bias)] for token, bias in self.logit_bias]
        data["dry_sequence_breakers"] = list(self.dry_sequence_breakers)
        return data


@functools.cache
def default_sampling() -> Sampling:
    """Return llama.cpp's own defaults, as `Sampling()` does; made once."""
    return Sampling()


def _checked(parameter: Parameter, value: Any) -> Any:
    """Return `value` as a plain number that the parameter takes."""
    name, is_whole = parameter.name, parameter.type == "int"
    if parameter.choices:
        if whole(value) not in parameter.choices:
            first, *more, last = parameter.choices
            known = ", ".join((f"{first} (off)", *map(str, more)))
            raise OptionError(f"{name} is {quoted(value)}; expected {known} or {last}.")
        return int(value)
    wants = "a whole number" if is_whole else "a number"
    plain = type(value) is (int if is_whole else float)  # the usual case; the abstract classes take a while
    if not plain and (
        isinstance(value, bool) or not isinstance(value, numbers.Integral if is_whole else numbers.Real)
    ):
        raise InputTypeError(f"{name} is {quoted(value)}; expected {wants}.")
    given: Any = value
    if not parameter.low <= given <= parameter.high:  # NaN is neither
        low, high = parameter.low, parameter.high
        raise OptionError(f"{name} is {quoted(value)}; expected {wants} from {low:g} to {high:g}.")
    if plain:
        return value
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def parse_order(order: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """Read a sampler order: `"penalties;dry;top_k"` or a sequence of stage names, llama.cpp's own too."""
    given = order.split(";") if isinstance(order, str) else _texts("samplers", order)
    names = [stage_name(n.strip()) for n in given if n.strip()]
    for name in names:
        if name not in STAGES:
            raise OptionError(
                f"There is no sampler {name!r}.{hint(name, STAGES)} Known: {', '.join(STAGES)}."
            )
        if names.count(name) > 1:
            raise OptionError(f"The sampler {name!r} stands twice in the order; name each stage once.")
    return tuple(names)


def _texts(name: str, value: object) -> tuple[str, ...]:
    """Return a text, or several, as a tuple."""
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, (tuple, list)) or not all(isinstance(text, str) for text in texts):
        raise InputTypeError(f"{name} is {quoted(value)}; expected a list of texts.")
    return tuple(texts)


def _parse_bias(bias: object) -> tuple[tuple[int, float], ...]:
    items = bias.items() if isinstance(bias, Mapping) else bias
    if not isinstance(items, Iterable):
        raise InputTypeError(
            f"logit_bias is {quoted(bias)}; expected token ids and numbers, as {{123: -2.0}}."
        )
    pairs: list[tuple[int, float]] = []
    for item in items:
        if isinstance(item, (tuple, list)) and item and isinstance(item[0], str):
            raise InputTypeError(
                f"logit_bias names a token by the text {quoted(item[0])}; expected its id, as {{123: -2.0}}.",
                remedy="A call of a model takes texts too: model.complete(…, logit_bias={' yes': 2}).",
            )
        try:
            token, value = item
            if isinstance(token, bool) or isinstance(value, bool):
                raise TypeError
            pairs.append((operator.index(token), float(value)))
        except (TypeError, ValueError, OverflowError):
            raise InputTypeError(
                f"logit_bias holds {quoted(item)}; expected pairs of token id and number, as {{123: -2.0}}.",
                remedy="-inf in place of the number forbids the token.",
            ) from None
    for token, value in pairs:
        if not (value == -math.inf or abs(value) <= MAX_BIAS):
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
                f"A DRY sequence breaker is {quoted(text)}; expected a text of at least one character."
            )
    if len(texts) > MAX_BREAKERS:
        raise OptionError(f"There are {len(texts)} DRY sequence breakers; expected at most {MAX_BREAKERS}.")
    return texts


def _json_float(value: float) -> float | str:
    return value if math.isfinite(value) else ("-inf" if value < 0 else "inf")


def check_seed(seed: object) -> int:
    """Return `seed` if it is one that llama.cpp takes as it is (0 to 2**32 - 2)."""
    number = whole(seed)
    if number is None:
        raise InputTypeError(
            f"seed is {quoted(seed)}; expected a whole number from 0 to {MAX_SEED}, or None to draw one."
        )
    if not 0 <= number <= MAX_SEED:
        raise OptionError(
            f"seed is {quoted(number)}; expected a whole number from 0 to {MAX_SEED}, or None to draw one."
        )
    return number
