"""One move of the live view, as data: the chain run again, what to say of it, the options that make it.

The widget calls `move`; so can a test or a script, without a front end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from llama_magic.microscope.advice import advise
from llama_magic.microscope.tracing import SamplerTrace
from llama_magic.request.sampling import Sampling, default_sampling
from llama_magic.request.stages import DEFAULT_ORDER, PARAMETERS, STAGES, is_off
from llama_magic.words.counting import counted
from llama_magic.words.tables import percent

# Their defaults cut or sharpen, and a model's file, %config or %llama sampler may set others: so a
# line that is to mean the same everywhere names them.
_ALWAYS = frozenset(
    STAGES[name].parameters[0].name for name in DEFAULT_ORDER if not is_off(default_sampling(), name)
)


@dataclass(frozen=True)
class Move:
    """What a move of a slider leads to.

    `trace` is the chain's new trace. `warnings` say what does nothing or cancels. `sentence` says
    the outcome in words, for people who do not see the table. `options` is the line to paste after
    `%%llama xray`, `complete` or `chat`: the same chain and seed there.
    """

    trace: SamplerTrace
    warnings: tuple[str, ...]
    sentence: str
    options: str


def move(trace: SamplerTrace, *, seed: int | None = None, **changes: Any) -> Move:
    """Run the logits of `trace` through a changed chain; nothing is decoded (a few ms at 49,152 tokens).

    `changes` are fields of `Sampling`; those left out stay as `trace` has them, the seed too.
    Raises `OptionError` and `InputTypeError` for values that no chain takes.
    """
    return outcome(trace.rerun(seed=seed, **changes), trace.sampling)


def outcome(trace: SamplerTrace, base: Sampling | None = None) -> Move:
    """Return what there is to say of a trace as it is; `base` is the recipe that it began with."""
    line = options_line(trace.sampling, trace.seed, base or trace.sampling)
    return Move(trace, advise(trace.sampling), describe(trace), line)


def describe(trace: SamplerTrace) -> str:
    """Say in one sentence what the chain left and what was drawn."""
    first, last = trace.stages[0], trace.stages[-1]
    text = _spoken(trace.drawn.text)
    drawn = f"{text} is drawn, at {percent(trace.drawn.probability)}"
    if last.name == "greedy":
        return f"The likeliest of {counted(first.survivors, 'token')} is taken: {text}."
    left = "1 token is" if last.survivors == 1 else f"{last.survivors:,} tokens are"
    removed = max(0.0, 1 - last.mass_kept)
    return (
        f"{left} left of {first.survivors:,}; {percent(removed)} of the model's probability was cut; "
        f"{last.entropy_bits:.2f} bits of entropy; {drawn}."
    )


def _spoken(token: str) -> str:
    """Name a token for reading aloud: quoted without its blanks, or a word for what is nothing else."""
    if text := token.strip():
        return f"“{text}”"
    return "a line break" if "\n" in token else "a blank" if token else "an empty token"


def options_line(sampling: Sampling, seed: int | None = None, base: Sampling | None = None) -> str:
    """Return the options of `%%llama` that set this recipe: `--temperature 0.7 --top-k 20 …`.

    Named are temperature, top_k, top_p and min_p, and whatever differs from llama.cpp's defaults
    or from `base`.
    """
    default = default_sampling()
    base = base or default
    words: list[str] = []
    for name in PARAMETERS:
        value = getattr(sampling, name)
        if name in _ALWAYS or value != getattr(default, name) or value != getattr(base, name):
            words += _words(name, value)
    if seed is not None:
        words.append(f"--seed {seed}")
    return " ".join(words)


def _words(name: str, value: Any) -> list[str]:
    flag = PARAMETERS[name].option
    if name == "samplers":
        return [f'{flag} "{";".join(value) or ";"}"']
    if name == "logit_bias":
        return [f"{flag} {token}={bias:g}" for token, bias in value]
    if name == "dry_sequence_breakers":
        return [f"{flag} {_quoted(text)}" for text in value]
    # A slider's steps add up to 0.7000000000000001.
    return [f"{flag} {value:.6g}" if isinstance(value, float) and math.isfinite(value) else f"{flag} {value}"]


def _quoted(text: str) -> str:
    for plain, written in (("\\", "\\\\"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        text = text.replace(plain, written)
    if "'" not in text and '"' in text:
        return f"'{text}'"
    return '"' + text.replace('"', '"\'"\'"') + '"'  # quoted pieces that touch are one word
