"""`GGUFInfo`: a header in plain words. Nothing here reads weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from llama_magic.gguf._arrays import LazyArray
from llama_magic.gguf._hparams import EMBEDDERS, HParams
from llama_magic.gguf._parse import Header
from llama_magic.gguf._tensors import PARTS, Tensors, part_of, tensors_of
from llama_magic.gguf._tokenizer import TokenizerInfo
from llama_magic.gguf._types import FILE_TYPES, row_bytes
from llama_magic.words.amounts import count, size
from llama_magic.words.counting import counted
from llama_magic.words.shown import Shown


@dataclass(frozen=True)
class Finding:
    """Something that is odd, or wrong, in a file. `level` is `note` or `warning`."""

    level: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def _no_findings(_info: GGUFInfo) -> tuple[Finding, ...]:
    return ()


class GGUFInfo(TokenizerInfo, Shown):
    """What a GGUF header says. Made by `inspect`; reads no weights, holds the header's bytes only.

    `metadata` maps keys to values (arrays are `LazyArray`s), `tensors` maps names to `TensorInfo`.
    What the file does not say is None, an empty string or 0. `plan` is how to load it here
    (a `loading.plan.Plan`), where `%llama inspect` has asked for that.
    """

    def __init__(
        self,
        headers: list[Header],
        paths: list[Path],
        judge: Callable[[GGUFInfo], tuple[Finding, ...]] = _no_findings,
    ) -> None:
        first = headers[0]
        self._judge = judge
        self.plan: Any = None
        self.headers = tuple(headers)
        self.paths = tuple(paths)
        self.path: Path | None = paths[0] if paths else None
        self.version: int = first.version
        self.byte_order: str = "little" if first.order == "<" else "big"
        self.alignment: int = first.alignment
        self.file_size: int = sum(h.size for h in headers)
        self.header_bytes: int = sum(h.end for h in headers)
        super().__init__(MappingProxyType(first.values))
        self.value_types: Mapping[str, str] = MappingProxyType(first.types)
        self.hparams = HParams(self.metadata)
        self.tensors = Tensors([t for i, h in enumerate(headers) for t in tensors_of(h, i)])

    def __getstate__(self) -> dict[str, Any]:
        views = {name: dict(v) for name, v in vars(self).items() if isinstance(v, MappingProxyType)}
        return {**vars(self), **dict.fromkeys((*views, "hparams")), "_views": views}

    def __setstate__(self, state: dict[str, Any]) -> None:
        views = {name: MappingProxyType(values) for name, values in state.pop("_views").items()}
        vars(self).update(state, **views)
        self.hparams = HParams(self.metadata)

    # --- what it is -----------------------------------------------------------------

    @property
    def architecture(self) -> str:
        return self.hparams.arch

    @property
    def name(self) -> str:
        name = self._text("general.name") or self._text("general.basename")
        return name or (self.path.stem if self.path else "")

    @property
    def adapter(self) -> str:
        """Return in words what a file changes that is no model but an adapter of one; of a model nothing."""
        if self._text("general.type") != "adapter":
            return ""
        pairs = [t.shape[-1] for name, t in self.tensors.items() if name.endswith(".lora_a")]
        ranks = " and ".join(map(str, sorted(set(pairs)))) or "0"
        kind = "LoRA" if self._text("adapter.type") == "lora" else self._text("adapter.type")
        return (
            f"{kind} of rank {ranks}, {counted(len(pairs), 'pair')} of matrices; its model loads it as lora"
        )

    @property
    def size_label(self) -> str:
        return self._text("general.size_label")

    @property
    def licence(self) -> str:
        return self._text("general.license") or self._text("general.license.name")

    @property
    def n_params(self) -> int:
        return sum(t.n_elements for t in self.tensors.values())

    @property
    def tensor_bytes(self) -> int:
        return sum(t.n_bytes for t in self.tensors.values())

    @cached_property
    def quantisation_mix(self) -> dict[str, tuple[int, int]]:
        """Return tensor type → (tensors, bytes), the largest first."""
        mix: dict[str, tuple[int, int]] = {}
        for t in self.tensors.values():
            n, size = mix.get(t.type, (0, 0))
            mix[t.type] = (n + 1, size + t.n_bytes)
        return dict(sorted(mix.items(), key=lambda item: -item[1][1]))

    @property
    def quantisation(self) -> str:
        """Return the name people use: `Q4_K_M`, or the type that holds most bytes where none is given."""
        value = self.metadata.get("general.file_type")
        if isinstance(value, int) and value in FILE_TYPES:
            return FILE_TYPES[value]
        return next(iter(self.quantisation_mix), "")

    # --- its numbers -----------------------------------------------------------------

    @property
    def context_length(self) -> int:
        return self.hparams.context

    @property
    def positions(self) -> int:
        """How many positions have a learned embedding, past which there is nothing; 0: no table."""
        table = self.tensors.get("position_embd.weight")
        return table.shape[1] if table is not None and len(table.shape) == 2 else 0

    @property
    def only_embeds(self) -> bool:
        """Whether attention looks both ways, so that there is no next token to write."""
        return self.architecture in EMBEDDERS or self.hparams.get("attention.causal") is False

    @property
    def embedding_length(self) -> int:
        return self.hparams.embedding

    @property
    def block_count(self) -> int:
        return self.hparams.block_count

    @property
    def feed_forward_length(self) -> int:
        return self.hparams.whole("feed_forward_length")

    @property
    def head_count(self) -> int:
        return max(self.hparams.heads, default=self.hparams.whole("attention.head_count"))

    @property
    def head_count_kv(self) -> list[int]:
        """Return the key/value heads of each block."""
        return self.hparams.heads_kv

    @property
    def sliding_window(self) -> int:
        return self.hparams.window

    @property
    def vocab_size(self) -> int:
        tokens = self.tokens
        return len(tokens) if tokens is not None else self.hparams.whole("vocab_size")

    def kv_bytes_per_token(
        self, type_k: str = "f16", type_v: str = "f16", swa_full: bool = True
    ) -> list[int]:
        """Return the bytes that one more token of context costs in each block.

        Grouped heads and MLA are counted as they are stored. With `swa_full=False` a sliding-window
        block costs 0: it keeps a window of cells, however long the context.
        """
        return [
            0 if layer.window and not swa_full else row_bytes(type_k, layer.k) + row_bytes(type_v, layer.v)
            for layer in self.hparams.layers()
        ]

    @property
    def recurrent_state_bytes(self) -> list[int]:
        """Return the bytes of recurrent state (float32) that one sequence keeps in each block."""
        return [4 * layer.recurrent for layer in self.hparams.layers()]

    def parameters_by_part(self) -> dict[str, int]:
        """Return how many weights each part of the model holds, in the order of the data flow."""
        parts = dict.fromkeys(PARTS, 0)
        for t in self.tensors.values():
            parts[part_of(t.name)] += t.n_elements
        return {name: n for name, n in parts.items() if n}

    # --- the rest -----------------------------------------------------------------

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the header's bytes (metadata and tensor entries), hexadecimal."""
        total = hashlib.sha256()
        for header in self.headers:
            total.update(memoryview(header.buffer)[: header.end])
        return total.hexdigest()

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Return what is odd or wrong in the file, in plain words."""
        return self._judge(self)

    def place(self, field: str) -> int | None:
        """Return where a key's value, or the entry of `tensor NAME`, stands in its file, in bytes."""
        if field.startswith("tensor "):
            name = field.removeprefix("tensor ")
            return next((t.entry for h in self.headers for t in h.tensors if t.name == name), None)
        return self.headers[0].places.get(field)

    def to_dict(self) -> dict[str, Any]:
        """Return the header as JSON-ready data; arrays longer than 64 are given by type and length."""
        return {
            "architecture": self.architecture, "name": self.name, "version": self.version,
            "byte_order": self.byte_order, "alignment": self.alignment, "file_size": self.file_size,
            "header_bytes": self.header_bytes, "n_params": self.n_params, "quantisation": self.quantisation,
            "quantisation_mix": {k: list(v) for k, v in self.quantisation_mix.items()},
            "parameters_by_part": self.parameters_by_part(),
            "special_tokens": {k: list(v) for k, v in self.special_tokens.items()},
            "chat_templates": dict(self.chat_templates),
            "findings": [asdict(f) for f in self.findings],
            "metadata": {k: _plain(v) for k, v in self.metadata.items()},
            "tensors": [asdict(t) | {"shape": list(t.shape)} for t in self.tensors.values()],
        }  # fmt: skip

    def to_pandas(self) -> Any:
        """Return the tensors as a pandas DataFrame, one row each."""
        import pandas as pd

        return pd.DataFrame(
            [asdict(t) | {"n_elements": t.n_elements, "part": part_of(t.name)} for t in self.tensors.values()]
        )

    def __repr__(self) -> str:
        return (
            f"<GGUFInfo {self.name!r}: {self.architecture}, {count(self.n_params)} parameters, "
            f"{self.quantisation}, context {self.context_length:,}>"
        )

    def __str__(self) -> str:
        return "\n".join(f"{label:<14} {text}" for label, text in self.summary().items() if text)

    def summary(self) -> dict[str, str]:
        """Return the header in a dozen labelled lines of plain words."""
        kv = sum(self.kv_bytes_per_token())
        window = f", sliding window {self.sliding_window:,}" if self.sliding_window else ""
        mix = ", ".join(f"{n} × {t}" for t, (n, _) in self.quantisation_mix.items())
        groups = sorted(set(self.head_count_kv))
        lines = {
            "name": self.name,
            "adapter": self.adapter,
            "architecture": self.architecture,
            "parameters": count(self.n_params),
            "quantisation": f"{self.quantisation} ({mix})" if mix else self.quantisation,
            "file": f"{size(self.file_size)}, GGUF v{self.version}, header {self.header_bytes:,} bytes",
            "context": f"{self.context_length:,} tokens{window}",
            "shape": f"{counted(self.block_count, 'block')} × {self.embedding_length:,} wide, "
            f"{counted(self.head_count, 'head')}, "
            f"{'/'.join(map(str, groups))} KV heads",
            "KV cache": f"{kv:,} bytes a token (f16)",
            "tokenizer": f"{self.tokenizer_model} {self.pre_tokenizer}".strip()
            + f", {self.vocab_size:,} tokens",
            "special": ", ".join(f"{k} {t!r}" for k, (_, t) in self.special_tokens.items()),
            "chat template": ", ".join(
                f"{k} ({len(v):,} characters)" for k, v in self.chat_templates.items()
            ),
            "licence": self.licence,
            "findings": "; ".join(map(str, self.findings)),
        }
        of_a_model = ("context", "shape", "KV cache", "tokenizer", "special") if self.adapter else ()
        return {label: text for label, text in lines.items() if label not in of_a_model}


def _plain(value: Any) -> Any:
    if isinstance(value, LazyArray):
        return value.to_list() if len(value) <= 64 else f"{len(value):,} × {value.type}"
    return value
