"""Reproducible decoding: the same request gives the same tokens, whatever ran before."""

from __future__ import annotations

from llama_magic.engine.kv.store import common_prefix
from llama_magic.engine.lanes.lane import Lane, siblings
from llama_magic.engine.lanes.running import Running, Slot

# Prompts are cut at multiples of this many tokens. A cut is where a later request can take
# over: smaller means less to read again, and a little more time for a cold read (64 costs
# about 10 % over 512 on two cores).
CUT = 64


class ExactLane(Lane):
    """Decode one seeded request at a time, bit for bit as a fresh engine would.

    What may be reused: cells that were written while reading, up to a cut. The samples of one
    request are decoded together; nothing else is in the cache meanwhile, and the cells lie in
    the same places as after a cold read.
    """

    def _chunk(self, running: Running) -> int:
        return CUT - running.n_past % CUT

    def _admit(self) -> None:
        if not self.waiting:
            return
        if not self.running:
            self._begin(self.waiting.popleft())
        while self.waiting and self.waiting[0].request is self.running[0].request:
            running = self.waiting[0]
            lead = self._prompt_holder(running)
            if lead is None or not self._fits(running):
                return
            slot = next((s for s in self.slots if s.owner is None and not s.tokens), None)
            if slot is None:
                return
            self.waiting.popleft()
            self._share(lead, slot, running)

    def _prompt_holder(self, running: Running) -> Slot | None:
        """Return a running slot of the same request that has read the whole prompt."""
        for other in siblings(running, self.running):
            if not other.reading and other.slot is not None:
                return other.slot
        return None

    def _share(self, lead: Slot, slot: Slot, running: Running) -> None:
        keep = running.n_prompt - 1
        if self.weights.recurrent:
            # A recurrent state cannot be cut back by a token, so each sample reads for itself.
            keep = 0
        else:
            self.context.copy(lead.sequence, slot.sequence, 0, keep)
            slot.share(lead, keep)
        self._start(running, slot, keep)

    def _retire(self) -> None:
        done = [r for r in self.running if r.done]
        super()._retire()
        # The prompt stays in slot 0; every other sample's cells go, and a later sample of the
        # same request finds the prompt in whichever slot still runs.
        for running in done:
            slot = running.slot
            assert slot is not None
            if slot is not self.slots[0]:
                self._empty(slot)

    def _begin(self, running: Running) -> None:
        """Start a request in slot 0 with what may be reused, everything else out of the cells."""
        slot = self.slots[0]
        reusable = self._cut(
            min(common_prefix(slot.tokens[: slot.n_read], running.tokens), running.n_prompt - 1)
        )
        entry, stored = self.store.best(running.tokens)
        stored = self._cut(min(stored, running.n_prompt - 1))
        if not running.request.reuse:
            reusable = stored = 0
        if entry is not None and stored > reusable:
            self._park(slot)
            self.context.clear()
            if self._restore(slot, entry):
                slot.n_read = len(slot.tokens)
                self._trim(slot, stored)
        else:
            if self._worth_keeping(slot) - reusable >= CUT:
                self._trim(slot, self._worth_keeping(slot))
                self._keep_copy(slot)
            if reusable:
                self._trim(slot, reusable)
            else:
                self._empty(slot)
                self.context.clear()
        self._start(running, slot, len(slot.tokens))

    @staticmethod
    def _cut(length: int) -> int:
        return length // CUT * CUT

    def _worth_keeping(self, slot: Slot) -> int:
        return self._cut(slot.n_read)

    def exact_length(self, slot: Slot) -> int:
        # A recurrent state is that of the last token: it cannot be saved as of a cut before.
        return 0 if self.weights.recurrent else self._cut(slot.n_read)

    def fork(self, slot: Slot, name: str) -> None:
        """Keep a copy in host memory: while a seeded request runs, no other cells may be in use."""
        length = self._cut(slot.n_read)
        kept = [stretch for stretch in self.states(slot, length) if stretch.end <= length]
        self.store.put(list(slot.tokens[:length]), kept, length, (name,))
