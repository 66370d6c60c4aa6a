"""An answer of so many tokens at least: until then it cannot end by itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llama_magic.request.matcher import CarriedConstraint, Matcher


@dataclass(frozen=True)
class AtLeast:
    """A constraint on how soon an answer may end, beside another one or alone (of the kind "ends").

    `ends` are the tokens that end an answer, `n_tokens` is the size of the vocabulary.
    """

    tokens: int
    ends: tuple[int, ...]
    n_tokens: int
    inner: CarriedConstraint | None = None

    @property
    def kind(self) -> str:
        return "ends" if self.inner is None else self.inner.kind

    @property
    def schema(self) -> Any:
        return None if self.inner is None else self.inner.schema

    def start(self) -> Matcher:
        return _AtLeastMatcher(self, None if self.inner is None else self.inner.start())


class _AtLeastMatcher:
    """The state of one answer of `AtLeast`."""

    def __init__(self, asked: AtLeast, inner: Matcher | None) -> None:
        self._asked = asked
        self._inner = inner
        self._left = asked.tokens
        self._ends = list(asked.ends)

    def prepare(self) -> None:
        if self._inner is not None:
            self._inner.prepare()

    def apply(self, logits: NDArray[np.float32]) -> None:
        if self._inner is not None:
            self._inner.apply(logits)
        if self._left > 0:
            logits[self._ends] = -np.inf

    def allowed_bits(self) -> NDArray[np.uint8] | None:
        bits = None if self._inner is None else self._inner.allowed_bits()
        if self._left <= 0:
            return bits
        size = self._asked.n_tokens
        allowed = np.ones(size, np.uint8) if bits is None else np.unpackbits(bits, bitorder="little")[:size]
        allowed[self._ends] = 0
        return np.packbits(allowed, bitorder="little")

    def accept(self, token: int) -> None:
        self._left -= 1
        if self._inner is not None:
            self._inner.accept(token)

    def forced(self) -> list[int]:
        return [] if self._inner is None else self._inner.forced()

    @property
    def finished(self) -> bool:
        return self._inner is not None and self._inner.finished


def at_least(
    inner: CarriedConstraint | None, tokens: int, ends: Iterable[int], n_tokens: int
) -> CarriedConstraint | None:
    """Return what keeps an answer from ending before so many tokens; `inner` itself where that is none."""
    return AtLeast(tokens, tuple(sorted(set(ends))), n_tokens, inner) if tokens else inner
