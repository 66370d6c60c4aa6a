"""Build a tiny GGUF in which every token has one successor, so that every answer is known in advance.

A llama of one block whose attention and feed-forward weights are zero: what comes out for a token
is its own one-hot embedding, and the output matrix says which token follows it. About 3 MB; loads
in milliseconds. Any bytes can be scripted, and the answer depends on the last token of the prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import gguf
import numpy as np

Piece = str | int  # a text, or a byte value for a byte token
EOS = "</s>"
BYTES = 3  # id of the token of byte 0
# Every file that this process built: when, and of what form it is, whatever its tokens and numbers.
BUILT: dict[str, tuple[int, str]] = {}
_MARGIN = 20.0  # logit of the successor; all others have 0
_CONTROL, _NORMAL, _UNKNOWN, _BYTE, _USER = 3, 1, 2, 6, 4


@dataclass(frozen=True)
class Scripted:
    """The file and the ids of its pieces."""

    path: Path
    ids: Mapping[Piece, int]


def chain(*pieces: Piece) -> dict[Piece, Piece]:
    """Return arrows from each piece to the next."""
    return dict(pairwise(pieces))


def build(
    path: Path,
    arrows: Mapping[Piece, Piece],
    *,
    default: Piece = EOS,
    controls: Sequence[str] = (),
    user_defined: Sequence[str] = (),
    context: int = 4096,
    add_bos: bool = True,
    template: str | None = None,
    metadata: Mapping[str, int | float] | None = None,
    scale: float = 1.0,
) -> Scripted:
    """Write the file. A piece without an arrow is followed by `default`; `scale` multiplies all logits."""
    tokens, kinds, ids = _vocabulary([*arrows, *arrows.values(), default], controls, user_defined)
    width = -(-len(tokens) // 128) * 128
    successor = np.full(len(tokens), ids[default])
    for piece, following in arrows.items():
        successor[ids[piece]] = ids[following]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("scripted")
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_rope_dimension_count(width // 2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(len(tokens))])
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(add_bos)
    writer.add_add_space_prefix(False)
    if template is not None:
        writer.add_chat_template(template)
    for key, value in (metadata or {}).items():
        (writer.add_float32 if isinstance(value, float) else writer.add_int32)(key, value)
    for name, data in _tensors(successor, width, scale).items():
        writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    BUILT[str(path)] = path.stat().st_mtime_ns, "scripted"
    return Scripted(path, ids)


def _vocabulary(
    pieces: Sequence[Piece], controls: Sequence[str], user_defined: Sequence[str]
) -> tuple[list[bytes], list[int], dict[Piece, int]]:
    tokens = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % byte for byte in range(256))]
    kinds = [_UNKNOWN, _CONTROL, _CONTROL, *[_BYTE] * 256]
    ids: dict[Piece, int] = {"<unk>": 0, "<s>": 1, EOS: 2, **{byte: BYTES + byte for byte in range(256)}}
    groups = [(controls, _CONTROL), (user_defined, _USER), ([" ", *pieces], _NORMAL)]
    for texts, kind in groups:
        for text in texts:
            if text not in ids:
                assert isinstance(text, str)
                ids[text] = len(tokens)
                tokens.append(text.replace(" ", "▁").encode())
                kinds.append(kind)
    return tokens, kinds, ids


def _tensors(successor: Any, width: int, scale: float) -> dict[str, Any]:
    n = len(successor)
    embedding = np.eye(n, width, dtype=np.float32)
    output = np.zeros((n, width), dtype=np.float32)
    # An RMS-normalised one-hot vector has the length sqrt(width).
    output[successor, np.arange(n)] = _MARGIN * scale / width**0.5
    tensors = {"token_embd.weight": embedding, "output.weight": output}
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        tensors[f"{name}.weight"] = np.ones(width, dtype=np.float32)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        tensors[f"blk.0.{name}.weight"] = np.zeros((width, width), dtype=np.float32)
    for name in ("ffn_gate", "ffn_up"):
        tensors[f"blk.0.{name}.weight"] = np.zeros((32, width), dtype=np.float32)
    tensors["blk.0.ffn_down.weight"] = np.zeros((width, 32), dtype=np.float32)
    return tensors
