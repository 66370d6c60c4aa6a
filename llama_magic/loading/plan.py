"""How to load a model on this machine: the window that fits, memory, speed to expect, the line to paste.

Knows the header and the machine; nothing is loaded.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llama_magic import fit, gguf
from llama_magic.doors import Door, entered, option, worded
from llama_magic.engine.native.backend import supports_gpu
from llama_magic.errors import FitError
from llama_magic.loading.options import LoadOptions, Settings
from llama_magic.words import amounts
from llama_magic.words.shown import Shown

if TYPE_CHECKING:
    from llama_magic.fit import Machine, Speed
    from llama_magic.gguf import GGUFInfo

SENSIBLE_WINDOW = 8192  # tokens: long enough to work with, short enough to be affordable


@dataclass(frozen=True)
class Plan(Shown):
    """How a model would be loaded on this machine. `memory` is the predicted total in bytes.

    `window` and `largest_window` are in tokens; `speed` is with an empty KV cache, `speed_full` with a full
    one, None where it cannot be told. `why` says what does not fit.
    """

    source: str
    window: int
    kv_type: str
    memory: int
    largest_window: int
    fits: bool
    speed: Speed | None = None
    speed_full: Speed | None = None
    why: str = ""
    door: Door = field(default_factory=entered, repr=False, compare=False)  # where it was asked for

    @property
    def load_line(self) -> str:
        """What to paste to load it so."""
        return load_line(self.source, self.door, self.window, self.kv_type)

    def slowed(self) -> str:
        """Say how a full window slows it; empty where it hardly does, or cannot be told."""
        if self.speed is None or self.speed_full is None:
            return ""
        rate = self.speed_full.tokens_per_second
        slower = rate < 0.9 * self.speed.tokens_per_second
        return f"about {fit.rounded(rate)} tokens per second" if slower else ""

    def __str__(self) -> str:
        if not self.fits:
            return self.why
        lines = [
            f"fits with a window of {self.window:,} tokens in {amounts.size(self.memory)} "
            f"(at most {self.largest_window:,} tokens fit)",
            str(self.speed or ""),
            self.load_line,
        ]
        return "\n".join(line for line in lines if line)


def load_line(source: str, door: Door, ctx: int | None = None, kv_type: str = "f16") -> str:
    """Return the line that loads a source, as it is written at a door."""
    options = [option("ctx", ctx)] * (ctx is not None) + [option("kv_type", kv_type)] * (kv_type != "f16")
    if door is Door.PYTHON:
        return worded(f"lm.load({', '.join([repr(source), *options])})", door)
    quoted = f'"{source}"' if re.search(r"\s", source) else source
    return worded(" ".join(["%llama load", quoted, *options]), door)


def plan(info: GGUFInfo, source: str, *, machine: Machine | None = None) -> Plan:
    """Return how to load a model here: 8,192 tokens of window, or those that it was trained for if fewer.

    Where that does not fit, with a q8_0 KV cache; where even that does not, with the longest that fits.
    Raises `InvalidGGUFError` for a file that cannot be loaded.
    """
    gguf.validate(info)
    return planned(info, source, None, machine or fit.machine())


def planned(info: GGUFInfo, source: str, ctx: int | None, machine: Machine) -> Plan:
    """Return what `plan` does, for a header that was judged already; `ctx` asks for a window."""
    wanted = ctx or min(info.context_length, SENSIBLE_WINDOW)
    kinds = ("f16",) if fit.odd_head(info) else ("f16", "q8_0")
    longest, kv = 0, kinds[-1]
    for tried in kinds:
        with contextlib.suppress(FitError):
            found = _settled(info, machine, 0, tried).window
            if found > longest:
                longest, kv = found, tried
        if longest >= wanted:
            break
    window = min(wanted, longest)
    settings = _settled(info, machine, window or min(wanted, 512), kv)
    estimate = settings.estimate(info)
    why, empty, full = "", None, None
    if window:
        empty, full = settings.speed(info, machine), settings.speed(info, machine, filled=window)
    try:
        fit.check(estimate, machine)
    except FitError as error:
        why = str(error)
    fits = bool(window) and not why
    return Plan(source, window or wanted, kv, estimate.total, longest, fits, empty, full, why)


def _settled(info: GGUFInfo, machine: Machine, ctx: int, kv: str) -> Settings:
    return LoadOptions.read({"ctx": ctx, "kv_type": kv}).settle(info, machine, gpu=supports_gpu())
