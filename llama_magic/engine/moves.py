"""Moving whole sequences in and out of the caches by name. Runs on the compute thread, between two steps."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from llama_magic.engine.kv.store import StoredPrefix, Stretch
from llama_magic.engine.native import DecodeStatus, StopFlag
from llama_magic.engine.snapshot import snapshot
from llama_magic.errors import BackendError, FitError, InputTypeError, OptionError

if TYPE_CHECKING:
    from llama_magic.engine.core import Core
    from llama_magic.engine.kv.slots import Slot
    from llama_magic.engine.lanes.lane import Lane

_AUTOMATIC = re.compile(r"(main|seeded)-(parked-)?\d+\Z")


@dataclass(frozen=True)
class SavedSequence:
    """A sequence on its way to or from a file, called `name` in the cache that it comes from.

    A seeded request may reuse its first `exact_length` tokens; `n_read` of them were read as a prompt.
    `together` says that they come from a lane that decodes seeded requests together: their bits are others.
    """

    tokens: tuple[int, ...]
    exact_length: int
    stretches: tuple[Stretch, ...]
    n_read: int = 0
    name: str = field(default="", compare=False)
    together: bool = False


def save(core: Core, wanted: str | None) -> SavedSequence:
    """Copy a sequence out: the one called `wanted`, or the one used last."""
    lane, found = _find(core, wanted) if wanted is not None else _latest(core)
    name = wanted or _name(core, found)
    if isinstance(found, StoredPrefix):
        exact = len(found.tokens) if lane is core.lanes.exact else 0
        stretches = tuple(found.stretches)
    else:
        exact = lane.kv.exact_length(found)
        stretches = tuple(lane.kv.states(found, exact))
    return SavedSequence(tuple(found.tokens), exact, stretches, found.n_read, name, lane.together)


def _name(core: Core, wanted: Slot | StoredPrefix) -> str:
    """Return what a sequence is called: its fork's name, else that of its place."""
    for lane_name, lane in core.lanes.named:
        for slot in lane.kv.slots:
            if slot is wanted:
                return slot.name or f"{lane_name}-{slot.sequence}"
        for index, entry in enumerate(lane.kv.store.entries):
            if entry is wanted:
                return next(iter(entry.names), f"{lane_name}-parked-{index}")
    return ""


def _latest(core: Core) -> tuple[Lane, Slot | StoredPrefix]:
    slots = [(lane, s) for _, lane in core.lanes.named for s in lane.kv.slots if s.tokens and not s.in_use]
    if slots:
        return max(slots, key=lambda pair: pair[1].last_used)
    entries = [(lane, entry) for _, lane in core.lanes.named for entry in lane.kv.store.entries]
    if entries:
        return max(entries, key=lambda pair: pair[1].last_used)
    raise OptionError(
        "The KV cache holds no sequence that is not in use.", remedy="Generate something first, or wait."
    )


def _find(core: Core, name: str) -> tuple[Lane, Slot | StoredPrefix]:
    for lane_name, lane in core.lanes.named:
        for slot in lane.kv.slots:
            if slot.tokens and name in (slot.name, f"{lane_name}-{slot.sequence}"):
                return lane, slot
        for index, entry in enumerate(lane.kv.store.entries):
            if name == f"{lane_name}-parked-{index}" or name in entry.names:
                return lane, entry
    known = ", ".join(n for s in snapshot(core).sequences for n in (s.id, *s.names)) or "none"
    raise OptionError(f"The KV cache holds no sequence {name!r}.", remedy=f"It holds: {known}.")


def fork(core: Core, source: str, name: str) -> None:
    """Name a copy of a sequence; in the shared cache it shares the cells, which costs nothing.

    It stays what it is until the cache is cleared: in cells, or in host memory within the budget. Of a
    seeded sequence that is the part which a seeded request may reuse; where there is none, all of it,
    for requests without a seed.
    """
    if not isinstance(name, str):
        raise InputTypeError(f"A fork's name is a text; got {type(name).__name__}.")
    if not name or _AUTOMATIC.match(name):
        raise OptionError(
            f"A fork cannot be called {name!r}.", remedy="Choose a name that is not one of the cache's own."
        )
    if any(name in sequence.names for sequence in snapshot(core).sequences):
        raise OptionError(f"There is a fork {name!r} already.", remedy="Choose another name.")
    lane, found = _find(core, source)
    if isinstance(found, StoredPrefix):
        found.names.append(name)
    elif lane is core.lanes.exact and not lane.kv.exact_length(found):
        shared = core.lane(exact=False)
        shared.kv.store.put(list(found.tokens), lane.kv.states(found), found.n_read, (name,))
    else:
        lane.kv.fork(found, name)
    if not any(name in sequence.names for sequence in snapshot(core).sequences):
        stretches = found.stretches if isinstance(found, StoredPrefix) else lane.kv.states(found)
        raise _too_large("fork", sum(len(stretch.state) for stretch in stretches), lane)


def restore(core: Core, saved: SavedSequence) -> None:
    """Take a saved sequence into host memory, from where the next prompt that begins with it takes it."""
    shared = core.lane(exact=False)
    if not shared.running:
        shared.kv.park_idle()
        for stretch in saved.stretches:
            if not shared.kv.takes(stretch, partial(_numbers, shared, end=stretch.end)):
                raise BackendError(
                    "llama.cpp refused the saved sequence, though the file is whole and made for this model.",
                    remedy="It was saved with other context options; read the text again instead.",
                )
    _keep(shared, list(saved.tokens), list(saved.stretches), saved.n_read)
    length = saved.exact_length
    if length and core.lane(exact=True).together == saved.together:
        exact = [stretch for stretch in saved.stretches if stretch.end <= length]
        _keep(core.lane(exact=True), list(saved.tokens[:length]), exact, length)


def _numbers(lane: Lane, sequence: int, end: int) -> bool:
    """Whether a token behind a sequence has logits. Clears the cells and raises `BackendError` where not."""
    context = lane.context
    context.watch(StopFlag())  # that of the last answer may be set
    if end >= context.n_ctx or context.decode([0], [end], [sequence], [0]) is not DecodeStatus.DONE:
        return True  # no cell is free for the token
    peak = float(context.logits(0).max())
    if math.isfinite(peak):
        return True
    lane.kv.clear()
    raise BackendError(
        f"The saved sequence holds values that are no numbers: what follows it has logits of {peak}.",
        remedy="The file was made or changed by something else; read the text again instead.",
    )


def _keep(lane: Lane, tokens: list[int], stretches: list[Stretch], n_read: int) -> None:
    lane.kv.store.put(tokens, stretches, n_read)
    entry, length = lane.kv.store.best(tokens, len(tokens))
    if entry is None or length < len(tokens):
        raise _too_large("saved sequence", sum(len(stretch.state) for stretch in stretches), lane)


def _too_large(what: str, size: int, lane: Lane) -> FitError:
    return FitError(
        f"The {what} takes {size / 1e6:,.1f} MB, and host memory for sequences is limited to "
        f"{lane.kv.store.budget / 1e6:,.1f} MB.",
        remedy="Free memory and load the model again; the limit is an eighth of what is free.",
    )


def clear(core: Core) -> None:
    """Forget every sequence that no request is using, and all names."""
    for _, lane in core.lanes.named:
        lane.forget()
