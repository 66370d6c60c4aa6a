"""Bundles of load options for one purpose each, computed from this machine."""

from __future__ import annotations

from dataclasses import dataclass

from llama_magic.errors import OptionError
from llama_magic.fit._estimate import odd_head
from llama_magic.fit._machine import Machine
from llama_magic.gguf import GGUFInfo

PROFILES = {
    "fast": "One answer as soon as it can be had: f16 KV, repacked weights, a wide batch.",
    "balanced": "The default: some chats side by side, nothing given up.",
    "quality": "Nothing that changes numbers: f16 KV, weights as they are in the file.",
    "memory": "As little memory as possible: q8_0 KV, small batches, sliding windows kept short.",
    "batch": "Many answers at once: 16 sequences share one cache and one batch.",
}


_WORTH = 16 << 20  # bytes of weights: what is less stays in the processor's caches


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """How a model is held and decoded; a profile sets all of it, a load's options some. -1 layers are all.

    `mmap` None: the weights are mapped from the file, or read into memory where that makes them faster.
    """

    threads: int
    batch: int
    ubatch: int
    type_k: str
    type_v: str
    flash_attn: str
    mmap: bool | None
    mlock: bool
    extra_bufts: bool
    swa_full: bool
    gpu_layers: int

    @property
    def mapped(self) -> bool:
        """Whether the weights are mapped from the file, as far as that is settled."""
        return self.mmap is not False


@dataclass(frozen=True)
class LoadProfile:
    """What a profile sets.

    `window` is the longest context that it takes unasked, in tokens; the shared cache has cells for
    `windows` of them.
    """

    name: str
    window: int
    windows: int
    tuning: Tuning


def pays_to_read(info: GGUFInfo, machine: Machine) -> bool:
    """Say whether weights are better read into memory than mapped: huge pages are had there only.

    Then they are no longer shared with other processes, so a quarter of what is free is the most.
    """
    return (
        machine.huge_pages
        and machine.address_space is None
        and _WORTH <= info.tensor_bytes <= machine.ram_available // 4
    )


def profile(name: str, machine: Machine, info: GGUFInfo) -> LoadProfile:
    """Return the load options of a profile for this machine and model; `OptionError` for an unknown one.

    Threads are the physical cores.
    """
    if name not in PROFILES:
        raise OptionError(f"There is no profile {name!r}. Known: {', '.join(PROFILES)}.")
    batch, ubatch = {"batch": (2048, 512), "memory": (128, 128), "fast": (1024, 512)}.get(name, (512, 512))
    kv = "q8_0" if name == "memory" and not odd_head(info) else "f16"
    cpu_only = not machine.gpus
    reads = cpu_only and pays_to_read(info, machine)
    tuning = Tuning(
        threads=machine.physical_cores,
        batch=batch,
        ubatch=ubatch,
        type_k=kv,
        type_v=kv,
        flash_attn="auto",
        mmap=True if name == "memory" else None,
        mlock=name == "fast" and not reads and 4 * info.tensor_bytes < machine.ram_available,
        extra_bufts=name not in ("quality", "memory") and cpu_only,
        swa_full=name != "memory",
        gpu_layers=0 if cpu_only else -1,
    )
    window = {"quality": 8192, "memory": 2048}.get(name, 4096)
    return LoadProfile(name, window, 16 if name == "batch" else 1, tuning)
