"""The compute buffers of llama.cpp: the peak of `ggml_gallocr` over one batch, from a header.

What a layer holds at once was read off llama.cpp's graphs (`src/models/*.cpp`) and fitted to its own log
lines for some forty architectures. All values are float32.
"""

from __future__ import annotations

from llama_magic.gguf import GGUFInfo


def compute_bytes(info: GGUFInfo, *, tokens: int, cells: int, n_seq: int, rows: int, flash: bool) -> int:
    """Return the bytes at the peak of one batch: the largest of its layers, or the logits.

    `tokens` are those of the batch, of `n_seq` sequences; `rows` those whose logits are wanted. Every layer
    holds the batch's embeddings twice, for the graph has an input for tokens and one for vectors.
    """
    logits = rows * info.vocab_size + 2 * tokens * info.hparams.embedding
    heads = max((layer.heads for layer in info.hparams.layers() if layer.k), default=0)
    masks = (2 if info.sliding_window else 1) if heads else 0
    scores = 0 if flash else heads * cells * tokens  # a number for each pair, of one layer
    layer = max(
        tokens * _attention(info) + scores, tokens * _feed_forward(info), _recurrence(info, tokens, n_seq)
    )
    return max(masks * (2 if flash else 4) * cells * tokens + 4 * layer, 4 * logits)


def _attention(info: GGUFInfo) -> int:
    """Return the values a token has in an attention layer: embeddings, residual, norm, queries, K and V."""
    h = info.hparams
    layers = [layer for layer in h.layers() if layer.k]
    if not layers:
        return 0
    queries = max(layer.heads for layer in layers) * h.head_k
    latent = 5 if h.whole("attention.kv_lora_rank") else 3  # halves: MLA joins two parts of each query
    return 3 * h.embedding + latent * queries // 2 + max(layer.k + layer.v for layer in layers)


def _feed_forward(info: GGUFInfo) -> int:
    """Return the values a token has in a feed-forward layer, dense or of experts."""
    h = info.hparams
    gated = any(".ffn_gate.weight" in name for name in info.tensors) or _joined_gate(info)
    gated_experts = any(".ffn_gate_exps." in name for name in info.tensors)
    dense = (3 if gated else 2) * max(h.per_layer("feed_forward_length"), default=0)
    used = h.whole("expert_used_count") if h.experts else 0
    inner = used * h.whole("expert_feed_forward_length", h.whole("feed_forward_length"))
    experts = max((3 if gated_experts else 2) * inner, inner + used * h.embedding)
    # attention and feed-forward side by side: the one waits for the other
    between = ("ffn_norm", "post_attention_norm", "attn_output_norm")
    beside = 0 if any(norm in name for name in info.tensors for norm in between) else 1
    if used and not h.whole("leading_dense_block_count"):
        dense = 0
    return (3 + beside) * h.embedding + max(dense, experts)


def _joined_gate(info: GGUFInfo) -> bool:
    """Whether gate and up are one matrix, as in Phi 3."""
    up = info.tensors.get("blk.0.ffn_up.weight")
    width = info.hparams.per_layer("feed_forward_length")[:1]
    return up is not None and len(up.shape) == 2 and width == [up.shape[1] // 2]


def _recurrence(info: GGUFInfo, n: int, n_seq: int) -> int:
    """Return the values of a batch in recurrent layers, those of each sequence's state with them."""
    h = info.hparams
    state = max(info.recurrent_state_bytes, default=0) // 4
    if not state:
        return 0
    if h.whole("wkv.head_size"):  # RWKV: six mixtures of a token with the one before, made twice
        return 18 * n * h.embedding + 2 * n_seq * state
    if h.whole("shortconv.l_cache"):
        return 7 * n * h.embedding + n_seq * state
    heads, inner = h.whole("ssm.time_step_rank"), h.whole("ssm.inner_size")
    if size := h.whole("kda.head_dim"):
        heads = h.whole("attention.head_count")
        inner = size * heads
        conv = 3 * inner
    else:
        conv = inner + 2 * h.whole("ssm.group_count") * h.whole("ssm.state_size")
    joined = any(".ssm_ba." in name for name in info.tensors)  # one projection, taken apart by copies
    if size or joined or any(".ssm_beta" in name for name in info.tensors):  # a delta net
        token = 2 * h.embedding + (3 if joined else 2) * conv + inner + 2 * heads
        return n * token + 2 * n_seq * state
    return n * (2 * h.embedding + 3 * conv + 3 * inner + heads) + n_seq * state
