"""What a header says of the tokenizer: vocabulary, special tokens, chat templates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

from llama_magic.gguf._arrays import LazyArray

_SPECIAL = {  # name -> key under tokenizer.ggml., llama-arch.cpp
    "bos": "bos_token_id", "eos": "eos_token_id", "eot": "eot_token_id", "eom": "eom_token_id",
    "unk": "unknown_token_id", "sep": "seperator_token_id", "pad": "padding_token_id",
    "mask": "mask_token_id",
    "fim_pre": "fim_pre_token_id", "fim_suf": "fim_suf_token_id", "fim_mid": "fim_mid_token_id",
    "fim_pad": "fim_pad_token_id", "fim_rep": "fim_rep_token_id", "fim_sep": "fim_sep_token_id",
}  # fmt: skip


class TokenizerInfo:
    """The tokenizer's part of a `GGUFInfo`; `metadata` maps the header's keys to values."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self.metadata = metadata

    @property
    def tokenizer_model(self) -> str:
        return self._text("tokenizer.ggml.model")

    @property
    def pre_tokenizer(self) -> str:
        return self._text("tokenizer.ggml.pre")

    @property
    def tokens(self) -> LazyArray | None:
        return self._strings("tokenizer.ggml.tokens")

    @property
    def merges(self) -> LazyArray | None:
        return self._strings("tokenizer.ggml.merges")

    @property
    def token_types(self) -> LazyArray | None:
        value = self.metadata.get("tokenizer.ggml.token_type")
        return value if isinstance(value, LazyArray) and value.type != "str" else None

    @property
    def add_bos(self) -> bool | None:
        """Return what the file says about a BOS token before every text; None if it says nothing."""
        value = self.metadata.get("tokenizer.ggml.add_bos_token")
        return value if isinstance(value, bool) else None

    @property
    def add_eos(self) -> bool | None:
        value = self.metadata.get("tokenizer.ggml.add_eos_token")
        return value if isinstance(value, bool) else None

    @cached_property
    def special_tokens(self) -> Mapping[str, tuple[int, str]]:
        """Return name → (id, text) of the special tokens that the file names (`bos`, `eos`, `eot`, …)."""
        given, outside = self._special_ids, self.special_outside
        there = {
            name: (token, self.token_text(token)) for name, token in given.items() if name not in outside
        }
        return MappingProxyType(there)

    @property
    def special_outside(self) -> Mapping[str, int]:
        """The ids that are given to special tokens, and are those of no token: llama.cpp passes over them."""
        n = None if self.tokens is None else len(self.tokens)
        return {name: token for name, token in self._special_ids.items() if n is not None and token >= n}

    @property
    def _special_ids(self) -> dict[str, int]:
        given = {name: self.metadata.get(f"tokenizer.ggml.{key}") for name, key in _SPECIAL.items()}
        return {name: token for name, token in given.items() if type(token) is int}

    def token_text(self, token: int) -> str:
        """Return a token's text as the file has it; an empty string for an id outside the vocabulary."""
        tokens = self.tokens
        return tokens[token] if tokens is not None and 0 <= token < len(tokens) else ""

    @property
    def bos_token(self) -> str:
        return self.special_tokens.get("bos", (0, ""))[1]

    @property
    def eos_token(self) -> str:
        return self.special_tokens.get("eos", (0, ""))[1]

    def has_token(self, text: str) -> bool:
        """Return whether the vocabulary has exactly this token (a search in the header's bytes, 1 ms)."""
        return self.token_id(text) is not None

    def token_id(self, text: str) -> int | None:
        """Return the id of the token with exactly this text, or None."""
        tokens = self.tokens
        return tokens.find(text.encode("utf-8", "surrogateescape")) if tokens is not None else None

    @property
    def chat_template(self) -> str | None:
        value = self.metadata.get("tokenizer.chat_template")
        return value if isinstance(value, str) else None

    @cached_property
    def chat_templates(self) -> Mapping[str, str]:
        """Return all chat templates by name; the one used when none is named is `default`."""
        found = {} if self.chat_template is None else {"default": self.chat_template}
        for key, value in self.metadata.items():
            if key.startswith("tokenizer.chat_template.") and isinstance(value, str):
                found[key.removeprefix("tokenizer.chat_template.")] = value
        return MappingProxyType(found)

    def _text(self, key: str) -> str:
        value = self.metadata.get(key)
        return value if isinstance(value, str) else ""

    def _strings(self, key: str) -> LazyArray | None:
        value = self.metadata.get(key)
        return value if isinstance(value, LazyArray) and value.type == "str" else None
