"""Build tiny models with random weights (F32, 0.2 to 5 MB, 377 tokens) of many architectures.

`build(folder, names)` writes them: which tensors an architecture wants, and in which shapes, stands in
`random_shapes.json`. What they write is nonsense, but depends on every token before.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from scripted_gguf import BUILT

WIDTH = 128
_MOE = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 64}
_SSM = {
    "ssm.conv_kernel": 4, "ssm.inner_size": 256, "ssm.state_size": 32, "ssm.time_step_rank": 8,
    "ssm.group_count": 2, "attention.layer_norm_epsilon": 1e-5,
}  # fmt: skip
_DELTA = {
    **_SSM, "block_count": 4, "ssm.group_count": 4, "full_attention_interval": 2, "rope.dimension_count": 16,
}  # fmt: skip
_PLAIN_NORM = {"attention.layer_norm_epsilon": 1e-5, "attention.layer_norm_rms_epsilon": None}
_NO_HEADS = {"attention.head_count": 0, "attention.head_count_kv": None}


def _heads(size: int) -> dict[str, int]:
    return {"attention.key_length": size, "attention.value_length": size}


def _swa(blocks: int = 4) -> dict[str, int]:
    return {"block_count": blocks, "attention.sliding_window": 64}


_EVERY_OTHER = {"block_count": 4, "attention.head_count_kv": [0, 2, 0, 2]}
_ENCODER = {"attention.causal": False, "pooling_type": 1}

# What each architecture says besides `_common`; None takes a key away, "arch" is its name where it differs.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama-moe": {"arch": "llama", "expert_count": 4, "expert_used_count": 2},
    "qwen2": {},
    "qwen3": {**_heads(64), "rope.dimension_count": 64},
    "qwen3moe": {**_MOE, **_heads(32)},
    "mistral3": {},
    "smollm3": {},
    "olmo2": {},
    "seed_oss": {**_heads(32)},
    "phi2": {"attention.head_count_kv": 4, "rope.dimension_count": 16, "attention.layer_norm_epsilon": 1e-5},
    "phi3": {"rope.scaling.original_context_length": 4096, "attention.sliding_window": 64},
    "gpt2": {
        "attention.head_count_kv": 4, "attention.layer_norm_epsilon": 1e-5, "rope.freq_base": None,
        "rope.dimension_count": None, "context_length": 512,
    },
    "starcoder2": {"attention.layer_norm_epsilon": 1e-5},
    "stablelm": {"attention.layer_norm_epsilon": 1e-5, "rope.dimension_count": 16},
    "minicpm3": {
        "attention.head_count_kv": 4, "attention.q_lora_rank": 48, "attention.kv_lora_rank": 64,
        "attention.key_length": 48, "attention.value_length": 32, "rope.dimension_count": 16,
    },
    "deepseek2": {
        "attention.head_count_kv": 1, "attention.q_lora_rank": 48, "attention.kv_lora_rank": 64,
        "attention.key_length": 80, "attention.value_length": 64, "attention.key_length_mla": 48,
        "attention.value_length_mla": 32, "rope.dimension_count": 16, "leading_dense_block_count": 1,
        **_MOE, "expert_shared_count": 1, "expert_weights_scale": 1.0, "expert_gating_func": 2,
    },
    "glm4moe": {
        **_MOE, **_heads(32), "expert_shared_count": 1, "leading_dense_block_count": 1,
        "rope.dimension_count": 16, "expert_weights_scale": 1.0, "expert_weights_norm": True,
        "expert_gating_func": 2, "nextn_predict_layers": 0,
    },
    "llama4": {**_MOE, **_heads(32), "block_count": 4, "interleave_moe_layer_step": 2,
               "attention.chunk_size": 64},
    "gpt-oss": {
        **_swa(), **_heads(64), **_MOE, "rope.dimension_count": 64, "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 1024,
    },
    "gemma2": {**_swa(), **_heads(32), "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    "gemma3": {**_swa(7), **_heads(64), "rope.dimension_count": 64},
    "gemma4": {
        **_swa(5), **_heads(64), "attention.sliding_window_pattern": [True, True, True, True, False],
        "rope.dimension_count": 64, "rope.dimension_count_swa": 32, "attention.key_length_swa": 32,
        "attention.value_length_swa": 32, "rope.freq_base_swa": 10000.0,
        "embedding_length_per_layer_input": 32, "attention.shared_kv_layers": 0,
    },
    "cohere2": {**_swa(), **_PLAIN_NORM, "logit_scale": 0.25},
    "exaone4": {**_swa(), **_heads(32)},
    "lfm2": {**_EVERY_OTHER, "shortconv.l_cache": 3},
    "lfm2moe": {**_EVERY_OTHER, **_MOE, "shortconv.l_cache": 3, "leading_dense_block_count": 1,
                "expert_gating_func": 2},
    "jamba": {**_EVERY_OTHER, **_SSM, "ssm.state_size": 16, "ssm.group_count": None, "expert_count": 0,
              "attention.layer_norm_epsilon": None},
    "granitehybrid": {**_EVERY_OTHER, **_SSM, "embedding_scale": 1.0, "residual_scale": 1.0,
                      "attention.scale": 0.2, "logit_scale": 1.0},
    "nemotron_h": {
        **_SSM, **_heads(32), "block_count": 5, "attention.head_count_kv": [0, 0, 2, 0, 0],
        "feed_forward_length": [0, 192, 0, 0, 192],
    },
    "falcon-h1": {**_SSM, **_heads(32)},
    "qwen35": {**_DELTA, **_heads(32), "rope.dimension_sections": [4, 4, 0, 0]},
    "qwen3next": {**_DELTA, **_heads(32), **_MOE, "expert_shared_feed_forward_length": 64},
    "mamba2": {**_SSM, **_NO_HEADS, "feed_forward_length": 0},
    "rwkv7": {
        **_NO_HEADS, **_PLAIN_NORM, "wkv.head_size": 64, "attention.decay_lora_rank": 32,
        "attention.iclr_lora_rank": 32, "attention.value_residual_mix_lora_rank": 32,
        "attention.gate_lora_rank": 32, "feed_forward_length": 256, "token_shift_count": 2,
    },
    "bert": {**_ENCODER, **_PLAIN_NORM, "attention.head_count_kv": 4, "context_length": 512,
             "rope.freq_base": None},
    "nomic-bert": {**_ENCODER, **_PLAIN_NORM, "attention.head_count_kv": 4, "context_length": 2048},
    "gemma-embedding": {**_ENCODER, **_swa(6), **_heads(64)},
}  # fmt: skip
# What llama.cpp takes as it comes, and so never misses.
OPTIONAL = {
    "qwen2": [*(f"blk.{i}.attn_{x}.bias" for i in range(3) for x in "qkv"), "output.weight"],
    "phi3": [f"blk.{i}.attn_qkv.weight" for i in range(3)],
    "granitehybrid": [f"blk.{i}.ssm_conv1d.bias" for i in (0, 2)],
    "nemotron_h": [f"blk.{i}.ssm_conv1d.bias" for i in (0, 3)],
    "falcon-h1": [f"blk.{i}.ssm_conv1d.bias" for i in range(3)],
    "qwen35": [f"blk.{i}.attn_{x}.weight" for i in (0, 2) for x in ("qkv", "gate")],
    "qwen3next": [f"blk.{i}.attn_{x}.weight" for i in (0, 2) for x in ("qkv", "gate")],
    "bert": ["token_types.weight"],
    **{name: ["output.weight"] for name in ("qwen3", "llama", "starcoder2")},
}
_WORDS = [
    "▁the", "▁a", "▁and", "ing", "er", "true", "false", '{"', '":', '",', "name", "▁user", "user",
    "assistant", "system", "one", "two", "red", "green", "blue",
]  # fmt: skip
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


SHAPES = Path(__file__).with_name("random_shapes.json")


def build(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """Write the models into `folder`; returns their paths by name.

    What an architecture wants that has no up-to-date row in the table is asked of llama.cpp, in a process
    of its own: a second or two each.
    """
    rows = json.loads(SHAPES.read_text("utf-8"))
    paths = {name: folder / f"{name}.gguf" for name in names}
    unknown = [name for name in paths if rows.get(name, {}).get("key") != key(name)]
    for name in paths.keys() - set(unknown):
        write(paths[name], name, rows[name]["tensors"])
    if unknown:
        command = [sys.executable, str(SHAPES.with_suffix(".py")), str(folder), *unknown]
        subprocess.run(command, check=True, timeout=60 + 30 * len(unknown))
    return paths


def key(name: str) -> str:
    """Return what the shapes of an architecture hang on, as a digest: its facts here, and llama.cpp."""
    facts = [_common(), ARCHITECTURES[name], OPTIONAL.get(name), version("llama-cpp-python")]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _common() -> dict[str, Any]:
    return {
        "context_length": 4096, "embedding_length": WIDTH, "block_count": 3, "feed_forward_length": 192,
        "attention.head_count": 4, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 10000.0, "rope.dimension_count": 32,
    }  # fmt: skip


def write(
    path: Path, name: str, shapes: dict[str, list[int]], *, packed: bool = False, **changes: Any
) -> None:
    """Write one model with tensors of these shapes (ggml's order); `changes` are keys of its metadata.

    With `packed` the blocks' matrices are of type Q4_0, which llama.cpp repacks for the processor.
    """
    facts = {**_common(), **ARCHITECTURES[name], **changes}
    arch = facts.pop("arch", name)
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name("random")  # llama.cpp has rules of its own for names such as "phi3"
    _write_vocabulary(writer, words="bert" in name)
    for key, value in facts.items():
        full = f"{arch}.{key}"
        if isinstance(value, bool):
            writer.add_bool(full, value)
        elif isinstance(value, int):
            writer.add_uint32(full, value)
        elif isinstance(value, float):
            writer.add_float32(full, value)
        elif isinstance(value, str):
            writer.add_string(full, value)
        elif value is not None:
            writer.add_array(full, value)
    for tensor, shape in shapes.items():
        weights, kind = _weights(arch, tensor, tuple(shape)), None
        if packed and len(shape) > 1 and tensor.startswith("blk."):
            kind = gguf.GGMLQuantizationType.Q4_0
            weights = gguf.quants.quantize(weights, kind)
        writer.add_tensor(tensor, weights, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    # One of a form is tried for all (conftest.py); each by itself in soak_architectures.py.
    form = [packed, facts.get("attention.causal", True), any("ssm" in key or "wkv" in key for key in facts)]
    BUILT[str(path)] = path.stat().st_mtime_ns, f"random: {form}"


def _write_vocabulary(writer: gguf.GGUFWriter, *, words: bool) -> None:
    letters = [chr(code) for code in range(33, 127)]
    if words:  # WordPiece
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("▁" + c for c in letters)]
        tokens += ["▁hello", "▁world"]
        writer.add_tokenizer_model("bert")
        writer.add_token_list(tokens)
        writer.add_token_types([3] * 5 + [1] * (len(tokens) - 5))
        writer.add_token_type_count(2)
        for kind, token in (("unknown", 1), ("seperator", 3), ("padding", 0), ("mask", 4), ("cls", 2)):
            writer.add_uint32(f"tokenizer.ggml.{kind}_token_id", token)
        writer.add_bos_token_id(2)
    else:
        singles = dict.fromkeys(["▁", *letters, *_WORDS])
        marks = ["<|im_start|>", "<|im_end|>"]
        tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *marks, *singles]
        writer.add_tokenizer_model("llama")
        writer.add_token_list(tokens)
        writer.add_token_scores(
            [0.0] * 261 + [-300.0 - i if len(t) > 1 else -1e3 for i, t in enumerate(singles)]
        )
        writer.add_token_types([2, 3, 3, *[6] * 256, 3, 3, *[1] * len(singles)])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(260)
        writer.add_unk_token_id(0)
        writer.add_add_space_prefix(False)
        writer.add_chat_template(_TEMPLATE)
    writer.add_tokenizer_pre("default")


@cache
def _weights(arch: str, tensor: str, shape: tuple[int, ...]) -> Any:
    """Draw a tensor, scaled so that logits neither flatten nor settle on one token."""
    draw = np.random.default_rng([1, *tensor.encode()])
    x = draw.standard_normal(tuple(reversed(shape)))
    if "norm" in tensor and tensor.endswith("weight") and sum(n > 1 for n in shape) <= 1:
        x = 1 + 0.1 * x
    elif "ssm_a" in tensor:
        x = -np.abs(x) - 0.05
    elif tensor.endswith("bias"):
        x *= 0.1
    elif "token_embd" in tensor and len(shape) == 2:
        x *= 0.08 if "gemma" in arch else 0.25
    elif "conv" in tensor:
        x *= 0.4
    elif len(shape) >= 2:
        x *= (2.5 if "attn" in tensor else 1.8) / np.sqrt(shape[0])
    else:
        x *= 0.3
    return x.astype(np.float32)


_ADAPTED = re.compile(r"blk\.\d+\.attn_(q|k|v|qkv|output)\.weight")


def adapted(base: Path) -> list[Any]:
    """Return the tensors of a model that `write_adapter` changes."""
    return [tensor for tensor in gguf.GGUFReader(base).tensors if _ADAPTED.fullmatch(tensor.name)]


def write_adapter(path: Path, base: Path, *, seed: int = 0, rank: int = 4, arch: str | None = None) -> Path:
    """Write a random LoRA adapter for the attention of a model."""
    reader = gguf.GGUFReader(base)
    writer = gguf.GGUFWriter(path, arch or bytes(reader.fields["general.architecture"].parts[-1]).decode())
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(rank))
    draw = np.random.default_rng(seed)
    for tensor in adapted(base):
        columns, rows = (int(n) for n in tensor.shape)
        for side, shape in (("lora_a", (rank, columns)), ("lora_b", (rows, rank))):
            values = draw.standard_normal(shape) / np.sqrt(shape[1])
            writer.add_tensor(f"{tensor.name}.{side}", values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
