"""Checks of the hyper-parameters: stored types, ranges, what must divide what.

Each is an assertion or a throw in `llama_model_base::load_hparams`, or in the graph of the first decode.
"""

from __future__ import annotations

import math
import re

from llama_magic.gguf import _archs
from llama_magic.gguf._arrays import LazyArray
from llama_magic.gguf._hparams import MAX_LAYERS, RECURRENT
from llama_magic.gguf._info import GGUFInfo
from llama_magic.gguf._judge import check_types, fail

_U32 = ("u32",)
_U32_OR_ARRAY = ("u32", "arr[u32]", "arr[i32]", "arr[bool]")
_F32 = ("f32",)
_GENERAL = {"name": ("str",), "file_type": _U32}
_TYPES: dict[str, tuple[str, ...]] = {
    "context_length": _U32, "embedding_length": _U32, "block_count": _U32, "embedding_length_out": _U32,
    "attention.causal": ("bool",), "pooling_type": _U32, "nextn_predict_layers": _U32, "expert_count": _U32,
    "expert_used_count": _U32_OR_ARRAY, "expert_group_count": _U32, "expert_group_used_count": _U32,
    "feed_forward_length": _U32_OR_ARRAY, "attention.head_count": _U32_OR_ARRAY,
    "attention.head_count_kv": _U32_OR_ARRAY, "rope.scaling.finetuned": ("bool",),
    "rope.scaling.original_context_length": _U32, "rope.freq_base": _F32, "rope.scaling.type": ("str",),
    "rope.scaling.factor": _F32, "rope.scale_linear": _F32, "rope.scaling.attn_factor": _F32,
    "attention.key_length": _U32, "attention.value_length": _U32, "rope.dimension_count": _U32,
    "attention.key_length_swa": _U32, "attention.value_length_swa": _U32, "rope.dimension_count_swa": _U32,
    "vocab_size": _U32, "attention.layer_norm_rms_epsilon": _F32, "attention.layer_norm_epsilon": _F32,
}  # fmt: skip
_PER_LAYER = ("feed_forward_length", "attention.head_count", "attention.head_count_kv", "expert_used_count")
_SCALINGS = ("none", "linear", "yarn", "longrope")
_MAX_EXPERTS = 1024
_MAX_WIDTH = 1 << 24  # 200 times the widest model there is
_INT32 = (1 << 31) - 1
# names of sizes and counts: llama.cpp and its tools keep them in C's int, sooner or later
_SIZE = re.compile(r"(length|count|size|rank|window|layers|dim|kernel|cache|interval|step|top_k)(_\w+)?$")
_MLA = ("attention.key_length_mla", "attention.value_length_mla")
# rotary dimensions must be the whole head here (llama-model.cpp), and K and V heads alike (their graphs)
_FULL_ROTARY = frozenset({"llama", "deci", "falcon", "llama-embed"})
_NO_ROPE = frozenset({
    "gpt2", "mpt", "refact", "bloom", "mamba", "mamba2", "jamba", "jina-bert-v2", "jais", "rwkv6",
    "rwkv6qwen2", "rwkv7", "arwkv7", "nemotron_h", "nemotron_h_moe", "kimi-linear", "kimi-k3", "glm5-next",
    "bert", "t5", "t5encoder", "wavtokenizer-dec", "lfm2", "lfm2moe",
})  # fmt: skip


def check_hparams(info: GGUFInfo) -> None:
    """Check sizes, heads, experts, norms and rotary settings; raises `InvalidGGUFError`."""
    arch = info.architecture
    check_types(info, _GENERAL, "general.")
    check_types(info, _TYPES, f"{arch}.")
    for name in ("context_length", "embedding_length", "block_count"):
        if info.hparams.get(name) is None:
            fail(info, f"{arch}.{name} is missing; every model must have it.", f"{arch}.{name}")
    entry = _archs.architecture(arch)
    for name in entry.keys if entry else ():
        if info.hparams.get(name) is None:
            fail(info, f"{arch}.{name} is missing; a {arch!r} model must have it.", f"{arch}.{name}")
    _check_range(info)
    _check_sizes(info)
    _check_layers(info)
    _check_experts(info)
    _check_heads(info)
    _check_floats(info)
    _check_rope(info)


def _bad(info: GGUFInfo, name: str, expected: str) -> None:
    value = info.hparams.get(name)
    shown = f"{value:,}" if isinstance(value, (int, float)) else repr(value)
    fail(info, f"{info.architecture}.{name} is {shown}; expected {expected}.", f"{info.architecture}.{name}")


def _check_range(info: GGUFInfo) -> None:
    """Check that sizes and counts are neither negative nor beyond an int, read by llama.cpp or not."""
    prefix = f"{info.architecture}."
    for key, value in info.metadata.items():
        kind = info.value_types[key]
        if not key.startswith(prefix) or kind[-4:].strip("[]") not in ("u32", "i32") or not _SIZE.search(key):
            continue
        numbers = value.to_numpy().tolist() if isinstance(value, LazyArray) else [value]
        wrong = [n for n in numbers if not 0 <= n <= _INT32]
        if wrong:
            fail(info, f"{key} is {wrong[0]:,}; expected 0 to {_INT32:,}.", key)


def _check_sizes(info: GGUFInfo) -> None:
    h = info.hparams
    if not 1 <= h.block_count <= MAX_LAYERS:
        _bad(info, "block_count", f"1 to {MAX_LAYERS}")
    if h.context < 1:
        _bad(info, "context_length", "1 or more tokens")
    if not 1 <= h.embedding <= _MAX_WIDTH:
        _bad(info, "embedding_length", f"1 to {_MAX_WIDTH:,}")
    for name in ("feed_forward_length", "attention.key_length", "attention.value_length"):
        if h.whole(name) > _MAX_WIDTH:
            _bad(info, name, f"at most {_MAX_WIDTH:,}")


def _check_layers(info: GGUFInfo) -> None:
    h = info.hparams
    for name in _PER_LAYER:
        value = h.get(name)
        if isinstance(value, LazyArray) and len(value) != h.block_count:
            fail(
                info,
                f"{h.arch}.{name} has {len(value):,} elements; expected one for each of {h.block_count} "
                "blocks.",
                f"{h.arch}.{name}",
            )
    pattern = h.get("attention.sliding_window_pattern")
    if isinstance(pattern, LazyArray) and len(pattern) > MAX_LAYERS:
        field = f"{h.arch}.attention.sliding_window_pattern"
        fail(info, f"{field} has {len(pattern):,} elements; expected at most {MAX_LAYERS}.", field)
    if h.whole("nextn_predict_layers") > h.block_count:
        _bad(info, "nextn_predict_layers", f"at most the {h.block_count} blocks")
    numbers = [_block(name) for name in info.tensors if name.startswith("blk.")]
    have = max(numbers, default=-1) + 1
    # layers for speculation may be left out; a pruned Nemotron (deci) has blocks without tensors
    least = 1 if h.arch == "deci" else h.block_count - h.whole("nextn_predict_layers")
    if have and not least <= have <= h.block_count:
        fail(
            info,
            f"{h.arch}.block_count is {h.block_count:,}, and the file holds the tensors of {have} blocks.",
            f"{h.arch}.block_count",
        )


def _block(name: str) -> int:
    number = name.split(".")[1]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 9 else -1


def _check_experts(info: GGUFInfo) -> None:
    h = info.hparams
    used = max(h.per_layer("expert_used_count"), default=0)
    groups, groups_used = h.whole("expert_group_count"), h.whole("expert_group_used_count")
    if h.arch in ("hunyuan_vl", "hunyuan-dense") and h.experts <= 1:
        return
    if h.experts > _MAX_EXPERTS:
        _bad(info, "expert_count", f"at most {_MAX_EXPERTS:,}")
    if used > h.experts:
        _bad(info, "expert_used_count", f"at most the {h.experts} experts")
    if h.experts == 0:
        if groups:
            _bad(info, "expert_group_count", "0 where there are no experts")
        return
    if used == 0:
        field = f"{h.arch}.expert_used_count"
        fail(info, f"{field} is 0 or missing, and there are {h.experts} experts.", field)
    if groups >= h.experts:
        _bad(info, "expert_group_count", f"fewer than the {h.experts} experts")
    if groups > 1:
        if h.experts % groups:
            _bad(info, "expert_group_count", f"a divisor of the {h.experts} experts")
        if not 0 < groups_used < groups:
            _bad(info, "expert_group_used_count", f"1 to {groups - 1}")


def _check_heads(info: GGUFInfo) -> None:
    h = info.hparams
    for block, (heads, heads_kv) in enumerate(zip(h.heads, h.heads_kv, strict=True)):
        if heads > 1 << 16:
            _bad(info, "attention.head_count", f"at most {1 << 16:,}")
        if heads > 0 and heads_kv > 0 and heads % heads_kv:
            fail(
                info,
                f"Block {block} has {heads:,} attention heads and {heads_kv:,} key/value heads; the former "
                "must be a multiple of the latter.",
                f"{h.arch}.attention.head_count_kv",
            )
    stated = h.get("attention.head_count") is not None
    if stated and h.heads and not any(h.heads) and h.arch not in RECURRENT and h.arch != "deci":
        _bad(info, "attention.head_count", "1 or more")
    first = h.heads[0] if h.heads else 0
    if first > 0 and h.head_k == 0:
        fail(
            info,
            f"{h.arch}.attention.head_count is {first:,}, more than the width of {h.embedding:,}.",
            f"{h.arch}.attention.head_count",
        )


def _check_floats(info: GGUFInfo) -> None:
    h = info.hparams
    for name in ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"):
        value = h.real(name)
        if not math.isfinite(value) or value < 0:
            _bad(info, name, "a small positive number, such as 1e-05")
    for name in ("rope.freq_base", "rope.scaling.factor", "rope.scale_linear", "rope.scaling.attn_factor"):
        value = h.real(name)
        if not math.isfinite(value) or value < 0:
            _bad(info, name, "a positive number")
    scaling = h.get("rope.scaling.type")
    if scaling is not None and scaling not in _SCALINGS:
        _bad(info, "rope.scaling.type", " or ".join(_SCALINGS))


def _check_rope(info: GGUFInfo) -> None:
    h = info.hparams
    heads = h.heads[0] if h.heads else 0
    if heads == 0 or h.arch in _NO_ROPE:
        return
    name = "rope.dimension_count"
    rotary = h.whole(name, h.head_k)
    if h.arch in _FULL_ROTARY and rotary != h.head_k:
        _bad(info, name, f"{h.head_k:,}, the length of a head")
    if h.arch == "llama" and h.head_v != h.head_k:
        _bad(info, "attention.value_length", f"{h.head_k:,}, as long as a key")
    if h.get(name) is not None and (rotary > h.head_k or rotary % 2) and not any(h.get(n) for n in _MLA):
        _bad(info, name, f"an even number up to {h.head_k:,}, the length of a head")
    if h.arch in _FULL_ROTARY and h.get("rope.freq_base") == 0:
        _bad(info, "rope.freq_base", "a positive number, such as 10000")
