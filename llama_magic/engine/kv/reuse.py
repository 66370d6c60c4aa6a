"""Reuse of prefixes: a prompt begins with what another request has left in cells or in host memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from llama_magic.engine.kv.cells import Cells
from llama_magic.engine.kv.slots import Slot
from llama_magic.engine.kv.store import StoredPrefix, common_prefix, usable_prefix

# Tokens behind the common beginning from which on another conversation is worth a copy.
KEPT_FROM = 64
# A state that cannot be cut back is kept behind multiples of so many tokens: a cut of seeded prompts, too.
STEP = 64
LOOKED_AT = 16  # prompts in the queue, for a common beginning


def checkpoints(prompt: Sequence[int], held: int, waiting: Iterable[Sequence[int]]) -> frozenset[int]:
    """Return behind how many tokens of a prompt a copy of the state is to be kept while it is read.

    Of a recurrent model, whose state cannot be cut back later: near the end of the prompt, for it may be
    asked again, or longer; and where a beginning ends that it has in common with what is `held` (so many
    tokens) or with prompts that are `waiting`, for more may begin so.
    """
    limit = len(prompt) - 1
    common = max((common_prefix(other, prompt) for other in islice(waiting, LOOKED_AT)), default=0)
    return frozenset(min(end, limit) // STEP * STEP for end in (held, common, limit)) - {0}


def match(cells: Cells, tokens: Sequence[int], limit: int) -> tuple[Slot, int]:
    """Return the slot that `tokens` can go on from furthest, and how far: `limit` at most.

    Of several the best is one that can be written on in: neither in use nor a fork.
    """

    def length(slot: Slot) -> int:
        if cells.recurrent and slot.in_use:
            return 0  # its state is another by the next step
        return usable_prefix(slot.tokens, tokens, limit, recurrent=cells.recurrent)

    lengths = [(slot, length(slot)) for slot in cells.slots]
    return max(lengths, key=lambda pair: (pair[1], not pair[0].in_use and not pair[0].name))


def common_with(cells: Cells, tokens: Sequence[int]) -> int:
    """Return how many tokens of the beginning are held; where there are cuts, of those that were read."""
    held = [slot.tokens[: slot.n_read] if cells.cut else slot.tokens for slot in cells.slots]
    held += [entry.tokens for entry in cells.store.entries]
    return max((common_prefix(other, tokens) for other in held), default=0)


def take_longest(cells: Cells, tokens: Sequence[int], limit: int) -> Slot | None:
    """Return a slot not in use with the longest prefix of `tokens` that is held anywhere, cut to it.

    At most `limit` tokens. None where nothing is held of it, or no slot is free.
    """
    holder, resident = match(cells, tokens, limit)
    entry, stored = cells.store.best(tokens, limit)
    if entry is not None and stored > resident:
        cells.park_idle()  # before, so that what comes back lies at the start, and not behind them
        slot = cells.free_slot()
        if slot is not None and restored(cells, slot, entry):
            cells.trim(slot, stored)
        return slot
    if resident == 0:
        return None
    if not holder.in_use and holder.name and cells.recurrent:
        cells.keep_copy(holder)  # its state cannot be shared up to a position: the fork stays in host memory
        holder.name = ""
    if not holder.in_use and not holder.name:
        if len(holder.tokens) - resident >= KEPT_FROM:
            # Another conversation with the same beginning: keep it, too.
            cells.keep_copy(holder)
        cells.trim(holder, resident)
        return holder
    slot = cells.free_slot()
    if slot is holder:  # a fork that had to make room: it is in host memory now
        return take_longest(cells, tokens, limit)
    if slot is not None:
        cells.share(holder, slot, resident)
        cells.trim(slot, resident)
    return slot


def restored(cells: Cells, slot: Slot, entry: StoredPrefix) -> bool:
    """Bring a parked sequence back into a slot, others making room for it; False where they cannot."""
    while not cells.restore(slot, entry):
        if not cells.evict():
            return False
    return True


def take_exact(cells: Cells, tokens: Sequence[int], limit: int) -> Slot:
    """Return the first slot with what may be reused of `tokens`, and everything else out of the cells.

    What may be reused is what a cold read writes bit for bit: whole cuts that were read as a prompt, in
    the places where they would lie. At most `limit` tokens.
    """
    slot = cells.slots[0]
    resident = _up_to_a_cut(cells, slot, tokens, limit)
    entry, _ = cells.store.best(tokens, limit)
    stored = 0 if entry is None else _up_to_a_cut(cells, entry, tokens, limit)
    if entry is not None and stored > resident:
        cells.park(slot)
        cells.memory.clear()
        if cells.restore(slot, entry):
            cells.trim(slot, stored)
        return slot
    worth = cells.reusable(slot)
    if worth - resident >= cells.cut:
        cells.trim(slot, worth)
        cells.keep_copy(slot)
    if resident:
        cells.trim(slot, resident)
    else:
        cells.empty(slot)
        cells.memory.clear()
    return slot


def _up_to_a_cut(cells: Cells, held: Slot | StoredPrefix, tokens: Sequence[int], limit: int) -> int:
    """Return how many leading tokens that were read as a prompt, in whole cuts, can be gone on from."""
    read = held.tokens if isinstance(held, StoredPrefix) else held.tokens[: held.n_read]
    length = cells.last_cut(usable_prefix(read, tokens, limit, recurrent=cells.recurrent))
    return 0 if cells.recurrent and length != len(held.tokens) else length
