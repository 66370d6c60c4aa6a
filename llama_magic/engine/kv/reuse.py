"""Reuse of prefixes: a prompt begins with what another request has left in cells or in host memory."""

from __future__ import annotations

from collections.abc import Sequence

from llama_magic.engine.kv.cells import Cells
from llama_magic.engine.kv.slots import Slot
from llama_magic.engine.kv.store import StoredPrefix, common_prefix

# Tokens behind the common beginning from which on another conversation is worth a copy.
KEPT_FROM = 64


def match(slots: Sequence[Slot], tokens: Sequence[int], limit: int) -> tuple[Slot, int]:
    """Return the slot that shares the longest prefix with `tokens`, and its length, `limit` at most.

    Of several the best is one that can be written on in: neither in use nor a fork.
    """
    lengths = [(slot, min(common_prefix(slot.tokens, tokens), limit)) for slot in slots]
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
    holder, resident = match(cells.slots, tokens, limit)
    entry, stored = cells.store.best(tokens)
    stored = min(stored, limit)
    if entry is not None and stored > resident:
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
    if slot is not None and not cells.recurrent:
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
    resident = cells.whole_cuts(min(common_prefix(slot.tokens[: slot.n_read], tokens), limit))
    entry, stored = cells.store.best(tokens)
    stored = cells.whole_cuts(min(stored, limit))
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
