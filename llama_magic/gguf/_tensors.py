"""The tensors of a header: what each is called, how large it is, and which part of a model it belongs to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from llama_magic.gguf._parse import Header
from llama_magic.gguf._types import TENSOR_TYPES, type_name
from llama_magic.words.counting import counted

PARTS = ("embedding", "attention", "feed-forward", "recurrent", "norms", "output", "other")


@dataclass(frozen=True)
class TensorInfo:
    """One tensor. `shape` is in GGUF order, the fastest-running dimension first; `offset` is its place in the
    file in bytes; `shard` counts the parts of a split file from 0.
    """

    name: str
    shape: tuple[int, ...]
    type: str
    n_bytes: int
    offset: int
    shard: int = 0

    @property
    def n_elements(self) -> int:
        return math.prod(self.shape)


class Tensors(Mapping[str, TensorInfo]):
    """The tensors by name, in the file's order; `tensors[3]` is the fourth."""

    def __init__(self, items: list[TensorInfo]) -> None:
        self._items = items
        self._by_name = {t.name: t for t in items}

    def __getitem__(self, key: str | int) -> TensorInfo:
        return self._items[key] if isinstance(key, int) else self._by_name[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"<{counted(len(self._items), 'tensor')}>"


def tensors_of(header: Header, shard: int) -> Iterator[TensorInfo]:
    """Yield the tensors of one file; `shard` is its number."""
    start = header.data_start
    for raw in header.tensors:
        kind = TENSOR_TYPES.get(raw.type_id)
        n = math.prod(raw.shape)
        n_bytes = -(-n // kind.block) * kind.size if kind else 0
        yield TensorInfo(raw.name, raw.shape, type_name(raw.type_id), n_bytes, start + raw.relative, shard)


def part_of(name: str) -> str:
    """Return the part of a model, one of `PARTS`, that a tensor of this name belongs to."""
    base = name.removesuffix(".weight").removesuffix(".bias").rsplit(".", 1)[-1]
    if "norm" in base:
        return "norms"
    if base in ("token_embd", "position_embd", "token_types", "per_layer_token_embd"):
        return "embedding"
    if base in ("output", "cls", "cls_out"):
        return "output"
    if base.startswith(("attn", "cross_attn", "indexer")):
        return "attention"
    if base.startswith(("ffn", "exp_probs")):
        return "feed-forward"
    if base.startswith(("ssm", "time_mix", "channel_mix", "shortconv")) or ".shortconv." in name:
        return "recurrent"
    return "other"
