"""LoRA adapters: does a file belong to a model? Checked before llama.cpp sees it."""

from __future__ import annotations

import math

from llama_magic.doors import option
from llama_magic.gguf._info import GGUFInfo
from llama_magic.gguf._judge import fail
from llama_magic.gguf._tensors import TensorInfo
from llama_magic.gguf._types import UNUSABLE_WEIGHTS
from llama_magic.gguf._validate import check_files

_ADAPTER = (
    f"Give {option('lora')} a LoRA adapter in GGUF format (convert_lora_to_gguf.py of llama.cpp makes one)."
)
_EMBEDDINGS = "token_embd.weight"


def validate_adapter(info: GGUFInfo, model: GGUFInfo) -> None:
    """Check that `info` is a LoRA adapter that fits `model`; raises `InvalidGGUFError` with the field.

    Checks type, architecture, that each `X.lora_a` has its `X.lora_b`, and that both fit the model's tensor.
    """
    for key, want in (("general.type", "adapter"), ("adapter.type", "lora")):
        found = info.metadata.get(key)
        if found != want:
            shown = "missing" if found is None else repr(found)[:60]
            fail(info, f"The file is not a LoRA adapter: {key} is {shown}; expected {want!r}.", key, _ADAPTER)
    if info.architecture != model.architecture:
        fail(
            info,
            f"The adapter is for {info.architecture!r} models, and this model is {model.architecture!r}.",
            "general.architecture",
            "Use the adapter with the base model it was trained on.",
        )
    alpha = info.metadata.get("adapter.lora.alpha")
    if alpha is not None and (info.value_types["adapter.lora.alpha"] != "f32" or not math.isfinite(alpha)):
        fail(info, f"adapter.lora.alpha is {alpha!r}; expected a finite f32.", "adapter.lora.alpha", _ADAPTER)
    check_files(info)
    pairs = _pairs(info)
    if not pairs:
        fail(info, "The adapter holds no pairs of lora_a and lora_b.", "header.tensor_count", _ADAPTER)
    for name, sides in pairs.items():
        _check_pair(info, model, name, sides)


def _pairs(info: GGUFInfo) -> dict[str, dict[str, TensorInfo]]:
    pairs: dict[str, dict[str, TensorInfo]] = {}
    for tensor in info.tensors.values():
        name, _, side = tensor.name.rpartition(".")
        if side in ("lora_a", "lora_b"):
            pairs.setdefault(name, {})[side] = tensor
        elif not tensor.name.endswith("_norm.weight"):
            field = f"tensor {tensor.name}"
            fail(info, f"{field} is neither a lora_a nor a lora_b.", field, _ADAPTER)
        if tensor.type in UNUSABLE_WEIGHTS:
            fail(info, f"tensor {tensor.name} is stored as {tensor.type}.", f"tensor {tensor.name}", _ADAPTER)
    return pairs


def _check_pair(info: GGUFInfo, model: GGUFInfo, name: str, sides: dict[str, TensorInfo]) -> None:
    field = f"tensor {name}"
    for side in ("lora_a", "lora_b"):
        if side not in sides:
            fail(info, f"{field} lacks its {side}.", f"{field}.{side}", _ADAPTER)
    base = model.tensors.get(name)
    if base is None:
        message = f"The model has no {field}; the adapter belongs to another."
        fail(info, message, field, "Use its own base model.")
    if name == _EMBEDDINGS and "output.weight" not in model.tensors and not model.only_embeds:
        fail(  # llama.cpp looks the pair up again for the output, where it does not fit: GGML_ASSERT
            info,
            f"{field} is the model's output as well; llama.cpp can apply an adapter to one of them alone.",
            field,
            "Train the adapter without the embeddings, or merge it into the model (peft: merge_and_unload).",
        )
    a, b, w = (_padded(t.shape) for t in (sides["lora_a"], sides["lora_b"], base))
    if name == _EMBEDDINGS:  # stored the other way round (llama-adapter.cpp)
        fits, rank_a = w[0] == b[1] and w[1] == a[1], a[0]
    else:
        fits, rank_a = w[0] == a[0] and w[1] == b[1], a[1]
    if not fits or rank_a != b[0] or not a[2:] == b[2:] == w[2:]:  # several matrices: an expert each
        fail(
            info,
            f"{field} has shape {list(base.shape)}, and the adapter's pair {list(sides['lora_a'].shape)} and "
            f"{list(sides['lora_b'].shape)} does not fit it.",
            field,
            "Use the adapter with the base model it was trained on.",
        )


def _padded(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape + (1,) * (4 - len(shape))
