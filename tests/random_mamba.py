"""Build a tiny Mamba with random weights: a recurrent model, whose state cannot be cut back."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

_WIDTH, _INNER, _STATE, _RANK, _CONV, _LAYERS = 64, 128, 16, 4, 4, 2


def build(path: Path, seed: int = 0) -> Path:
    """Write the file (about 0.6 MB): byte tokens, two layers."""
    draw = np.random.default_rng(seed)
    tokens = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % byte for byte in range(256))]
    writer = gguf.GGUFWriter(path, "mamba")
    writer.add_name("random mamba")
    writer.add_context_length(4096)
    writer.add_embedding_length(_WIDTH)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_block_count(_LAYERS)
    writer.add_ssm_conv_kernel(_CONV)
    writer.add_ssm_inner_size(_INNER)
    writer.add_ssm_state_size(_STATE)
    writer.add_ssm_time_step_rank(_RANK)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([2, 3, 3, *[6] * 256])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_space_prefix(False)

    def add(name: str, *shape: int, scale: float = 0.3) -> None:
        writer.add_tensor(name, (draw.standard_normal(shape) * scale).astype(np.float32))

    add("token_embd.weight", len(tokens), _WIDTH, scale=1.0)
    add("output.weight", len(tokens), _WIDTH)
    writer.add_tensor("output_norm.weight", np.ones(_WIDTH, dtype=np.float32))
    for layer in range(_LAYERS):
        block = f"blk.{layer}."
        writer.add_tensor(f"{block}attn_norm.weight", np.ones(_WIDTH, dtype=np.float32))
        add(f"{block}ssm_in.weight", 2 * _INNER, _WIDTH)
        add(f"{block}ssm_conv1d.weight", _INNER, _CONV)
        add(f"{block}ssm_conv1d.bias", _INNER)
        add(f"{block}ssm_x.weight", _RANK + 2 * _STATE, _INNER)
        add(f"{block}ssm_dt.weight", _INNER, _RANK)
        add(f"{block}ssm_dt.bias", _INNER)
        decay = -np.tile(np.arange(1, _STATE + 1, dtype=np.float32), (_INNER, 1)) / _STATE
        writer.add_tensor(f"{block}ssm_a", decay)
        writer.add_tensor(f"{block}ssm_d", np.ones(_INNER, dtype=np.float32))
        add(f"{block}ssm_out.weight", _WIDTH, _INNER)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
