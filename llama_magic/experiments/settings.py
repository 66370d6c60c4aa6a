"""Settings of an experiment: every combination of its axes, in the order in which they are given."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.experiments.comparing import hashable
from llama_magic.experiments.prompts import PromptTemplate
from llama_magic.model.other_names import CALLED_ELSEWHERE
from llama_magic.words.names import hint

MOST = 100_000  # settings of one call; an axis may have no end
PROMPT, MODEL = "prompt", "model"  # the axes that are no option and no variable


@dataclass(frozen=True)
class Setting:
    """One combination: `values` by axis as they are told, and what they mean for the call."""

    values: Mapping[str, Any]
    prompt: PromptTemplate
    model: str
    options: Mapping[str, Any]
    variables: Mapping[str, Any]


def read_settings(
    prompts: Mapping[str, PromptTemplate],
    models: Sequence[str],
    over: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    variables: Mapping[str, Any],
    known: Iterable[str],
    *,
    model_axis: bool,
) -> list[Setting]:
    """Return all settings. What of an axis' names is an option stands in `known`; a variable in a prompt.

    An axis that is neither is an `OptionError` that names the nearest.
    """
    axes = _axes(over)
    asked = frozenset().union(*(prompt.names(axes) for prompt in prompts.values()))
    known = set(known)
    for name in axes:
        if name not in known and name not in asked:
            raise OptionError(
                f"The axis {name!r} is neither an option of a call nor a variable of a prompt."
                + hint(name, known | asked, CALLED_ELSEWHERE),
                remedy=f"A variable stands in the prompt as {{{{ {name} }}}}.",
            )
    prompt_axis = list(prompts) != [""]
    made = []
    for prompt, *chosen, model in itertools.product(prompts, *axes.values(), models):
        values = dict(zip(axes, chosen, strict=True))
        told = {PROMPT: prompt} if prompt_axis else {}
        told |= values | ({MODEL: model} if model_axis else {})
        made.append(
            Setting(
                told,
                prompts[prompt],
                model,
                {**options, **{name: value for name, value in values.items() if name in known}},
                {**variables, **values},
            )
        )
    return made


def _axes(over: Any) -> dict[str, list[Any]]:
    if over is None:
        return {}
    if not isinstance(over, Mapping):
        raise InputTypeError(f"over is a {type(over).__name__}; expected a dict of names to lists of values.")
    axes: dict[str, list[Any]] = {}
    for name, values in over.items():
        if name in (PROMPT, MODEL, "n"):
            raise OptionError(
                f"over cannot hold {name!r}.",
                remedy="Prompts are an axis as a dict of names, models as models=[…]; n=3 asks each thrice.",
            )
        one = isinstance(values, (str, Mapping)) or not isinstance(values, Iterable)
        axes[str(name)] = [values] if one else list(itertools.islice(values, MOST + 1))
        if (many := math.prod(map(len, axes.values()))) > MOST:
            raise OptionError(
                f"over has {many:,} combinations up to {name!r}, if not more; expected {MOST:,} at most."
            )
        counts = Counter(hashable(value) for value in axes[str(name)])
        if twice := [value for value in axes[str(name)] if counts[hashable(value)] > 1]:
            raise OptionError(
                f"The axis {name!r} has {twice[0]!r} twice.", remedy="Give each value once; n=2 asks twice."
            )
        if not axes[str(name)]:
            raise OptionError(
                f"The axis {name!r} has no value.", remedy="Give at least one, or leave it out."
            )
    return axes
