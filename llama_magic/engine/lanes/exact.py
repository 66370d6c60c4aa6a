"""Reproducible decoding: the same request gives the same tokens, whatever ran before."""

from __future__ import annotations

from llama_magic.engine.contexts import CUT
from llama_magic.engine.kv.reuse import take_exact
from llama_magic.engine.kv.slots import Slot
from llama_magic.engine.lanes.lane import Lane
from llama_magic.engine.lanes.running import Running, siblings


class ExactLane(Lane):
    """Decode one seeded job at a time, bit for bit as a fresh engine would.

    What may be reused: cells that were written while reading, up to a cut. The samples of one
    job are decoded together; nothing else is in the cache meanwhile, and the cells lie in
    the same places as after a cold read.
    """

    cut = CUT

    def chunk(self, running: Running) -> int:
        return CUT - running.n_past % CUT

    def _admit(self) -> None:
        if not self.waiting:
            return
        if not self.running:
            self._begin(self.waiting.popleft())
        while self.waiting and self.running and self.waiting[0].job is self.running[0].job:
            running = self.waiting[0]
            lead = self._prompt_holder(running)
            slot = self.kv.unused_slot()
            if lead is None or slot is None or not self.fits(running):
                return
            self.waiting.popleft()
            self._share(lead, slot, running)

    def _begin(self, running: Running) -> None:
        limit = running.n_prompt - 1 if running.request.reuse else 0
        running.look(self.kv)
        slot = take_exact(self.kv, running.tokens, limit)
        self._start(running, slot, len(slot.tokens))

    def _prompt_holder(self, running: Running) -> Slot | None:
        """Return a running slot of the same job that has read the whole prompt."""
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
            self.kv.share(lead, slot, keep)
        self._start(running, slot, keep)

    def _retire(self) -> None:
        done = [r for r in self.running if r.done]
        super()._retire()
        # The prompt stays in slot 0; every other sample's cells go, and a later sample of the
        # same job finds the prompt in whichever slot still runs.
        for running in done:
            slot = running.slot
            assert slot is not None
            if slot is not self.kv.slots[0]:
                self.kv.empty(slot)
