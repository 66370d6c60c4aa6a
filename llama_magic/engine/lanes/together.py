"""Reproducible decoding of many jobs at once, where a row is the same whatever is decoded beside it."""

from __future__ import annotations

from llama_magic.engine.contexts import CUT
from llama_magic.engine.kv.cells import Cells
from llama_magic.engine.kv.ordered import OrderedCells
from llama_magic.engine.kv.reuse import take_beside
from llama_magic.engine.kv.slots import Slot
from llama_magic.engine.kv.store import PrefixStore
from llama_magic.engine.lanes.batch import Batch
from llama_magic.engine.lanes.lane import Lane, siblings
from llama_magic.engine.lanes.running import Running
from llama_magic.engine.lanes.shared import SharedLane
from llama_magic.engine.native import DecodeStatus


class TogetherLane(SharedLane):
    """Decode all seeded jobs together, each bit for bit as a fresh engine would decode it alone.

    For contexts that `native.rows_alike` vouches for. What is left to decide the bits is the order in which
    the cells of a sequence lie, which `OrderedCells` sees to. What may be reused is what `ExactLane` reuses.
    """

    cut = CUT
    together = True
    kv: OrderedCells

    def _made_cells(self, store: PrefixStore) -> Cells:
        sequences, window = self.context.options.sequences, self.weights.n_swa
        return OrderedCells(self.context, sequences, store, size=self.cells, window=window, cut=self.cut)

    def _decode(self, batch: Batch) -> DecodeStatus:
        if not self.kv.lay(len(batch.tokens)):
            return DecodeStatus.NO_CELLS
        return super()._decode(batch)

    def _take(self, running: Running, limit: int) -> Slot | None:
        for other in siblings(running, self.running):
            slot = self.kv.unused_slot()
            if other.slot is not None and slot is not None and not other.reading:
                self.kv.share(other.slot, slot, limit)
                return slot
        return take_beside(self.kv, running.tokens, limit if running.job.reuse else 0)

    def _shares_prompt(self, running: Running) -> bool:
        return Lane._shares_prompt(self, running)

    def _retire(self) -> None:
        done = [running for running in self.running if running.done]
        super()._retire()
        for running in done:
            if running.index and running.slot is not None:  # the prompt stays with sample 0
                self.kv.empty(running.slot)
