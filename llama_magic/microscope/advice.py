"""What of a sampling recipe does nothing, and what cancels what: found by looking, without a model.

The rules are those of llama.cpp's samplers (`src/llama-sampler.cpp`) and of the order in which
this package builds the chain (`engine/native/sampler.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Any

from llama_magic.request.sampling import Sampling, default_sampling
from llama_magic.request.stages import PARAMETERS, STAGES, is_off

_CUTTING = tuple(name for name, stage in STAGES.items() if stage.does == "cuts")


def parameters_of(sampling: Sampling, stage: str) -> dict[str, Any]:
    """Return the parameters that a stage reads, those at a value that does nothing left out."""
    row = STAGES.get(stage)  # the plain draws have none
    given = {p.name: getattr(sampling, p.name) for p in (row.parameters if row else ())}
    given = {name: value for name, value in given.items() if not isinstance(value, tuple)}
    if stage == "temperature" and sampling.dynatemp_range <= 0:
        given = {"temperature": sampling.temperature}
    if stage == "logit_bias":
        given = {"tokens": len(sampling.logit_bias)}
    return given


def advise(sampling: Sampling, asked: Collection[str] | None = None) -> tuple[str, ...]:
    """Return one sentence for each value or order that does nothing or undoes another, worst first.

    With `asked`, names of parameters, only what becomes of those: which of them do nothing, and why.
    """
    names = PARAMETERS if asked is None else asked
    notes = [*_overruled(sampling, names), *_values(sampling, names), *_asleep(sampling, names)]
    if asked is None:
        notes += [*_together(sampling), *_orders(sampling)]
    return tuple(dict.fromkeys(notes))


def _of(stages: Iterable[str], names: Collection[str]) -> list[str]:
    """Return those of some stages that one of the named parameters belongs to, or that have none."""
    return [s for s in stages if not (own := STAGES[s].parameters) or any(p.name in names for p in own)]


def _active(s: Sampling) -> list[str]:
    return [name for name in s.samplers if not is_off(s, name)]


def _overruled(s: Sampling, names: Collection[str]) -> list[str]:
    """Say what a mode that replaces the chain leaves unused, and what the order leaves out."""
    active = _of((name for name in _active(s) if name in _CUTTING), names)
    if s.mirostat:
        notes = []
        if active:
            notes.append(f"mirostat {s.mirostat} cuts by itself: {_list(active)} not used.")
        if s.dynatemp_range > 0 and "dynatemp_range" in names:
            notes.append("mirostat uses the plain temperature: dynatemp_range is not used.")
        if s.cold and not {"mirostat", "temperature"}.isdisjoint(names):
            notes.append("temperature 0 leaves one token, so mirostat has nothing to choose from.")
        return notes
    if s.greedy:
        unused = active + _of((name for name in _active(s) if STAGES[name].does == "draws"), names)
        notes = []
        if unused:
            notes.append(f"temperature {s.temperature:g} is greedy decoding: {_list(unused)} not used.")
        if s.dynatemp_range > 0 and "dynatemp_range" in names:
            notes.append("temperature 0 is greedy decoding: dynatemp_range is not used.")
        return notes
    default = default_sampling()
    unused = [
        name
        for name, stage in ((name, STAGES[name]) for name in _of(STAGES, names))
        if name not in s.samplers
        and not (stage.first or stage.alone or is_off(s, name))
        and any(getattr(s, p.name) != getattr(default, p.name) for p in stage.parameters)
    ]
    return [
        f"{name} is set ({_shown(s, name)}), but the order in samplers leaves it out, so it does nothing."
        for name in unused
    ]


def _values(s: Sampling, names: Collection[str]) -> list[str]:
    """Say which values leave nothing to choose, or do nothing."""
    rows = [STAGES[name] for name in _of(STAGES, names)]
    return [text.format(s=s) for stage in rows for told, text in stage.says if told(s)]


def _asleep(s: Sampling, names: Collection[str]) -> list[str]:
    """Say which parameters were set of a stage that another of its parameters switches off."""
    default, notes = default_sampling(), []
    for name, stage in STAGES.items():
        if not is_off(s, name) or any(told(s) for told, _ in stage.says):
            continue
        changed = [p.name for p in stage.parameters[1:] if getattr(s, p.name) != getattr(default, p.name)]
        if idle := [parameter for parameter in changed if parameter in names]:
            verb = "does" if len(idle) == 1 else "do"
            notes.append(f"{_list(idle, verb=False)} {verb} nothing: {name} is off ({_shown(s, name)}).")
    return notes


def _together(s: Sampling) -> list[str]:
    """Say which stages do the same."""
    if {"penalties", "dry"} <= set(s.samplers) and not (is_off(s, "penalties") or is_off(s, "dry")):
        return ["penalties and dry both punish repetition; their effects add up."]
    return []


def _orders(s: Sampling) -> list[str]:
    """Say where the order undoes what stages are for."""
    if s.mirostat or s.greedy:
        return []
    order = _active(s)
    place = {name: i for i, name in enumerate(order)}
    notes: list[str] = []
    cut = [name for name in _CUTTING if name in place]
    for name in (name for name, stage in STAGES.items() if stage.looks_back):
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
    name = STAGES[stage].parameters[0].name
    return f"{name} {getattr(s, name):g}"
