"""How fast a model can write at most: bytes read a token against what this machine reads a second.

Writing a token reads every weight that takes part, and the KV cache, once. So a model writes no faster than
memory delivers them, and no faster than the cores multiply them: the roofline (Williams et al., 2009). A
small model also pays for each block, where threads wait for each other.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from llama_magic.fit._machine import Machine
from llama_magic.gguf import GGUFInfo, TensorInfo, row_bytes
from llama_magic.sources import cache_dir
from llama_magic.sources.disk.cache import read_json, write_json
from llama_magic.words.counting import counted

# Weights that llama.cpp's AVX2 dot products take in while NumPy adds one float32, by one core. On one CPU
# (Zen 5): 22 to 27 billion a second for Q4_0, Q4_1, Q5_0 and Q8_0 alike, where NumPy adds 6.4 billion.
_WEIGHTS_A_SUM = 4.2
SECONDS_A_BLOCK = 30e-6  # a block's 30 or so graph nodes, each begun and waited for; SmolLM2 and Gemma 3
BUFFER = 128 << 20  # bytes; two halves read in turn, so that no cache holds the one that comes next
_ROUNDS = 30
_TABLES = ("token_embd.weight", "per_layer_token_embd.weight", "position_embd.weight")


@dataclass(frozen=True)
class Speed:
    """The most tokens a second that one stream writes on this machine, and why.

    `bytes_a_token` are read for each token, with `filled` tokens in the KV cache; `limit` is
    `memory bandwidth` or `arithmetic`; `bandwidth` is in bytes a second, measured.
    """

    tokens_per_second: float
    bytes_a_token: int
    filled: int
    limit: str
    bandwidth: float
    threads: int

    def __str__(self) -> str:
        by = (
            f"the arithmetic of {counted(self.threads, 'thread')}"
            if self.limit == "arithmetic"
            else self.limit
        )
        return f"at most about {rounded(self.tokens_per_second)} tokens per second, from {by}"


def rounded(rate: float) -> str:
    """Return a rate to two digits, as it deserves: `190`, `7.4`, `0.35`."""
    return f"{float(f'{rate:.2g}'):,.{2 if rate < 1 else 1 if rate < 10 else 0}f}"


def bytes_per_token(info: GGUFInfo, *, filled: int = 0, kv_type: str = "f16") -> int:
    """Return the bytes that are read to write one token after `filled` others.

    Of embedding tables one row counts (unless the table is the output matrix too), of a mixture the experts
    that are used; a sliding window's cells up to its length; recurrent state, read and written.
    """
    return _weights(info, lambda t: t.n_bytes) + _cache(info, filled, kv_type)


def _weights(info: GGUFInfo, amount: Callable[[TensorInfo], int]) -> int:
    h = info.hparams
    used = min(1.0, h.whole("expert_used_count") / h.experts) if h.experts > 0 else 1.0
    tied = "output.weight" not in info.tensors
    total = 0.0
    for t in info.tensors.values():
        if t.name in _TABLES and not (tied and t.name == "token_embd.weight"):
            total += amount(t) / max(1, t.shape[-1] if t.shape else 1)
        else:
            total += amount(t) * (used if "_exps" in t.name else 1.0)
    return int(total)


def _cache(info: GGUFInfo, filled: int, kv_type: str) -> int:
    total = 0
    for layer in info.hparams.layers():
        cells = min(filled, layer.window) if layer.window else filled
        total += cells * (row_bytes(kv_type, layer.k) + row_bytes(kv_type, layer.v)) + 8 * layer.recurrent
    return total


def speed(
    info: GGUFInfo, machine: Machine, *, threads: int = 0, filled: int = 0, kv_type: str = "f16"
) -> Speed | None:
    """Return the most tokens a second that one stream will write on the CPU; None for a file without weights.

    The first call since the machine was started measures it (0.1 s); the figure is kept in the cache folder.
    `threads` are those that decode (0: one a core); `filled` is how many tokens the KV cache holds.
    """
    threads = threads or machine.physical_cores
    read = bytes_per_token(info, filled=filled, kv_type=kv_type)
    if not info.tensor_bytes:
        return None
    measured = rates(threads)
    cores = min(threads, machine.physical_cores)
    memory = read / measured.bandwidth
    arithmetic = _weights(info, lambda t: t.n_elements) / (cores * measured.sums * _WEIGHTS_A_SUM)
    seconds = max(memory, arithmetic) + info.block_count * SECONDS_A_BLOCK
    limit = "memory bandwidth" if memory >= arithmetic else "arithmetic"
    return Speed(1 / seconds, read, filled, limit, measured.bandwidth, threads)


@dataclass(frozen=True)
class Rates:
    """What was measured: bytes that all threads read a second, float32 values that one core adds a second."""

    bandwidth: float
    sums: float


@lru_cache(maxsize=8)
def rates(threads: int) -> Rates:
    """Return this machine's rates, measured once since it was started (0.1 s), kept in the cache folder."""
    path = cache_dir() / "speed.json"
    key = f"{boot()} {threads}"
    known = read_json(path)
    found = known.get(key)
    if isinstance(found, list) and len(found) == 2 and all(isinstance(x, float) and x > 0 for x in found):
        return Rates(*found)
    measured = Rates(bandwidth(threads), sums())
    kept = {k: v for k, v in known.items() if k.startswith(f"{boot()} ")}  # of other boots: forgotten
    with contextlib.suppress(OSError):  # on a full or read-only disk it is measured again next time
        write_json(path, kept | {key: [measured.bandwidth, measured.sums]})
    return measured


def bandwidth(threads: int) -> float:
    """Return the bytes a second that `threads` threads read together, the best of some rounds.

    `max` of integers only reads, uses the widest registers and lets go of the GIL. Rounds are shorter than a
    time slice, so that other programs do not spoil them all.
    """
    import numpy as np

    buffer = np.empty(BUFFER // 8, np.int64)
    for piece in np.array_split(
        buffer, 32
    ):  # new pages cost time, and an interrupt is felt between two calls
        piece.fill(1)  # or it would be one page of zeros
    halves = [np.array_split(half, threads) for half in np.array_split(buffer, 2)]
    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for round_ in range(_ROUNDS):
            start = time.perf_counter()
            list(pool.map(np.max, halves[round_ % 2]))
            best = max(best, BUFFER / 2 / (time.perf_counter() - start))
    return best


def sums() -> float:
    """Return the float32 values that one core adds a second, from its own cache: a measure of its clock."""
    import numpy as np

    values, best = np.ones(1 << 15, np.float32), float("inf")  # 128 kB
    for _ in range(200):
        start = time.perf_counter()
        values.sum()
        best = min(best, time.perf_counter() - start)
    return len(values) / best


def boot() -> str:
    """Return what tells this start of this machine from others."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{platform.node()} {platform.processor()} {os.cpu_count()}".replace("\n", " ")
