"""A small GGUF writer of our own, and a tiny llama model to break in every way that a test wants.

Independent of the reader under test and of gguf-py: plain `struct`, any version, either byte order, and it
writes what is wrong as readily as what is right.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

TYPES = {
    "u8": (0, "B"), "i8": (1, "b"), "u16": (2, "H"), "i16": (3, "h"), "u32": (4, "I"), "i32": (5, "i"),
    "f32": (6, "f"), "bool": (7, "?"), "str": (8, ""), "arr": (9, ""), "u64": (10, "Q"), "i64": (11, "q"),
    "f64": (12, "d"),
}  # fmt: skip
# tensor type id -> (weights a block, bytes a block), for those the tests use
BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 8: (32, 34), 9: (32, 36), 12: (256, 144), 15: (256, 292),
    24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 30: (1, 2),
}  # fmt: skip
WIDTH, HEADS, FEED, BLOCK = 64, 2, 32, "blk.0."


@dataclass
class Tensor:
    name: str
    shape: tuple[int, ...]
    type_id: int = 0
    offset: int | None = None  # None: where the data before it end

    @property
    def n_bytes(self) -> int:
        n = 1
        for size in self.shape:
            n *= max(size, 0)
        block, size = BLOCKS.get(self.type_id, (1, 4))
        return min(n // block * size, 1 << 24)


@dataclass
class File:
    """A GGUF in pieces. `kv` holds (key, type, value); an array's type is `arr[str]` and the like."""

    kv: list[tuple[str, str, Any]] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    version: int = 3
    order: str = "<"
    alignment: int = 32
    n_tensors: int | None = None
    n_kv: int | None = None
    cut: int = 0  # bytes left out at the end

    def with_kv(self, key: str, type_: str | None = None, value: Any = None) -> File:
        """Return a copy with one key set, in its old place or at the end; a type of None removes it."""
        kept = [(k, t, v) if k != key else (key, type_, value) for k, t, v in self.kv]
        if type_ is not None and all(k != key for k, _, _ in self.kv):
            kept.append((key, type_, value))
        return replace(self, kv=[item for item in kept if item[1] is not None])

    def with_tensor(self, name: str, /, **changes: Any) -> File:
        """Return a copy with one tensor changed."""
        return replace(self, tensors=[replace(t, **changes) if t.name == name else t for t in self.tensors])

    def without_tensor(self, name: str) -> File:
        return replace(self, tensors=[t for t in self.tensors if t.name != name])

    def header(self) -> bytes:
        o = self.order
        out = [b"GGUF", struct.pack(o + "I", self.version)]
        n_tensors = len(self.tensors) if self.n_tensors is None else self.n_tensors
        n_kv = len(self.kv) if self.n_kv is None else self.n_kv
        out.append(struct.pack(o + "QQ", n_tensors % (1 << 64), n_kv % (1 << 64)))
        for key, type_, value in self.kv:
            out += [self._string(key), self._value(type_, value)]
        at = 0
        for t in self.tensors:
            out += [self._string(t.name), struct.pack(o + "I", len(t.shape))]
            out += [struct.pack(o + "Q", size % (1 << 64)) for size in t.shape]
            out.append(struct.pack(o + "IQ", t.type_id, at if t.offset is None else t.offset))
            at += -(-t.n_bytes // self.alignment) * self.alignment
        return b"".join(out)

    def bytes(self) -> bytes:
        head = self.header()
        if self.tensors:
            head += bytes(-len(head) % self.alignment)
        data = b"".join(_data(t) + bytes(-t.n_bytes % self.alignment) for t in self.tensors)
        whole = head + data
        return whole[: len(whole) - self.cut]

    def write(self, path: Path) -> Path:
        path.write_bytes(self.bytes())
        return path

    def _string(self, text: str | bytes) -> bytes:
        raw = text.encode() if isinstance(text, str) else text
        return struct.pack(self.order + "Q", len(raw)) + raw

    def _value(self, type_: str, value: Any) -> bytes:
        o = self.order
        if type_.startswith("arr["):
            element = type_[4:-1]
            head = struct.pack(o + "IIQ", 9, TYPES[element][0], len(value))
            if element == "str":
                return head + b"".join(self._string(v) for v in value)
            return head + struct.pack(f"{o}{len(value)}{TYPES[element][1]}", *value)
        number, letter = TYPES[type_]
        if type_ == "str":
            return struct.pack(o + "I", number) + self._string(value)
        return struct.pack(o + "I" + letter, number, value)


def _data(t: Tensor) -> bytes:
    """Return ones for norms and zeros for the rest: finite whatever the type."""
    if t.type_id == 0 and "norm" in t.name:
        return struct.pack("<f", 1.0) * (t.n_bytes // 4)
    return bytes(t.n_bytes)


def tokens() -> list[bytes]:
    """Return a SentencePiece vocabulary of 260 pieces: specials, all bytes, one space."""
    return [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % b for b in range(256)), "▁".encode()]


def tiny_llama(vocabulary: Sequence[bytes] | None = None) -> File:
    """Return a llama of one block and 64 wide that llama.cpp loads and runs."""
    words = list(vocabulary) if vocabulary is not None else tokens()
    n = len(words)
    types = [6 if w.startswith(b"<0x") else 3 if w.startswith(b"<") else 1 for w in words]
    head = WIDTH // HEADS
    kv: list[tuple[str, str, Any]] = [
        ("general.architecture", "str", "llama"),
        ("general.name", "str", "tiny"),
        ("llama.context_length", "u32", 512),
        ("llama.embedding_length", "u32", WIDTH),
        ("llama.block_count", "u32", 1),
        ("llama.feed_forward_length", "u32", FEED),
        ("llama.attention.head_count", "u32", HEADS),
        ("llama.attention.head_count_kv", "u32", HEADS),
        ("llama.attention.layer_norm_rms_epsilon", "f32", 1e-5),
        ("llama.rope.dimension_count", "u32", head),
        ("tokenizer.ggml.model", "str", "llama"),
        ("tokenizer.ggml.tokens", "arr[str]", words),
        ("tokenizer.ggml.scores", "arr[f32]", [0.0] * n),
        ("tokenizer.ggml.token_type", "arr[i32]", types),
        ("tokenizer.ggml.bos_token_id", "u32", 1),
        ("tokenizer.ggml.eos_token_id", "u32", 2),
        ("tokenizer.ggml.unknown_token_id", "u32", 0),
    ]
    square = (WIDTH, WIDTH)
    tensors = [
        Tensor("token_embd.weight", (WIDTH, n)),
        Tensor("output.weight", (WIDTH, n)),
        Tensor("output_norm.weight", (WIDTH,)),
        *(Tensor(f"{BLOCK}attn_{name}.weight", square) for name in ("q", "k", "v", "output")),
        Tensor(f"{BLOCK}ffn_gate.weight", (WIDTH, FEED)),
        Tensor(f"{BLOCK}ffn_up.weight", (WIDTH, FEED)),
        Tensor(f"{BLOCK}ffn_down.weight", (FEED, WIDTH)),
        Tensor(f"{BLOCK}attn_norm.weight", (WIDTH,)),
        Tensor(f"{BLOCK}ffn_norm.weight", (WIDTH,)),
    ]
    return File(kv, tensors)


def tiny_hybrid() -> File:
    """Return the header of a Jamba of four blocks, two of them recurrent. (Its tensors are not all there.)"""
    file = tiny_llama()
    changes = {
        "attention.head_count_kv": ("arr[i32]", [0, HEADS, 0, HEADS]), "block_count": ("u32", 4),
        "context_length": ("u32", 1 << 20), "ssm.conv_kernel": ("u32", 4), "ssm.inner_size": ("u32", 4096),
        "ssm.state_size": ("u32", 64), "ssm.time_step_rank": ("u32", 4),
    }  # fmt: skip
    kept = {key: (kind, value) for key, kind, value in file.kv} | {"general.architecture": ("str", "jamba")}
    kept |= {f"llama.{key}": value for key, value in changes.items()}
    file.kv = [(key.replace("llama.", "jamba."), *value) for key, value in kept.items()]
    return file
