"""Reproducible decoding of many jobs at once, where a row is the same whatever is decoded beside it."""

from __future__ import annotations

from llama_magic.engine.kv.cells import Cells
from llama_magic.engine.kv.ordered import OrderedCells
from llama_magic.engine.kv.store import PrefixStore
from llama_magic.engine.lanes.shared import SharedLane


class TogetherLane(SharedLane):
    """Decode all seeded jobs together, each bit for bit as a fresh engine would decode it alone.

    For contexts that `native.rows_alike` vouches for: there a token leaves the same cell whether it was read
    or written, with others or alone, so all of it may be reused. What is left to decide the bits is the
    order in which the cells of a sequence lie, which `OrderedCells` sees to.
    """

    together = True
    kv: OrderedCells

    def _made_cells(self, store: PrefixStore) -> Cells:
        return OrderedCells(
            self.context, self.context.options.sequences, store, size=self.cells, window=self.weights.n_swa
        )
