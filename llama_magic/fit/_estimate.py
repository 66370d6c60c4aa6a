"""How much memory a model will take: weights, KV cache, compute buffers, as llama.cpp allocates them.

The formulas follow `llama_kv_cache`, `llama_memory_recurrent` and `llama_context::output_reserve`; those of
the compute buffers are in `_compute`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from llama_magic.errors import OptionError
from llama_magic.fit._compute import compute_bytes
from llama_magic.gguf import GGUFInfo, row_bytes
from llama_magic.words import amounts
from llama_magic.words.counting import counted
from llama_magic.words.shown import Shown

KV_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
_BLOCK = 32  # numbers that q8_0 and q4_0 keep together
_PAD = 256
# weights that the CPU back end keeps a second time, interleaved for AVX2 (ggml-cpu/repack.cpp)
_REPACKED = frozenset({"Q4_0", "Q4_K", "IQ4_NL"})


@dataclass(frozen=True)
class Options:
    """How a model is to be loaded, as far as memory goes.

    `ctx` is one sequence's window in tokens; `cells` the KV cells of one context (None: `ctx` for each of
    `n_seq` sequences); `contexts` how many contexts are made; `outputs` llama.cpp's `n_outputs_max` (None:
    the batch); `extra_bufts` its `use_extra_bufts`; `adapters` the bytes of LoRA adapters, `draft` those of
    a draft model with its context. A model that only embeds has one context without a cache, which reads a
    whole text at once.
    """

    ctx: int
    type_k: str = "f16"
    type_v: str = "f16"
    n_seq: int = 1
    cells: int | None = None
    batch: int = 512
    ubatch: int = 512
    gpu_layers: int = 0
    flash_attn: str = "auto"
    swa_full: bool = True
    contexts: int = 1
    outputs: int | None = None
    extra_bufts: bool = True
    mmap: bool = True
    adapters: int = 0
    draft: int = 0


@dataclass(frozen=True)
class Estimate(Shown):
    """Predicted memory in bytes, by what it is for. `weights` are file-backed where they are mapped."""

    weights: int
    repacked: int
    kv: int
    state: int
    compute: int
    output: int
    adapters: int
    draft: int
    gpu: int  # how much of the total lies in VRAM
    options: Options
    info: GGUFInfo = field(repr=False, compare=False)

    @property
    def total(self) -> int:
        return self.weights + self.private

    @property
    def private(self) -> int:
        """Return what must stay in memory in any case: all but the mapped weights."""
        return self.repacked + self.kv + self.state + self.compute + self.output + self.adapters + self.draft

    def replace(self, **changes: Any) -> Estimate:
        """Return the estimate for other options (`ctx=…`, `type_k=…`)."""
        return estimate(self.info, replace(self.options, **changes))

    def parts(self) -> Iterator[tuple[str, int, str]]:
        """Yield (what, bytes, why) for each part that is not 0."""
        o, info = self.options, self.info
        cells = f"{_cells(o):,} cells × {counted(info.block_count, 'block')}, {o.type_k}/{o.type_v}"
        if info.sliding_window and not o.swa_full:
            cells += f", a window of {info.sliding_window:,} in sliding layers"
        source = "mapped from the file" if o.mmap else "read into memory"
        flash = "without" if o.flash_attn == "off" else "with"
        for what, size, why in (
            ("weights", self.weights, f"{info.quantisation}, {source}"),
            ("repacked weights", self.repacked, "a second copy of Q4 weights, laid out for this CPU"),
            ("KV cache", self.kv, cells),
            ("recurrent state", self.state, counted(o.n_seq, "sequence")),
            ("compute buffers", self.compute, f"batch {_ubatch(o):,}, {flash} flash attention"),
            ("output", self.output, "logits"),
            ("LoRA adapters", self.adapters, "read into memory"),
            ("draft model", self.draft, "weights, KV cache and buffers of its own"),
        ):
            if size:
                yield what, size, why

    def explained(self) -> str:
        """Return the estimate in lines of words and numbers."""
        lines = [f"{what:<17} {amounts.size(size):>8}  {why}" for what, size, why in self.parts()]
        return "\n".join([*lines, f"{'total':<17} {amounts.size(self.total):>8}"])

    def __str__(self) -> str:
        return self.explained()


def estimate(info: GGUFInfo, options: Options) -> Estimate:
    """Predict the memory of a load from its header alone (under 1 ms).

    Raises `OptionError` for an unknown KV type.
    """
    for name in (options.type_k, options.type_v):
        if name not in KV_TYPES:
            raise OptionError(f"There is no KV type {name!r}. Known: {', '.join(KV_TYPES)}.")
    o = options
    if info.only_embeds:
        o = replace(o, n_seq=1, batch=_cells(o), ubatch=_cells(o), outputs=1)
    weights = info.tensor_bytes
    # Of weights that are read, not mapped, there is no first copy.
    repacked = _repacked(info) if o.extra_bufts and o.mmap and o.gpu_layers == 0 else 0
    kv = 0 if info.only_embeds else o.contexts * _kv(info, o)
    state = o.contexts * o.n_seq * sum(info.recurrent_state_bytes)
    compute = o.contexts * _compute(info, o)
    output = 0 if info.only_embeds else o.contexts * 4 * info.vocab_size * o.n_seq
    blocks = max(1, info.block_count)
    on_gpu = min(o.gpu_layers if o.gpu_layers >= 0 else blocks + 1, blocks + 1)
    in_blocks = sum(t.n_bytes for t in info.tensors.values() if t.name.startswith("blk."))
    share = min(1.0, on_gpu / blocks)
    gpu = int(in_blocks * share + (weights - in_blocks if on_gpu > blocks else 0) + (kv + state) * share)
    gpu += compute if on_gpu else 0
    return Estimate(weights, repacked, kv, state, compute, output, o.adapters, o.draft, gpu, options, info)


def round_context(n: int) -> int:
    """Return `n` rounded up to a multiple of 256, as llama.cpp does with a context."""
    return max(_PAD, -(-n // _PAD) * _PAD)


def _cells(o: Options) -> int:
    return round_context(o.ctx * o.n_seq if o.cells is None else o.cells)


def _ubatch(o: Options) -> int:
    batch = min(o.batch, _cells(o))
    return min(batch, o.ubatch or batch)


def _repacked(info: GGUFInfo) -> int:
    return sum(
        t.n_bytes
        for t in info.tensors.values()
        if t.type in _REPACKED and len(t.shape) == 2 and t.shape[1] % 8 == 0 and t.name != "token_embd.weight"
    )


def _kv(info: GGUFInfo, o: Options) -> int:
    """Return the bytes of one context's KV cache: each block's own cells × row."""
    cells = _cells(o)
    total = 0
    for layer in info.hparams.layers():
        n = cells
        if layer.window and not o.swa_full:
            n = min(cells, round_context(layer.window * o.n_seq + _ubatch(o)))
        total += n * (row_bytes(o.type_k, layer.k) + row_bytes(o.type_v, layer.v))
    return total


def _compute(info: GGUFInfo, o: Options) -> int:
    flash = o.flash_attn != "off" or o.type_v not in ("f16", "f32", "bf16")
    n = -(-_ubatch(o) // o.n_seq) * o.n_seq  # llama.cpp gives each sequence as many tokens
    return compute_bytes(
        info, tokens=n, cells=_cells(o), n_seq=o.n_seq, rows=min(n, o.outputs or n), flash=flash
    )


def odd_head(info: GGUFInfo) -> int:
    """Return the size of a head whose keys or values cannot be kept in blocks of 32; 0 where all can."""
    h = info.hparams
    sliding = (h.whole("attention.key_length_swa"), h.whole("attention.value_length_swa"))
    return next((size for size in (h.head_k, h.head_v, *sliding) if size % _BLOCK), 0)
