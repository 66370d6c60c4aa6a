"""What the KV caches of an engine hold, as data. Taken on the compute thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from llama_magic.engine.kv.store import StoredPrefix

if TYPE_CHECKING:
    from llama_magic.engine.core import Core
    from llama_magic.engine.job import Job
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


Why = Literal["fresh", "empty", "other", "short", "state"]


@dataclass(frozen=True)
class LastCall:
    """The prompt of the last request: how much was reused and read, and the seconds that reuse saved.

    `saved_s` is an estimate from the speed at which prompts were read so far, None before any. Where nothing
    was reused, `why` says the reason: it was not to be (`fresh`), its `lane` held nothing (`empty`), or
    nothing that begins so (`other`); the `common` beginning is shorter than a step of the seeded lane
    (`short`), or the model's state cannot be cut back to it (`state`).
    """

    prompt_tokens: int
    reused: int
    read: int
    saved_s: float | None
    why: Why | None = None
    lane: str = "main"
    common: int = 0


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
        f"{name}-parked-{index}",
        name,
        tuple(entry.tokens),
        entry.n_read,
        in_cells=False,
        names=tuple(entry.names),
        host_bytes=entry.size,
    )


def _last(core: Core) -> LastCall | None:
    ended = [(name, lane, lane.last) for name, lane in core.lanes.named if lane.last is not None]
    if not ended:
        return None
    name, lane, job = max(ended, key=lambda found: found[2].stats.ended)
    reused = job.stats.cached_tokens
    speed = lane.read_s / lane.read_tokens if lane.read_tokens else None
    return LastCall(
        len(job.request.prompt),
        reused,
        len(job.request.prompt) - reused,
        None if speed is None else reused * speed,
        None if reused or not job.stats.started else _why(job, lane),
        name,
        job.common,
    )


def _why(job: Job, lane: Lane) -> Why:
    """Say why nothing was reused."""
    if not job.request.reuse:
        return "fresh"
    if not job.found:
        return "empty"
    if not job.common:
        return "other"
    return "short" if job.common < lane.cut else "state"
