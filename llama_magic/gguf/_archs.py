"""What llama.cpp knows: architectures, pre-tokenizers, the tensors each architecture has, and their shapes.

The table `architectures.json` is made from llama.cpp's sources by `tests/gguf/make_architectures.py`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

TOKENIZERS = (
    "llama", "gpt2", "bert", "t5", "rwkv", "plamo2", "gemma4", "hybriddna", "whitespace", "test", "none",
    "no_vocab",
)  # fmt: skip
_NUMBER = re.compile(r"\.\d+(?=\.|$)")
# a scale may stand beside any weight (NVFP4 and others)
_SCALES = (".scale", ".input_scale")


@dataclass(frozen=True)
class TensorRule:
    """One tensor of an architecture: its name pattern (`blk.%d.…`), whether it must be there, its shape."""

    names: tuple[str, ...]  # any one of these
    mark: str  # "!" required, "!0" where there are no experts, "!1" where there are, "" optional
    dims: tuple[str, ...]  # expressions such as "n_embd_head_k*n_head"; empty: not known

    def required(self, experts: int) -> bool:
        return self.mark in ("!", "!1" if experts else "!0")


@dataclass(frozen=True)
class Architecture:
    keys: tuple[str, ...]  # must be there, under "{architecture}."
    open: bool  # has tensors that the table does not list
    rules: tuple[TensorRule, ...]

    @property
    def patterns(self) -> set[str]:
        return {name for rule in self.rules for name in rule.names}

    def knows(self, tensor: str) -> bool:
        """Return whether llama.cpp has a place for a tensor of this name."""
        pattern = normal(tensor)
        if self.open or pattern in self.patterns:
            return True
        return any(
            pattern.endswith(s) and pattern.removesuffix(s) + ".weight" in self.patterns for s in _SCALES
        )


def normal(tensor: str) -> str:
    """Return a tensor's name with its block number as `%d`."""
    return _NUMBER.sub(".%d", tensor)


@cache
def _table() -> dict[str, Any]:
    text = resources.files("llama_magic.gguf").joinpath("architectures.json").read_text("utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


@cache
def names() -> frozenset[str]:
    """Return the architectures that llama.cpp loads."""
    return frozenset(_table()["architectures"])


@cache
def pre_tokenizers() -> frozenset[str]:
    return frozenset(_table()["pre_tokenizers"])


@cache
def architecture(name: str) -> Architecture | None:
    """Return the table's entry for an architecture, or None where it has none."""
    entry = _table()["models"].get(name)
    if entry is None:
        return None
    statements = _table()["statements"]
    rules = tuple(_rule(statements[number]) for number in entry["tensors"])
    return Architecture(tuple(entry["keys"]), entry["open"], rules)


def _rule(statement: str) -> TensorRule:
    head, _, dims = statement.partition(" ")
    names, bang, when = head.partition("!")
    return TensorRule(tuple(names.split("|")), bang + when, tuple(dims.split(",")) if dims else ())


def evaluate(expression: str, values: dict[str, int]) -> int:
    """Return the value of a sum of products, as in `n_embd+2*n_embd_gqa`; `/` is whole-number division."""
    total = 0
    for term in expression.split("+"):
        product = 1
        for part in re.findall(r"[*/]?\w+", term):
            name = part.lstrip("*/")
            number = int(name) if name.isdigit() else values[name]
            product = product // number if part[0] == "/" else product * number
        total += product
    return total
