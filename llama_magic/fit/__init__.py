"""Will it fit, and how fast will it be? Estimates from a header, checked against this machine.

Knows no llama.cpp: the engine passes in what it knows of graphics devices.

`_estimate` foretells memory, with the buffers of `_compute`, and `_speed` how fast a model can write.
`_machine` says what is here, `_check` whether it fits, `_profiles` which options suit.
"""

from llama_magic.fit._check import affordable_cells, check, largest_context
from llama_magic.fit._estimate import KV_TYPES, Estimate, Options, estimate, odd_head, round_context
from llama_magic.fit._machine import HUGE_PAGES, Gpu, Machine, machine
from llama_magic.fit._profiles import PROFILES, LoadProfile, Tuning, pays_to_read, profile
from llama_magic.fit._speed import Speed, bytes_per_token, rates, rounded, speed

__all__ = [
    "HUGE_PAGES",
    "KV_TYPES",
    "PROFILES",
    "Estimate",
    "Gpu",
    "LoadProfile",
    "Machine",
    "Options",
    "Speed",
    "Tuning",
    "affordable_cells",
    "bytes_per_token",
    "check",
    "estimate",
    "largest_context",
    "machine",
    "odd_head",
    "pays_to_read",
    "profile",
    "rates",
    "round_context",
    "rounded",
    "speed",
]
