"""What the KV caches of an engine hold, as data. Taken on the compute thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llama_magic.engine.kv.store import StoredPrefix

if TYPE_CHECKING:
    from llama_magic.engine.core import Core
    from llama_magic.engine.kv.slots import Slot
    from llama_magic.engine.lanes.lane import Lane


@dataclass(frozen=True)
class HeldSequence:
    """A sequence in cells (`span` is llama.cpp's own lowest and highest position) or in host memory."""

    id: str
    lane: str
    tokens: tuple[int, ...]
    n_read: int
    in_cells: bool
    running: bool = False
    names: tuple[str, ...] = ()
    span: tuple[int, int] | None = None
    host_bytes: int = 0


@dataclass(frozen=True)
class LaneState:
    """One context: its cells, how many are used, the bytes of its KV buffers, of its host memory."""

    name: str
    cells: int
    used: int
    kv_bytes: int
    host_bytes: int
    host_budget: int


@dataclass(frozen=True)
class LastCall:
    """The prompt of the last request: how much was reused and read, and the seconds that reuse saved.

    `saved_s` is an estimate from the speed at which prompts were read so far, None before any.
    """

    prompt_tokens: int
    reused: int
    read: int
    saved_s: float | None


@dataclass(frozen=True)
class Snapshot:
    """Everything that the caches of a model hold at one moment."""

    lanes: tuple[LaneState, ...]
    sequences: tuple[HeldSequence, ...]
    last: LastCall | None


def snapshot(core: Core) -> Snapshot:
    """Say what all caches hold, between two steps."""
    lanes: list[LaneState] = []
    held: list[HeldSequence] = []
    for name, lane in core.lanes.named:
        kv = sum(size for kind, size in lane.context.buffers.items() if kind in ("KV", "RS"))
        store = lane.kv.store
        lanes.append(LaneState(name, lane.cells, lane.kv.used, kv, store.bytes_used, store.budget))
        for slot in lane.kv.slots:
            if slot.tokens or slot.in_use:
                held.append(_slot(name, lane, slot))
        for index, entry in enumerate(store.entries):
            held.append(_entry(name, index, entry))
    return Snapshot(tuple(lanes), tuple(held), _last(core))


def _slot(name: str, lane: Lane, slot: Slot) -> HeldSequence:
    return HeldSequence(
        f"{name}-{slot.sequence}",
        name,
        tuple(slot.tokens),
        slot.n_read,
        in_cells=True,
        running=slot.in_use,
        names=(slot.name,) if slot.name else (),
        span=lane.context.span(slot.sequence),
    )


def _entry(name: str, index: int, entry: StoredPrefix) -> HeldSequence:
    return HeldSequence(
        f"{name}-host-{index}",
        name,
        tuple(entry.tokens),
        entry.n_read,
        in_cells=False,
        names=tuple(entry.names),
        host_bytes=entry.size,
    )


def _last(core: Core) -> LastCall | None:
    ended = [(lane, lane.last) for _, lane in core.lanes.named if lane.last is not None]
    if not ended:
        return None
    lane, job = max(ended, key=lambda pair: pair[1].stats.ended)
    reused = job.stats.cached_tokens
    speed = lane.read_s / lane.read_tokens if lane.read_tokens else None
    return LastCall(
        len(job.prompt),
        reused,
        len(job.prompt) - reused,
        None if speed is None else reused * speed,
    )
