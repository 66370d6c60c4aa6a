"""What of a sampling recipe does nothing, and what cancels what: found by looking, without a model.

The rules are those of llama.cpp's samplers (`src/llama-sampler.cpp`) and of the order in which
this package builds the chain (`engine/native/sampler.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llama_magic.request.sampling import Sampling

# Stage -> the parameters that it reads.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "penalties": ("repeat_penalty", "repeat_last_n", "presence_penalty", "frequency_penalty"),
    "dry": ("dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n"),
    "top_n_sigma": ("top_n_sigma",),
    "top_k": ("top_k",),
    "typical_p": ("typical_p",),
    "top_p": ("top_p",),
    "min_p": ("min_p",),
    "xtc": ("xtc_probability", "xtc_threshold"),
    "temperature": ("temperature", "dynatemp_range", "dynatemp_exponent"),
    "logit_bias": ("logit_bias",),
    "mirostat": ("mirostat", "mirostat_tau", "mirostat_eta"),
    "adaptive_p": ("adaptive_target", "adaptive_decay"),
    "infill": (),
}
_OFF: dict[str, Callable[[Sampling], bool]] = {
    "penalties": lambda s: (
        s.repeat_last_n == 0
        or (s.repeat_penalty == 1 and s.presence_penalty == 0 and s.frequency_penalty == 0)
    ),
    "dry": lambda s: s.dry_multiplier <= 0 or s.dry_base < 1 or s.dry_penalty_last_n == 0,
    "top_n_sigma": lambda s: s.top_n_sigma <= 0,
    "top_k": lambda s: s.top_k <= 0,
    "typical_p": lambda s: s.typical_p >= 1,
    "top_p": lambda s: s.top_p >= 1,
    "min_p": lambda s: s.min_p <= 0,
    "xtc": lambda s: s.xtc_probability <= 0 or s.xtc_threshold > 0.5,
    "temperature": lambda s: s.temperature == 1 and s.dynatemp_range <= 0,
    "logit_bias": lambda s: not s.logit_bias,
    "mirostat": lambda s: s.mirostat == 0,
    "adaptive_p": lambda s: s.adaptive_target < 0,
    "infill": lambda s: False,
}
_CUTTING = ("top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc")


def is_off(sampling: Sampling, stage: str) -> bool:
    """Return whether a stage's own parameters switch it off."""
    return _OFF[stage](sampling)


def parameters_of(sampling: Sampling, stage: str) -> dict[str, Any]:
    """Return the parameters that a stage reads, those at a value that does nothing left out."""
    given = {name: getattr(sampling, name) for name in PARAMETERS.get(stage, ())}
    if stage == "temperature" and sampling.dynatemp_range <= 0:
        given = {"temperature": sampling.temperature}
    if stage == "logit_bias":
        given = {"tokens": len(sampling.logit_bias)}
    return given


def advise(sampling: Sampling) -> tuple[str, ...]:
    """Return one sentence for each value or order that does nothing or undoes another, worst first."""
    notes = [*_overruled(sampling), *_values(sampling), *_orders(sampling)]
    return tuple(dict.fromkeys(notes))


def _active(s: Sampling) -> list[str]:
    return [name for name in s.samplers if not is_off(s, name)]


def _overruled(s: Sampling) -> list[str]:
    """Say what a mode that replaces the chain leaves unused."""
    active = [name for name in _active(s) if name in _CUTTING]
    if s.mirostat:
        notes = []
        if active:
            notes.append(f"mirostat {s.mirostat} cuts by itself: {_list(active)} not used.")
        if s.dynatemp_range > 0:
            notes.append("mirostat uses the plain temperature: dynatemp_range is not used.")
        if s.cold:
            notes.append("temperature 0 leaves one token, so mirostat has nothing to choose from.")
        return notes
    if s.greedy:
        unused = [*active, *(["adaptive_p"] if "adaptive_p" in _active(s) else [])]
        notes = []
        if unused:
            notes.append(f"temperature {s.temperature:g} is greedy decoding: {_list(unused)} not used.")
        if s.dynatemp_range > 0:
            notes.append("temperature 0 is greedy decoding: dynatemp_range is not used.")
        return notes
    default = Sampling()
    missing = set(PARAMETERS) - set(s.samplers) - {"logit_bias", "infill", "mirostat"}
    unused = [
        name
        for name in PARAMETERS
        if name in missing
        and not is_off(s, name)
        and any(getattr(s, p) != getattr(default, p) for p in PARAMETERS[name])
    ]
    return [
        f"{name} is set ({_shown(s, name)}), but the order in samplers leaves it out, so it does nothing."
        for name in unused
    ]


def _values(s: Sampling) -> list[str]:
    """Say which values leave nothing to choose, or do nothing."""
    notes: list[str] = []
    plain = not s.mirostat and not s.greedy
    used = set(s.samplers)
    if plain and "top_k" in used and s.top_k == 1:
        notes.append("top_k 1 leaves one token: every stage after it, and the temperature, do nothing.")
    if plain and "top_p" in used and s.top_p == 0 and s.min_keep <= 1:
        notes.append("top_p 0 leaves one token, like temperature 0.")
    if plain and "min_p" in used and s.min_p == 1 and s.min_keep <= 1:
        notes.append("min_p 1 leaves only tokens as likely as the likeliest one.")
    if s.xtc_probability > 0 and s.xtc_threshold > 0.5:
        notes.append(
            f"xtc_threshold {s.xtc_threshold:g} is above 0.5, which no two tokens reach: XTC does nothing."
        )
    if s.dry_multiplier > 0 and s.dry_base < 1:
        notes.append(f"dry_base {s.dry_base:g} is below 1, which switches DRY off.")
    if s.dry_multiplier > 0 and s.dry_penalty_last_n == 0:
        notes.append("dry_penalty_last_n 0 gives DRY nothing to look at, so it does nothing.")
    penalised = s.repeat_penalty != 1 or s.presence_penalty != 0 or s.frequency_penalty != 0
    if penalised and s.repeat_last_n == 0:
        notes.append("repeat_last_n 0 gives the penalties nothing to look at, so they do nothing.")
    if s.repeat_penalty < 1 and s.repeat_last_n != 0:
        notes.append(f"repeat_penalty {s.repeat_penalty:g} is below 1: it rewards repetition.")
    if "penalties" in used and "dry" in used and penalised and not is_off(s, "dry") and s.repeat_last_n:
        notes.append("penalties and dry both punish repetition; their effects add up.")
    if plain and s.dynatemp_range > s.temperature:
        notes.append(
            f"dynatemp_range {s.dynatemp_range:g} is more than the temperature {s.temperature:g}: "
            "the lowest temperature is held at 0."
        )
    if plain and 0 < s.top_k < s.min_keep and "top_k" in used:
        notes.append(f"min_keep {s.min_keep} does not hold for top_k, which keeps {s.top_k}.")
    return notes


def _orders(s: Sampling) -> list[str]:
    """Say where the order undoes what stages are for."""
    if s.mirostat or s.greedy:
        return []
    order = _active(s)
    place = {name: i for i, name in enumerate(order)}
    notes: list[str] = []
    cut = [name for name in _CUTTING if name in place]
    for name in ("penalties", "dry"):
        early = [c for c in cut if name in place and place[c] < place[name]]
        if early:
            notes.append(
                f"{name} stands after {_list(early, verb=False)}: a token that it pushes down is not "
                "replaced by one that was cut already."
            )
    # These put tokens at -inf and leave them in the list; top_p and min_p take such tokens out.
    hides = [name for name in ("top_n_sigma",) if name in place]
    if any(bias == -math.inf for _, bias in s.logit_bias):
        hides.append("logit_bias")
    if "typical_p" in place:
        last = place["typical_p"]
        cleaned = max((place[c] for c in ("top_p", "min_p") if place.get(c, last) < last), default=-2)
        early = [h for h in hides if cleaned < place.get(h, -1) < last]
        if early:
            notes.append(
                f"typical_p after {_list(early, verb=False)}: tokens at -inf make llama.cpp's entropy NaN, "
                "and which tokens are kept is arbitrary. Put min_p between them."
            )
    if "temperature" in place and s.temperature != 1:
        # top_k goes by rank and top_n_sigma by spread; a temperature changes neither choice.
        late = [c for c in cut if c not in ("top_k", "top_n_sigma") and place[c] > place["temperature"]]
        if late:
            kind = "flatter" if s.temperature > 1 else "sharper"
            notes.append(
                f"temperature {s.temperature:g} stands before {_list(late, verb=False)}: what is cut is "
                f"decided on a {kind} distribution than the model's own."
            )
    if "adaptive_p" in place and place["adaptive_p"] != len(order) - 1:
        notes.append("adaptive_p draws the token, so it always runs last, wherever it stands in samplers.")
    return notes


def _list(names: list[str], *, verb: bool = True) -> str:
    text = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return text if not verb else f"{text} {'is' if len(names) == 1 else 'are'}"


def _shown(s: Sampling, stage: str) -> str:
    name = PARAMETERS[stage][0]
    return f"{name} {getattr(s, name):g}"
