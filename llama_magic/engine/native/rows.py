"""The arrays of a `llama_batch`, as they are filled."""

from __future__ import annotations

from typing import Any

import numpy as np

# Rows that are filled in one by one: NumPy takes longer to begin than to copy so few.
FEW = 16


class BatchViews:
    """The arrays of a `llama_batch`: as NumPy views for many rows, as pointers for few."""

    def __init__(self, batch: Any, size: int) -> None:
        as_array = np.ctypeslib.as_array
        self.token = as_array(batch.token, shape=(size,))
        self.position = as_array(batch.pos, shape=(size,))
        self.count = as_array(batch.n_seq_id, shape=(size,))
        self.logits = as_array(batch.logits, shape=(size,))
        self.count[:] = 1  # as it is outside of `decode_shared`
        self.tokens, self.positions, self.wanted = batch.token, batch.pos, batch.logits
        self.owners = [batch.seq_id[i] for i in range(min(FEW, size))]
