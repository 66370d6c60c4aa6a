"""The KV cache as a whole: what it holds, and moving sequences in and out. Runs on the compute thread."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llama_magic.engine.kv.store import StoredPrefix, Stretch
from llama_magic.engine.lanes.running import cells_used
from llama_magic.errors import BackendError, FitError, OptionError

if TYPE_CHECKING:
    from llama_magic.engine.engine import Core
    from llama_magic.engine.lanes.lane import Lane
    from llama_magic.engine.lanes.running import Slot

_AUTOMATIC = re.compile(r"(shared|exact)-(host-)?\d+\Z")


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


@dataclass(frozen=True)
class SavedSequence:
    """A sequence on its way to or from a file, called `name` in the cache that it comes from.

    A seeded request may reuse its first `exact_length` tokens; `n_read` of them were read as a prompt.
    """

    tokens: tuple[int, ...]
    exact_length: int
    stretches: tuple[Stretch, ...]
    n_read: int = 0
    name: str = field(default="", compare=False)


def snapshot(core: Core) -> Snapshot:
    """Say what all caches hold, between two steps."""
    lanes: list[LaneState] = []
    held: list[HeldSequence] = []
    for name, lane in _lanes(core):
        kv = sum(size for kind, size in lane.context.buffers.items() if kind in ("KV", "RS"))
        store = lane.store
        lanes.append(LaneState(name, lane.cells, cells_used(lane.slots), kv, store.bytes_used, store.budget))
        for slot in lane.slots:
            if slot.tokens or slot.owner is not None:
                held.append(_slot(name, lane, slot))
        for index, entry in enumerate(store.entries):
            held.append(_entry(name, index, entry))
    return Snapshot(tuple(lanes), tuple(held), _last(core))


def _lanes(core: Core) -> list[tuple[str, Lane]]:
    return [("exact" if exact else "shared", lane) for exact, lane in sorted(core.lanes.items())]


def _slot(name: str, lane: Lane, slot: Slot) -> HeldSequence:
    return HeldSequence(
        f"{name}-{slot.sequence}",
        name,
        tuple(slot.tokens),
        slot.n_read,
        in_cells=True,
        running=slot.owner is not None,
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
    ended = [lane.last for _, lane in _lanes(core) if lane.last is not None]
    if not ended:
        return None
    request = max(ended, key=lambda r: r.stats.ended)
    lane = core.lanes[request.exact]
    reused = request.stats.cached_tokens
    speed = lane.read_s / lane.read_tokens if lane.read_tokens else None
    return LastCall(
        len(request.prompt),
        reused,
        len(request.prompt) - reused,
        None if speed is None else reused * speed,
    )


# --- moving sequences ---------------------------------------------------------------------------


def save(core: Core, wanted: str | None) -> SavedSequence:
    """Copy a sequence out: the one called `wanted`, or the one used last."""
    lane, found = _find(core, wanted) if wanted is not None else _latest(core)
    name = wanted or _name(core, found)
    if isinstance(found, StoredPrefix):
        exact = len(found.tokens) if lane is core.lanes.get(True) else 0
        stretches = tuple(found.stretches)
    else:
        exact = lane.exact_length(found)
        stretches = tuple(lane.states(found, exact))
    return SavedSequence(tuple(found.tokens), exact, stretches, found.n_read, name)


def _name(core: Core, wanted: Slot | StoredPrefix) -> str:
    """Return what a sequence is called: its fork's name, else that of its place."""
    for lane_name, lane in _lanes(core):
        for slot in lane.slots:
            if slot is wanted:
                return slot.name or f"{lane_name}-{slot.sequence}"
        for index, entry in enumerate(lane.store.entries):
            if entry is wanted:
                return next(iter(entry.names), f"{lane_name}-host-{index}")
    return ""


def _latest(core: Core) -> tuple[Lane, Slot | StoredPrefix]:
    slots = [(lane, s) for _, lane in _lanes(core) for s in lane.slots if s.tokens and s.owner is None]
    if slots:
        return max(slots, key=lambda pair: pair[1].last_used)
    entries = [(lane, entry) for _, lane in _lanes(core) for entry in lane.store.entries]
    if entries:
        return max(entries, key=lambda pair: pair[1].last_used)
    raise OptionError(
        "The KV cache holds no sequence that is not in use.", remedy="Generate something first, or wait."
    )


def _find(core: Core, name: str) -> tuple[Lane, Slot | StoredPrefix]:
    for lane_name, lane in _lanes(core):
        for slot in lane.slots:
            if slot.tokens and name in (slot.name, f"{lane_name}-{slot.sequence}"):
                return lane, slot
        for index, entry in enumerate(lane.store.entries):
            if name == f"{lane_name}-host-{index}" or name in entry.names:
                return lane, entry
    known = ", ".join(n for s in snapshot(core).sequences for n in (s.id, *s.names)) or "none"
    raise OptionError(f"The KV cache holds no sequence {name!r}.", remedy=f"It holds: {known}.")


def fork(core: Core, source: str, name: str) -> None:
    """Name a copy of a sequence; in the shared cache it shares the cells, which costs nothing.

    It stays what it is until the cache is cleared: in cells, or in host memory within the budget. Of a
    seeded sequence that is the part which a seeded request may reuse; where there is none, all of it,
    for requests without a seed.
    """
    if not name or _AUTOMATIC.match(name):
        raise OptionError(
            f"A fork cannot be called {name!r}.", remedy="Choose a name that is not one of the cache's own."
        )
    if any(name in sequence.names for sequence in snapshot(core).sequences):
        raise OptionError(f"There is a fork {name!r} already.", remedy="Choose another name.")
    lane, found = _find(core, source)
    if isinstance(found, StoredPrefix):
        found.names.append(name)
    elif lane is core.lanes.get(True) and not lane.exact_length(found):
        shared = core.lane(exact=False)
        shared.store.put(list(found.tokens), lane.states(found), found.n_read, (name,))
    else:
        lane.fork(found, name)
    if not any(name in sequence.names for sequence in snapshot(core).sequences):
        stretches = found.stretches if isinstance(found, StoredPrefix) else lane.states(found)
        raise _too_large("fork", sum(len(stretch.state) for stretch in stretches), lane)


def restore(core: Core, saved: SavedSequence) -> None:
    """Take a saved sequence into host memory, from where the next prompt that begins with it takes it."""
    shared = core.lane(exact=False)
    if not shared.running:
        shared.park_idle()
        for stretch in saved.stretches:
            if not shared.takes(stretch):
                raise BackendError(
                    "llama.cpp refused the saved sequence, though the file is whole and made for this model.",
                    remedy="It was saved with other context options; read the text again instead.",
                )
    _keep(shared, list(saved.tokens), list(saved.stretches), saved.n_read)
    length = saved.exact_length
    if length:
        exact = [stretch for stretch in saved.stretches if stretch.end <= length]
        _keep(core.lane(exact=True), list(saved.tokens[:length]), exact, length)


def _keep(lane: Lane, tokens: list[int], stretches: list[Stretch], n_read: int) -> None:
    lane.store.put(tokens, stretches, n_read)
    entry, length = lane.store.best(tokens)
    if entry is None or length < len(tokens):
        raise _too_large("saved sequence", sum(len(stretch.state) for stretch in stretches), lane)


def _too_large(what: str, size: int, lane: Lane) -> FitError:
    return FitError(
        f"The {what} takes {size / 1e6:,.1f} MB, and host memory for sequences is limited to "
        f"{lane.store.budget / 1e6:,.1f} MB.",
        remedy="Free memory and load the model again; the limit is an eighth of what is free.",
    )


def clear(core: Core) -> None:
    """Forget every sequence that no request is using, and all names."""
    for _, lane in _lanes(core):
        lane.drop_idle()
