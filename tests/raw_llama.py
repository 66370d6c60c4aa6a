"""Plain llama_cpp, without a line of the project: what the project's answers are compared with."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import llama_cpp as c
import numpy as np

CHUNK = 64  # a seeded prompt is read in pieces of this size


class Raw:
    """A model and a context of it: `n_ctx` cells, one thread, batches of 64, layers on the CPU."""

    def __init__(
        self, model: Any, n_ctx: int, adapters: Sequence[tuple[Path, float]], **changes: Any
    ) -> None:
        self._model = model
        self._vocab = c.llama_model_get_vocab(model)
        self.n_vocab = c.llama_vocab_n_tokens(self._vocab)
        loaded = [c.llama_adapter_lora_init(model, str(path).encode()) for path, _ in adapters]
        params = c.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = n_ctx, CHUNK, CHUNK
        params.n_threads = params.n_threads_batch = 1
        params.kv_unified = True
        for name, value in changes.items():
            setattr(params, name, value)
        self.context = c.llama_init_from_model(model, params)
        assert self.context
        assert all(loaded)
        if loaded:
            pointers = (c.llama_adapter_lora_p_ctypes * len(loaded))(*loaded)
            scales = (ctypes.c_float * len(loaded))(*(scale for _, scale in adapters))
            assert c.llama_set_adapters_lora(self.context, pointers, len(loaded), scales) == 0

    def tokens(self, text: str) -> list[int]:
        """Tokenize as an ordinary prompt, with the tokens that the file adds."""
        data = text.encode()
        buffer = (c.llama_token * (len(data) + 8))()
        n = c.llama_tokenize(self._vocab, data, len(data), buffer, len(buffer), True, True)
        return list(buffer[:n])

    def decode(self, ids: Sequence[int]) -> np.ndarray:
        """Decode tokens after those before, in pieces; returns the logits of the last: (n_vocab,) float32."""
        for start in range(0, len(ids), CHUNK):
            self._decode(ids[start : start + CHUNK])
        return np.ctypeslib.as_array(c.llama_get_logits_ith(self.context, -1), (self.n_vocab,)).copy()

    def _decode(self, ids: Sequence[int]) -> None:
        tokens = (c.llama_token * len(ids))(*ids)  # must live until the decode
        assert c.llama_decode(self.context, c.llama_batch_get_one(tokens, len(ids))) == 0

    def greedy(self, ids: Sequence[int], n: int) -> tuple[list[int], list[float]]:
        """Return the `n` likeliest tokens one after the other and the log-probability of each."""
        out: list[int] = []
        logprobs: list[float] = []
        logits = self.decode(ids)
        for step in range(n):
            best = int(logits.argmax())
            out.append(best)
            peak = float(logits.max())
            total = np.exp(logits - np.float32(peak)).sum()  # in single precision, as the engine does
            logprobs.append(float(logits[best]) - (peak + math.log(float(total))))
            if step + 1 < n:
                logits = self.decode([best])
        return out, logprobs

    def embed(self, ids: Sequence[int]) -> np.ndarray:
        """Return the pooled embedding of tokens, of length 1: (n_embd,) float32."""
        if memory := c.llama_get_memory(self.context):  # an encoder has none
            c.llama_memory_clear(memory, True)
        self._decode(ids)
        width = c.llama_model_n_embd_out(self._model)
        row = np.ctypeslib.as_array(c.llama_get_embeddings_seq(self.context, 0), (width,)).copy()
        return row / np.linalg.norm(row)


@contextmanager
def raw(
    path: Path, n_ctx: int = 512, adapters: Sequence[tuple[Path, float]] = (), **changes: Any
) -> Iterator[Raw]:
    """Open a file in plain llama_cpp; `changes` are fields of `llama_context_params`."""
    params = c.llama_model_default_params()
    params.n_gpu_layers = 0
    model = c.llama_model_load_from_file(str(path).encode(), params)
    assert model
    opened = Raw(model, n_ctx, adapters, **changes)
    try:
        yield opened
    finally:
        c.llama_free(opened.context)
        c.llama_model_free(model)
