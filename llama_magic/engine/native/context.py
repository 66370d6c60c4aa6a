"""A llama.cpp context: decode batches, move sequences, read logits. One thread at a time."""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import llama_cpp
import numpy as np

from llama_magic.doors import option
from llama_magic.engine.native import backend, openmp, spinning
from llama_magic.engine.native.rows import FEW, BatchViews
from llama_magic.engine.native.stopping import ABORT, StopFlag
from llama_magic.errors import BackendError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llama_magic.engine.native.weights import Adapter, Weights

GGML_TYPES = {"f32": 0, "f16": 1, "bf16": 30, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8}
_FLASH = {"auto": -1, "off": 0, "on": 1}
_ROPE = {None: -1, "none": 0, "linear": 1, "yarn": 2}
_POOLING = {None: -1, "none": 0, "mean": 1, "cls": 2, "last": 3}


class DecodeStatus(enum.Enum):
    """What `llama_decode` came back with."""

    DONE = 0
    NO_CELLS = 1
    ABORTED = 2


_BYTES = ctypes.POINTER(ctypes.c_uint8)
_STATUS = {status.value: status for status in DecodeStatus}
# The address alone: of a pointer object it takes three more to come by.
_row_address = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)(
    ("llama_get_logits_ith", backend.LIBRARY)
)


@dataclass(frozen=True)
class ContextOptions:
    """Parameters of one context; names and meaning as in `llama_context_params`.

    `cells` is `n_ctx`, the KV cells shared by all `sequences` (`kv_unified`).
    """

    cells: int
    sequences: int = 1
    batch: int = 512
    ubatch: int = 512
    threads: int = 0
    threads_batch: int = 0
    type_k: str = "f16"
    type_v: str = "f16"
    flash_attn: str = "auto"
    swa_full: bool = True
    rope_scaling: str | None = None
    rope_freq_base: float = 0.0
    rope_freq_scale: float = 0.0
    yarn_ext_factor: float = -1.0
    yarn_attn_factor: float = -1.0
    yarn_beta_fast: float = -1.0
    yarn_beta_slow: float = -1.0
    yarn_orig_ctx: int = 0
    embeddings: bool = False
    pooling: str | None = None
    outputs: int = 0
    adapters: tuple[Adapter, ...] = ()


class Context:
    """Own one `llama_context` on `weights`. Not thread-safe, but `abort()` may come from any thread."""

    def __init__(self, weights: Weights, options: ContextOptions) -> None:
        self.options = options
        self.weights = weights
        self.n_vocab = weights.vocab.n_tokens
        self._stop_flag = StopFlag()
        with backend.captured_log() as log:
            # Before the context is made, which measures its graphs with every adapter of the weights.
            adapters = [weights.adapter(adapter) for adapter in options.adapters]
            pointer = llama_cpp.llama_init_from_model(weights.pointer, params := self._params())
        if not pointer:
            raise BackendError(
                f"llama.cpp could not make a context of {options.cells:,} cells.",
                log=backend.log_tail(),
                remedy=f"Load with a smaller {option('ctx')}, or with {option('flash_attn', 'off')}.",
            )
        self._pointer: int | None = int(pointer)
        self._threads = max(params.n_threads, params.n_threads_batch)
        self.buffers = backend.buffer_sizes(log)
        self._memory = llama_cpp.llama_get_memory(pointer)
        self.n_ctx = int(llama_cpp.llama_n_ctx(pointer))
        self.n_batch = int(llama_cpp.llama_n_batch(pointer))
        self.n_outputs = max(options.outputs, options.sequences)  # rows of logits that a batch may ask for
        self._batch = llama_cpp.llama_batch_init(self.n_batch, 0, options.sequences)
        self._views = BatchViews(self._batch, self.n_batch)
        self._rows: dict[int, NDArray[np.float32]] = {}  # views of logits by address
        self._apply(adapters)

    def _params(self) -> Any:
        o = self.options
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = o.cells
        params.n_batch, params.n_ubatch = o.batch, min(o.ubatch, o.batch)
        params.n_seq_max = o.sequences
        params.n_outputs_max = max(o.outputs, o.sequences)
        params.n_threads = o.threads or params.n_threads
        params.n_threads_batch = o.threads_batch or o.threads or params.n_threads_batch
        params.type_k, params.type_v = GGML_TYPES[o.type_k], GGML_TYPES[o.type_v]
        params.flash_attn_type = _FLASH[o.flash_attn]
        params.swa_full, params.kv_unified = o.swa_full, True
        params.rope_scaling_type = _ROPE[o.rope_scaling]
        params.rope_freq_base, params.rope_freq_scale = o.rope_freq_base, o.rope_freq_scale
        params.yarn_ext_factor, params.yarn_attn_factor = o.yarn_ext_factor, o.yarn_attn_factor
        params.yarn_beta_fast, params.yarn_beta_slow = o.yarn_beta_fast, o.yarn_beta_slow
        params.yarn_orig_ctx = o.yarn_orig_ctx
        params.embeddings = o.embeddings
        params.pooling_type = _POOLING[o.pooling]
        params.no_perf = True
        params.abort_callback = ABORT
        params.abort_callback_data = ctypes.cast(self._stop_flag.bytes, ctypes.c_void_p)
        return params

    def _apply(self, adapters: Sequence[Any]) -> None:
        if not adapters:
            return
        count = len(adapters)
        # An array of what `llama_adapter_lora_init` returned: llama.cpp's pointers, no addresses of them.
        pointers = (llama_cpp.llama_adapter_lora_p_ctypes * count)(*adapters)
        scales = (ctypes.c_float * count)(*(adapter.scale for adapter in self.options.adapters))
        if code := llama_cpp.llama_set_adapters_lora(self.pointer, pointers, count, scales):
            self.close()
            raise BackendError(f"llama.cpp set no LoRA adapters (code {code}).", log=backend.log_tail())

    @property
    def pointer(self) -> int:
        if self._pointer is None:
            raise BackendError("The context was closed.")
        return self._pointer

    def decode(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        sequences: Sequence[int],
        outputs: Sequence[int],
    ) -> DecodeStatus:
        """Decode one batch; `outputs` are the batch indices whose logits are wanted.

        Raises `BackendError` on any code but done, no free cells, and aborted. The GIL is released meanwhile.
        """
        n = len(tokens)
        if not 0 < n <= FEW or n > self.n_batch:
            self._fill(tokens, positions, outputs)
            for i, sequence in enumerate(sequences):
                self._batch.seq_id[i][0] = sequence
            return self._run()
        views = self._views
        for i in range(n):
            views.tokens[i] = tokens[i]
            views.positions[i] = positions[i]
            views.owners[i][0] = sequences[i]
            views.wanted[i] = 0
        for i in outputs:
            views.wanted[i] = 1
        self._batch.n_tokens = n
        return self._run()

    def decode_shared(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        owners: Sequence[Sequence[int]],
        outputs: Sequence[int],
    ) -> DecodeStatus:
        """Decode one batch in which a token may belong to several sequences, alike so far."""
        self._fill(tokens, positions, outputs)
        for i, sequences in enumerate(owners):
            self._views.count[i] = len(sequences)
            ids = self._batch.seq_id[i]
            for place, sequence in enumerate(sequences):
                ids[place] = sequence
        try:
            return self._run()
        finally:
            self._views.count[: len(owners)] = 1

    def _fill(self, tokens: Sequence[int], positions: Sequence[int], outputs: Sequence[int]) -> None:
        n = len(tokens)
        if not 0 < n <= self.n_batch:
            raise BackendError(f"A batch of {n} tokens was put together; expected 1 to {self.n_batch}.")
        views = self._views
        views.token[:n] = tokens
        views.position[:n] = positions
        views.logits[:n] = 0
        views.logits[list(outputs)] = 1
        self._batch.n_tokens = n

    def _run(self) -> DecodeStatus:
        if self._threads > 1:
            openmp.find_room(self._threads)
            spinning.decodes(self.options.threads)
        code = llama_cpp.llama_decode(self._pointer or self.pointer, self._batch)
        spinning.decoded(self.options.threads)
        if (status := _STATUS.get(code)) is not None:
            return status
        raise BackendError(f"llama_decode failed with code {code}.", log=backend.log_tail())

    def logits(self, index: int) -> NDArray[np.float32]:
        """Return the logits of batch index `index`: (n_vocab,) float32, valid until the next decode."""
        address = _row_address(self._pointer or self.pointer, index)
        if not address:
            raise BackendError(f"llama.cpp holds no logits for batch index {index}.", log=backend.log_tail())
        row = self._rows.get(address)
        if row is None:
            if len(self._rows) > 256:  # llama.cpp writes into the same few places
                self._rows.clear()
            view = np.ctypeslib.as_array((ctypes.c_float * self.n_vocab).from_address(address))
            row = self._rows[address] = view
        return row

    def all_logits(self, rows: int) -> NDArray[np.float32]:
        """Return the logits of the last batch, all of whose tokens were outputs: (rows, n_vocab) float32."""
        pointer = llama_cpp.llama_get_logits(self.pointer)
        if not pointer:
            raise BackendError("llama.cpp holds no logits.", log=backend.log_tail())
        return np.ctypeslib.as_array(pointer, shape=(rows, self.n_vocab))

    def embed(self, wanted: bool) -> None:
        """Say whether the next batches give embeddings, for which llama.cpp makes an output of each token."""
        llama_cpp.llama_set_embeddings(self.pointer, wanted)

    def embedding(self, sequence: int) -> NDArray[np.float32]:
        """Return the pooled embedding of a sequence: (n_embd,) float32, copied."""
        pointer = llama_cpp.llama_get_embeddings_seq(self.pointer, sequence)
        if not pointer:
            raise BackendError("llama.cpp gave no pooled embedding.", log=backend.log_tail())
        return np.ctypeslib.as_array(pointer, shape=(self.weights.n_embd,)).copy()

    def abort(self) -> None:
        """Make the running `decode` come back as ABORTED at the next graph node. Any thread."""
        self._stop_flag.set()

    def watch(self, flag: StopFlag) -> None:
        """Let the next decodes stop when `flag` is set."""
        llama_cpp.llama_set_abort_callback(self.pointer, ABORT, ctypes.cast(flag.bytes, ctypes.c_void_p))
        self._stop_flag = flag  # the flag before it may be freed now

    def clear_abort(self) -> None:
        """Let the next decode run."""
        self._stop_flag.clear()

    # --- the KV cache -------------------------------------------------------------------

    def remove(self, sequence: int, start: int) -> bool:
        """Remove a sequence's cells from `start` on (-1: all); False where that cannot be (recurrent)."""
        return bool(llama_cpp.llama_memory_seq_rm(self._memory, sequence, start, -1))

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        """Let `target` share the cells [start, end) of `source`; costs nothing in a unified cache."""
        llama_cpp.llama_memory_seq_cp(self._memory, source, target, start, end)

    def span(self, sequence: int) -> tuple[int, int]:
        """Return the lowest and highest position held for a sequence; (-1, -1) when it is empty."""
        lowest = int(llama_cpp.llama_memory_seq_pos_min(self._memory, sequence))
        return lowest, int(llama_cpp.llama_memory_seq_pos_max(self._memory, sequence))

    def clear(self, *, data: bool = False) -> None:
        """Forget every cell; with `data`, zero what lies in them."""
        llama_cpp.llama_memory_clear(self._memory, data)

    def save_sequence(self, sequence: int) -> NDArray[np.uint8]:
        """Copy the state of one sequence to host memory: (bytes,) uint8."""
        # What NumPy allocates of that size lies in huge pages, and is not filled with zeros before.
        state = np.empty(int(llama_cpp.llama_state_seq_get_size(self.pointer, sequence)), np.uint8)
        place = state.ctypes.data_as(_BYTES)
        written = int(llama_cpp.llama_state_seq_get_data(self.pointer, place, len(state), sequence))
        if written == 0:
            raise BackendError("llama.cpp could not save a sequence.", log=backend.log_tail())
        return state[:written]

    def restore_sequence(self, sequence: int, state: bytes | NDArray[np.uint8]) -> bool:
        """Load a saved state into an empty sequence; False where there is no room for it."""
        place = np.frombuffer(state, np.uint8).ctypes.data_as(_BYTES)
        return bool(llama_cpp.llama_state_seq_set_data(self.pointer, place, len(state), sequence))

    def close(self) -> None:
        """Free the context; idempotent."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(pointer)
