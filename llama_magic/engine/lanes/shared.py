"""Continuous batching: every request decoded together, any prefix reused."""

from __future__ import annotations

from llama_magic.engine.kv.store import common_prefix
from llama_magic.engine.lanes.lane import Lane, siblings
from llama_magic.engine.lanes.running import Running, Slot


class SharedLane(Lane):
    """Decode all unseeded requests in one unified KV cache.

    Idle sequences are parked in host memory when another request starts: attention runs over
    all used cells, so idle ones would slow every token, and a copy back costs some
    microseconds a token where reading it again costs milliseconds.
    """

    def _admit(self) -> None:
        held_back: list[Running] = []
        while self.waiting:
            running = self.waiting.popleft()
            first = not self.running
            reads_prompt = any(other.reading for other in siblings(running, self.running))
            if (first or (not reads_prompt and self._fits(running))) and self._place(running):
                continue
            held_back.append(running)
            if not reads_prompt:
                break  # first come, first served: do not let short requests starve a long one
        self.waiting.extendleft(reversed(held_back))

    def _shares_prompt(self, running: Running) -> bool:
        return running.request.reuse and super()._shares_prompt(running)

    def _place(self, running: Running) -> bool:
        """Give a sample a slot, with the longest prefix that is held anywhere."""
        limit = len(running.tokens) - 1  # the last token is decoded in any case: its logits are needed
        slot: Slot | None = None
        if running.request.reuse:
            slot = self._reuse(running, limit)
        if slot is None:
            slot = self._free_slot()
        if slot is None:
            return False
        self._start(running, slot, len(slot.tokens))
        self.park_idle()
        return True

    def _reuse(self, running: Running, limit: int) -> Slot | None:
        lengths = [(min(common_prefix(s.tokens, running.tokens), limit), s) for s in self.slots]
        # Best is one that the request may write on in: neither in use nor a fork.
        resident, holder = max(
            lengths, key=lambda pair: (pair[0], pair[1].owner is None and not pair[1].name)
        )
        entry, stored = self.store.best(running.tokens)
        stored = min(stored, limit)
        if entry is not None and stored > resident:
            slot = self._free_slot()
            if slot is not None and self._restore(slot, entry):
                slot.n_read = entry.n_read
                self._trim(slot, stored)
            return slot
        if resident == 0:
            return None
        if holder.owner is None and holder.name and self.weights.recurrent:
            self._keep_copy(
                holder
            )  # a state cannot be shared up to a position: the fork stays in host memory
            holder.name = ""
        if holder.owner is None and not holder.name:
            if len(holder.tokens) - resident >= 64:
                # Another conversation with the same beginning: keep it, too.
                self._keep_copy(holder)
            self._trim(holder, resident)
            return holder
        slot = self._free_slot()
        if slot is holder:  # a fork that had to make room: it is in host memory now
            return self._reuse(running, limit)
        if slot is not None and not self.weights.recurrent:
            self.context.copy(holder.sequence, slot.sequence, 0, resident)
            slot.share(holder, resident)
            self._trim(slot, resident)
        return slot
