"""A loaded model file: weights, vocabulary and adapters, shared by every context on it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llama_cpp

from llama_magic.engine.native import backend
from llama_magic.engine.native.huge import NewMemory
from llama_magic.engine.native.mapped import MappedFiles
from llama_magic.engine.native.vocab import Vocab
from llama_magic.errors import BackendError, ModelClosedError, OptionError
from llama_magic.gguf import EMBEDDERS

# enum llama_load_mode by (mmap, mlock).
_LOAD_MODES = {(False, False): 0, (True, False): 1, (False, True): 2, (True, True): 3}


@dataclass(frozen=True)
class WeightsOptions:
    """How weights are held: `gpu_layers` -1 means all; `use_extra_bufts` lets the CPU repack weights.

    `check_tensors` makes llama.cpp read every weight and refuse NaN and infinite ones.
    """

    gpu_layers: int = 0
    mmap: bool = True
    mlock: bool = False
    use_extra_bufts: bool = True
    vocab_only: bool = False
    check_tensors: bool = False


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter file as it lay there when it was asked for, and how strongly it is applied.

    `stamp` is size and time of the file, `fingerprint` says what is in it: replaced, it is another adapter.
    """

    path: Path
    scale: float
    stamp: tuple[int, int]
    fingerprint: str


class Weights:
    """Own one `llama_model`. `close()` is idempotent; contexts must be closed first."""

    _pointer: int | None = None  # what is left once it is closed

    def __init__(
        self,
        paths: Sequence[Path],
        options: WeightsOptions,
        on_progress: Callable[[float], bool] | None = None,
    ) -> None:
        backend.start()
        self.paths = tuple(paths)
        self.options = options
        self._adapters: dict[tuple[Path, tuple[int, int], str], Any] = {}
        self._mapped = MappedFiles(self.paths if options.mmap else ())
        try:
            with backend.captured_log() as log:
                self._pointer = self._load(on_progress)
        except BaseException:
            self._mapped.close()
            raise
        self.buffers = backend.buffer_sizes(log)
        end = self._metadata("tokenizer.ggml.eos_token_id")
        self.vocab: Vocab = Vocab(llama_cpp.llama_model_get_vocab(self._pointer), end)
        pointer = self._pointer
        self.n_ctx_train = int(llama_cpp.llama_model_n_ctx_train(pointer))
        self.n_embd = int(llama_cpp.llama_model_n_embd_out(pointer))
        self.n_swa = int(llama_cpp.llama_model_n_swa(pointer))
        self.n_params = int(llama_cpp.llama_model_n_params(pointer))
        self.size_bytes = int(llama_cpp.llama_model_size(pointer))
        hybrid = bool(llama_cpp.llama_model_is_hybrid(pointer))
        self.attends = hybrid or not llama_cpp.llama_model_is_recurrent(pointer)  # it has KV cells
        self.recurrent = hybrid or not self.attends
        one_way = bool(llama_cpp.llama_model_has_decoder(pointer)) and not (
            llama_cpp.llama_model_has_encoder(pointer) or llama_cpp.llama_model_is_diffusion(pointer)
        )
        # llama.cpp calls BERT a decoder, too; it aborts where it is asked for logits of one.
        self.embeds = one_way and self._looks_both_ways()  # and does nothing else
        self.generates = one_way and not self.embeds

    def _load(self, on_progress: Callable[[float], bool] | None) -> int:
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = self.options.gpu_layers
        params.load_mode = _LOAD_MODES[self.options.mmap, self.options.mlock]
        params.use_extra_bufts = self.options.use_extra_bufts
        params.vocab_only = self.options.vocab_only
        params.check_tensors = self.options.check_tensors
        memory = NewMemory()

        def progress(share: float, _data: object) -> bool:
            memory.ask()  # at the first call the buffers are there, and nothing is in them yet
            return on_progress is None or on_progress(share)

        self._progress = llama_cpp.llama_progress_callback(progress)  # kept until the load returns
        params.progress_callback = self._progress
        files = [os.fsencode(path) for path in self.paths]
        if len(files) == 1:
            pointer = llama_cpp.llama_model_load_from_file(files[0], params)
        else:
            array = (ctypes.c_char_p * len(files))(*files)
            pointer = llama_cpp.llama_model_load_from_splits(array, len(files), params)
        if not pointer:
            raise BackendError(f"llama.cpp could not load {self.paths[0].name}.", log=backend.log_tail())
        return int(pointer)

    def _looks_both_ways(self) -> bool:
        arch = self._metadata("general.architecture")
        return arch in EMBEDDERS or self._metadata(f"{arch}.attention.causal") == "false"

    def _metadata(self, key: str) -> str:
        buffer = ctypes.create_string_buffer(256)
        found = llama_cpp.llama_model_meta_val_str(self.pointer, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace") if found >= 0 else ""

    def must_generate(self) -> None:
        """Raise `OptionError` for a model that only makes embeddings."""
        if not self.generates:
            raise OptionError(
                f"{self.paths[0].name} is an embedding model: it turns texts into vectors and writes none.",
                remedy="Use model.embed([…]) with it, and load an instruct model to generate.",
            )

    @property
    def pointer(self) -> int:
        """The `llama_model *`; raises `ModelClosedError` after `close()`."""
        if self._pointer is None:
            raise ModelClosedError(f"{self.paths[0].name} was unloaded; load it again to use it.")
        return self._pointer

    def check_files(self) -> None:
        """Raise `BackendError` where a mapped file was changed in place; costs some microseconds."""
        self._mapped.check()

    def adapter(self, adapter: Adapter) -> Any:
        """Return the `llama_adapter_lora *` of a file, loaded once; asked for on the compute thread only."""
        path, key = adapter.path, (adapter.path, adapter.stamp, adapter.fingerprint)
        if key not in self._adapters:
            pointer = llama_cpp.llama_adapter_lora_init(self.pointer, os.fsencode(path))
            if not pointer:
                raise BackendError(
                    f"llama.cpp could not apply the LoRA adapter {path.name} to {self.paths[0].name}.",
                    log=backend.log_tail(),
                    remedy="Use an adapter that was trained on this very model.",
                )
            self._adapters[key] = pointer
        return self._adapters[key]

    def close(self) -> None:
        """Free weights and adapters."""
        pointer = self.__dict__.pop("_pointer", None)  # in one step: whoever gets it frees it
        if pointer is not None:
            self.vocab.close()  # first: it waits for calls that are left in it
            self._adapters.clear()  # llama_model_free frees the adapters of the model
            llama_cpp.llama_model_free(pointer)
            self._mapped.close()
