"""`validate`: refuse what llama.cpp could not load, or would crash on, and say why.

Every rule stands for a throw, an assertion or a crash in llama.cpp; what is merely odd is a finding.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from llama_magic.doors import option
from llama_magic.gguf import _archs
from llama_magic.gguf._info import GGUFInfo
from llama_magic.gguf._judge import fail
from llama_magic.gguf._tensors import TensorInfo
from llama_magic.gguf._types import REMOVED_TYPES, TENSOR_TYPES, TYPE_BY_NAME, UNUSABLE_WEIGHTS
from llama_magic.gguf._validate_hparams import check_hparams
from llama_magic.gguf._validate_vocab import NO_VOCAB, check_vocab
from llama_magic.words.counting import counted
from llama_magic.words.names import nearest

_MAP_ALIGNMENT = 32  # ggml-impl.h, TENSOR_ALIGNMENT
_INTEGER_TENSORS = ("ffn_gate_tid2eid", "masked_embd_ordering", "d2t")
_F32_ONLY = ("attn_sinks.weight", "ssm_conv1d.weight", "shortconv.conv.weight", "ssm_a", "ssm_d")
# what a file is when it is no language model: general.type or architecture -> (what, what to do)
_OTHER_KINDS = {
    "adapter": ("a LoRA adapter", f"Load the base model, and this file with {option('lora')}."),
    "mmproj": ("a multimodal projector (mmproj)", "Load the language model that it belongs to."),
    "clip": ("a multimodal projector (mmproj)", "Load the language model that it belongs to."),
    "imatrix": ("an importance matrix, made for quantising", "Load the model itself."),
    "controlvector": ("a control vector", "Load the model that it belongs to."),
}


def validate(info: GGUFInfo, *, newer_backend: bool = False) -> None:
    """Check that llama.cpp can load and run this file; raises `InvalidGGUFError` with `field` and `offset`.

    Reads the header only: about 20 ms for 50,000 tokens, 150 ms for 262,144. `newer_backend=True` lets
    names pass that were unknown to the llama.cpp of llama-cpp-python 0.3.36.
    """
    _check_kind(info, newer_backend)
    check_files(info)
    for tensor in info.tensors.values():
        _check_type(info, tensor)
    check_hparams(info)
    check_vocab(info, newer_backend)
    entry = _archs.architecture(info.architecture)
    if entry is not None and not newer_backend:
        _check_tensors(info, entry)


def _check_kind(info: GGUFInfo, newer_backend: bool) -> None:
    key = "general.architecture"
    kind = info.metadata.get("general.type")
    arch = info.metadata.get(key)
    for value in (kind, arch):
        if isinstance(value, str) and value in _OTHER_KINDS:
            what, remedy = _OTHER_KINDS[value]
            field = "general.type" if value == kind else key
            fail(info, f"The file is {what}, not a language model.", field, remedy)
    if arch is None:
        if any(k.startswith("imatrix.") for k in info.metadata):
            message = "The file is an importance matrix, not a language model."
            fail(info, message, key, "Load the model itself.")
        fail(info, f"{key} is missing; without it llama.cpp cannot tell what model this is.", key)
    if not isinstance(arch, str):
        fail(info, f"{key} is stored as {info.value_types[key]}; expected str.", key)
    if arch not in _archs.names() and not newer_backend:
        near = nearest(arch, _archs.names(), cutoff=0.5)
        hint = f" The nearest known one is {near[0]!r}." if near else ""
        fail(
            info,
            f"{key} is {arch[:60]!r}, which this llama.cpp does not know.{hint}",
            key,
            "Update llama-cpp-python if the model is newer than it; image and sound models cannot be loaded.",
        )
    native = sys.byteorder
    if info.byte_order != native:
        fail(
            info,
            f"The file is {info.byte_order}-endian; llama.cpp reads only this machine's {native}-endian.",
            "header.version",
            "Get the file for this kind of machine, or convert it with gguf_convert_endian.",
            4,
        )
    if not info.tensors:
        message = "The file has no tensors: it is a vocabulary or a header only."
        fail(info, message, "header.tensor_count", offset=8)


def check_files(info: GGUFInfo) -> None:
    """Check that data follows data without gap or overlap, and ends inside the file."""
    _check_split(info)
    for shard, header in enumerate(info.headers):
        expected = header.data_start
        if header.tensors and expected % _MAP_ALIGNMENT:
            fail(
                info,
                f"The data start at {expected:,}, no multiple of {_MAP_ALIGNMENT} (general.alignment is "
                f"{header.alignment}); llama.cpp aborts when it maps such a file.",
                "general.alignment",
                shard=shard,
            )
        for tensor in (t for t in info.tensors.values() if t.shard == shard):
            field = f"tensor {tensor.name}"
            if tensor.type not in TYPE_BY_NAME:
                _fail_type(info, tensor)
            if tensor.offset != expected:
                fail(
                    info,
                    f"The data of {field} is said to start at {tensor.offset:,}; expected {expected:,}, "
                    "where the data before it ends.",
                    field,
                    offset=tensor.offset if tensor.offset < 1 << 63 else None,
                )
            end = expected + tensor.n_bytes
            if end > header.size:
                fail(
                    info,
                    f"The file is {counted(end - header.size, 'byte')} too short: {field} ends at "
                    f"{end:,}, and the file is {header.size:,} bytes long.",
                    field,
                    "The file is cut off: download it again.",
                    tensor.offset,
                )
            expected += -(-tensor.n_bytes // header.alignment) * header.alignment


def _check_split(info: GGUFInfo) -> None:
    key = "split.count"
    count = info.metadata.get(key)
    if count is None:
        return
    if info.value_types[key] != "u16":
        fail(info, f"{key} is stored as {info.value_types[key]}; expected u16.", key)
    if count > 1 and count != len(info.headers):
        if info.metadata.get("split.tensors.count") == len(info.tensors):
            message = f"{key} is {count}, and this one file holds all {len(info.tensors):,} tensors."
            fail(info, message, key, "Join parts with llama-gguf-split --merge, which sets it to 0.")
        fail(
            info,
            f"{key} is {count}, and {counted(len(info.headers), 'part')} of the model can be found.",
            key,
            "Keep all parts in one folder under their own names, …-00001-of-…, and load the first.",
        )


def _fail_type(info: GGUFInfo, tensor: TensorInfo) -> NoReturn:
    field = f"tensor {tensor.name}"
    if tensor.type in REMOVED_TYPES.values():
        fail(info, f"{field} has type {tensor.type}, which was removed from llama.cpp.", field)
    number = int(tensor.type.rpartition(" ")[2])
    last = max(TENSOR_TYPES)
    message = f"{field} has an unknown tensor {tensor.type}; ggml knows 0 to {last}."
    newer = number <= last + 32  # ggml counts its types up one by one
    fail(
        info, message, field, "Update llama-cpp-python." if newer else "The header is damaged: get it again."
    )


def _check_type(info: GGUFInfo, tensor: TensorInfo) -> None:
    field, name, type_ = f"tensor {tensor.name}", tensor.name, tensor.type
    if not tensor.shape and not name.endswith(("scale", "scale.weight")):
        fail(info, f"{field} has no dimensions; expected 1 to 4.", field)
    if type_ in UNUSABLE_WEIGHTS and not any(part in name for part in _INTEGER_TENSORS):
        fail(
            info,
            f"{field} is stored as {type_}; llama.cpp crashes on weights of that type. "
            "Expected F32, F16, BF16 or a quantised type.",
            field,
        )
    base = name.rsplit(".", 1)[0].rsplit(".", 1)[-1]
    added = name.endswith(".bias") or "norm" in base or name.endswith(_F32_ONLY)
    if added and type_ != "F32" and len(tensor.shape) == 1:
        fail(
            info,
            f"{field} is stored as {type_}; llama.cpp aborts unless norms and biases are F32.",
            field,
        )


def _check_tensors(info: GGUFInfo, entry: _archs.Architecture) -> None:
    """Check names and shapes against what the architecture's loader asks for."""
    arch = info.architecture
    for tensor in info.tensors.values():
        if not entry.knows(tensor.name):
            field = f"tensor {tensor.name}"
            message = f"{field} is none that a {arch!r} model has; llama.cpp refuses extra tensors."
            fail(info, message, field)
    ahead = info.hparams.whole("nextn_predict_layers")
    if ahead and not entry.open and not any("nextn" in name for name in entry.patterns):
        field = f"{arch}.nextn_predict_layers"
        fail(info, f"{field} is {ahead}; llama.cpp knows no such layers in a {arch!r} model.", field)
    blocks = info.block_count - ahead
    values = _dimensions(info)
    for rule in entry.rules:
        for block in range(blocks) if "%d" in rule.names[0] else (0,):
            candidates = [name.replace("%d", str(block), 1) for name in rule.names]
            found = [info.tensors[name] for name in candidates if name in info.tensors]
            if rule.required(info.hparams.experts) and not found:
                field = f"tensor {candidates[-1]}"
                fail(info, f"{field} is missing; a {arch!r} model of {blocks} blocks must have it.", field)
            if rule.dims and found:
                _check_shape(info, found[0], [_archs.evaluate(d, values) for d in rule.dims], rule.dims)


# Where a size of a tensor stands in the metadata.
_KEYS = {
    "n_embd": "embedding_length", "n_ff": "feed_forward_length", "n_head": "attention.head_count",
    "n_expert": "expert_count", "n_ctx_train": "context_length", "n_rot": "rope.dimension_count",
    **dict.fromkeys(("n_embd_k_gqa", "n_embd_v_gqa", "n_embd_gqa", "n_head_kv"), "attention.head_count_kv"),
    "n_embd_head_k": "attention.key_length", "n_embd_head_v": "attention.value_length",
}  # fmt: skip


def _check_shape(info: GGUFInfo, tensor: TensorInfo, want: list[int], dims: tuple[str, ...]) -> None:
    have = list(tensor.shape) + [1] * (4 - len(tensor.shape))
    if have == want + [1] * (4 - len(want)):
        return
    field = f"tensor {tensor.name}"
    asked = zip(dims, have, want, strict=False)
    wrong = [dim for dim, found, expected in asked if found != expected]
    said = list(dict.fromkeys(f"{info.architecture}.{_KEYS[dim]}" for dim in wrong if dim in _KEYS))
    said = [f"{key} is {info.metadata[key]}" for key in said if isinstance(info.metadata.get(key), int)]
    source = f"by the metadata{': ' * bool(said)}{', '.join(said)}"
    fail(
        info,
        f"{field} has shape {list(tensor.shape)}; expected {want} ({' × '.join(dims)}) {source}.",
        field,
    )


def _dimensions(info: GGUFInfo) -> dict[str, int]:
    """Return llama.cpp's names for a model's sizes (`LLAMA_LOAD_LOCALS`: those of the first block)."""
    h = info.hparams
    sliding = bool(h.sliding()[:1] and h.sliding()[0])
    head_k = h.whole("attention.key_length_swa", h.head_k) if sliding else h.head_k
    head_v = h.whole("attention.value_length_swa", h.head_v) if sliding else h.head_v
    rot = h.whole("rope.dimension_count", h.head_k)
    heads_kv = h.heads_kv[0] if h.heads_kv else 0
    n_vocab = h.whole("vocab_size") if info.tokenizer_model in NO_VOCAB else info.vocab_size
    return {
        "n_embd": h.embedding, "n_vocab": n_vocab, "n_ff": h.whole("feed_forward_length"),
        "n_head": h.heads[0] if h.heads else 0, "n_head_kv": heads_kv,
        "n_embd_k_gqa": head_k * heads_kv, "n_embd_v_gqa": head_v * heads_kv, "n_embd_gqa": head_v * heads_kv,
        "n_embd_head_k": head_k, "n_embd_head_v": head_v,
        "n_rot": h.whole("rope.dimension_count_swa", rot) if sliding else rot,
        "n_expert": h.experts, "n_expert_used": h.whole("expert_used_count"), "n_ctx_train": h.context,
        "n_token_types": _token_types(info),
    }  # fmt: skip


def _token_types(info: GGUFInfo) -> int:
    """Return the number of token types of a BERT model (not the types of vocabulary entries)."""
    value = info.metadata.get("tokenizer.ggml.token_type_count", 0)
    return value if isinstance(value, int) else 0
