"""A context in memory, whose next token depends on all that a sequence holds: wrong cells, wrong token."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from fake_memory import FakeMemory, FakeState

from llama_magic.engine.native import DecodeStatus

N_VOCAB = 16


def next_token(tokens: Sequence[int]) -> int:
    """Return the token that follows, in every context that holds exactly `tokens`."""
    return sum((i + 3) * (token + 1) * (token + 7) for i, token in enumerate(tokens)) % N_VOCAB


def answer(prompt: Sequence[int], length: int) -> list[int]:
    """Return the tokens that a fresh engine would write."""
    tokens = list(prompt)
    for _ in range(length):
        tokens.append(next_token(tokens))
    return tokens[len(prompt) :]


class FakeContext(FakeMemory):
    """As `native.Context`, of `size` cells and `sequences`."""

    def __init__(self, size: int, sequences: int, window: int = 0, batch: int = 8) -> None:
        super().__init__(size, window)
        vocab = SimpleNamespace(eog_ids=(), piece=lambda token, special=False: b"x", n_tokens=N_VOCAB)
        recurrent = isinstance(self, FakeState)
        self.weights = SimpleNamespace(recurrent=recurrent, attends=True, n_swa=window, vocab=vocab)
        self.options = SimpleNamespace(sequences=sequences)
        self.n_ctx, self.n_batch = size, batch
        self.rows: dict[int, Any] = {}
        self.most_used = 0

    def decode(self, tokens: Any, positions: Any, sequences: Any, outputs: Any) -> DecodeStatus:
        assert 0 < len(tokens) <= self.n_batch
        if len(tokens) > sum(not cell.sequences for cell in self.cells):
            return DecodeStatus.NO_CELLS
        self.rows = {}
        for i, (token, position, sequence) in enumerate(zip(tokens, positions, sequences, strict=True)):
            assert position == self.span(sequence)[1] + 1
            assert self.write(sequence, position, [token])
            if i in outputs:
                self.rows[i] = np.zeros(N_VOCAB, np.float32)
                self.rows[i][next_token([held for _, held in self.held(sequence)])] = 1
        self.most_used = max(self.most_used, self.used())
        return DecodeStatus.DONE

    def logits(self, index: int) -> Any:
        return self.rows[index]

    def watch(self, flag: Any) -> None:
        pass

    def close(self) -> None:
        pass


class FakeRecurrentContext(FakeContext, FakeState):
    """As a context of a recurrent model."""


class GreedyChain:
    """As `native.SamplerChain`: the likeliest token."""

    looks_back = False
    plain_greedy = True

    def __init__(self, *given: Any, **options: Any) -> None:
        pass

    def close(self) -> None:
        pass
