"""Bundles of load options for one purpose each, computed from this machine."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from llama_magic.errors import OptionError
from llama_magic.fit._check import largest_context
from llama_magic.fit._machine import Machine
from llama_magic.gguf import GGUFInfo

PROFILES = {
    "fast": "One answer as soon as it can be had: f16 KV, repacked weights, a wide batch.",
    "balanced": "The default: some chats side by side, nothing given up.",
    "quality": "Nothing that changes numbers: f16 KV, weights as they are in the file.",
    "memory": "As little memory as possible: q8_0 KV, small batches, sliding windows kept short.",
    "batch": "Many answers at once: 16 sequences share one cache and one batch.",
}


@dataclass(frozen=True)
class LoadProfile:
    """What a profile sets. `gpu_layers` -1 is all; `cells` are the KV cells of the shared cache."""

    name: str
    description: str
    ctx: int
    threads: int
    threads_batch: int
    batch: int
    ubatch: int
    type_k: str
    type_v: str
    flash_attn: str
    mmap: bool
    mlock: bool
    extra_bufts: bool
    swa_full: bool
    gpu_layers: int
    n_seq_max: int
    cells: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def profile(name: str, machine: Machine, info: GGUFInfo) -> LoadProfile:
    """Return the load options of a profile for this machine and model; `OptionError` for an unknown one.

    Threads are the physical cores. Contexts are what the model was trained for, up to 4,096 (8,192 for
    `quality`), and less where that does not fit.
    """
    if name not in PROFILES:
        raise OptionError(f"There is no profile {name!r}. Known: {', '.join(PROFILES)}.")
    n_seq = {"batch": 16, "balanced": 4}.get(name, 1)
    batch, ubatch = {"batch": (2048, 512), "memory": (128, 128), "fast": (1024, 512)}.get(name, (512, 512))
    kv = "q8_0" if name == "memory" else "f16"
    cpu_only = not machine.gpus
    options: dict[str, Any] = {
        "type_k": kv, "type_v": kv, "batch": batch, "ubatch": ubatch, "swa_full": name != "memory",
        "extra_bufts": name not in ("quality", "memory") and cpu_only,
    }  # fmt: skip
    ctx = min(largest_context(info, machine, **options), {"quality": 8192, "memory": 2048}.get(name, 4096))
    cells = min(ctx * n_seq, largest_context_cells(info, machine, ctx, n_seq, options))
    return LoadProfile(
        name=name,
        description=PROFILES[name],
        ctx=ctx,
        threads=machine.physical_cores,
        threads_batch=machine.physical_cores,
        flash_attn="auto",
        mmap=True,
        mlock=name == "fast" and 4 * info.tensor_bytes < machine.ram_available,
        gpu_layers=0 if cpu_only else -1,
        n_seq_max=n_seq,
        cells=cells,
        **options,
    )


def largest_context_cells(
    info: GGUFInfo, machine: Machine, ctx: int, n_seq: int, options: dict[str, Any]
) -> int:
    """Return how many KV cells, up to `ctx` for each of `n_seq` sequences, take at most half the free RAM."""
    row = sum(info.kv_bytes_per_token(options["type_k"], options["type_v"])) or 1
    affordable = machine.ram_available // 2 // row // 256 * 256
    return max(ctx, min(ctx * n_seq, affordable))
