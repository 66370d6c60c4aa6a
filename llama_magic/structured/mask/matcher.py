"""One running sequence under a grammar: masks applied to logits in place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from llama_magic.errors import BackendError
from llama_magic.structured.mask.digits import Digits
from llama_magic.structured.mask.vocab import Trie

_NEG_INF = np.float32(-np.inf)
_FULL = np.uint32(0xFFFFFFFF)
_BITS = np.arange(32, dtype=np.uint32)
# (256, 8) float32: for a byte of the mask, +inf where its token is allowed, -inf where not.
# A minimum with it costs the same for any mask; writing -inf by index costs up to 20 times more.
_CEILINGS = np.where(np.arange(256)[:, None] >> np.arange(8) & 1, np.inf, -np.inf).astype(np.float32)


class GrammarMatcher:
    """The state of one answer. Not for two threads at once; `prepare` may run in a worker.

    The order of one step is `prepare` (optional), `apply`, sample, `accept`. What depends on the
    grammar alone is done by `prepare`, so that little is left between a decode and the draw. Costs,
    at 49k and 262k tokens: see benchmarks/bench_masks.py.
    """

    def __init__(self, machine: Any, trie: Trie, digits: Digits | None = None) -> None:
        self._machine = machine
        self._digits = digits  # of JSON: bounds the numbers that are written
        self._trie = trie
        self._n_tokens = trie.n_tokens
        self._ends = frozenset(trie.ends)
        self._holes = trie.holes
        self._words = np.zeros((trie.n_tokens + 31) // 32, dtype=np.uint32)
        self._address = self._words.ctypes.data
        self._tail = np.uint32((1 << (trie.n_tokens % 32)) - 1) if trie.n_tokens % 32 else _FULL
        self._write: Callable[[npt.NDArray[np.float32]], None] | None = None  # None: not prepared
        self._ceilings = np.empty((0, 8), dtype=np.float32)
        self._ended = False

    @property
    def finished(self) -> bool:
        """Whether nothing more can be said: the text is complete and no byte may follow."""
        return self._ended or bool(self._machine.is_stopped())

    @property
    def can_stop(self) -> bool:
        """Whether the text so far is a whole answer for the grammar."""
        return self._ended or bool(self._machine.is_accepting())

    def prepare(self) -> None:
        """Compute the mask of the current state; the GIL is released meanwhile."""
        if self._write is not None:
            return
        if self.finished:
            self._words.fill(0)
            for token in self._ends:
                self._words[token >> 5] |= np.uint32(1 << (token & 31))
        else:
            self._machine.unsafe_compute_mask_ptr(self._address, self._words.nbytes)
            self._raise_on_error()
            if self._digits is not None and self._digits.full:
                self._end_number()
        self._words[-1] &= self._tail
        self._write = self._writer()

    def _end_number(self) -> None:
        """Forbid to go on with a number that has all its digits, unless nothing else can follow."""
        others = self._words & ~self._trie.of_number
        if others.any():
            self._words[:] = others

    def _writer(self) -> Callable[[npt.NDArray[np.float32]], None]:
        """Return the cheapest way to write the mask into a row of logits."""
        some = np.flatnonzero(self._words)
        if some.size * 8 < self._words.size:
            return functools.partial(_keep, _positions(some, self._words[some]))
        holes = self._holes.find(self._words)
        if holes is not None:
            return functools.partial(_forbid, holes, self._n_tokens)
        octets = self._words.view(np.uint8)
        if not self._ceilings.size:
            self._ceilings = np.empty((octets.size, 8), dtype=np.float32)
        np.take(_CEILINGS, octets, axis=0, out=self._ceilings, mode="clip")
        return functools.partial(_cap, self._ceilings.reshape(-1)[: self._n_tokens])

    def apply(self, logits: npt.NDArray[np.float32]) -> None:
        """Set the logits of forbidden tokens to -inf, in place. `logits`: (n_vocab,) float32."""
        self.prepare()
        assert self._write is not None
        self._write(logits)

    def allowed_bits(self) -> npt.NDArray[np.uint8]:
        """Return a copy of the mask, one bit a token, the lowest bit first."""
        self.prepare()
        return self._words.view(np.uint8).copy()

    def allowed(self) -> npt.NDArray[np.intp]:
        """Return the ids of the tokens that may come next, ascending."""
        self.prepare()
        some = np.flatnonzero(self._words)
        return np.sort(_positions(some, self._words[some]))

    @np.errstate(over="ignore")
    def outside_mass(self, logits: npt.NDArray[np.float32]) -> float:
        """Return the probability (0 to 1) that the model gave to forbidden tokens; logits unmasked."""
        weights = np.exp(logits[: self._n_tokens] - logits.max(), dtype=np.float32)
        inside = float(weights[self.allowed()].sum(dtype=np.float64))
        return min(1.0, max(0.0, 1.0 - inside / float(weights.sum(dtype=np.float64))))

    def accept(self, token: int) -> None:
        """Take a token that was chosen. One that the grammar refuses raises `BackendError`."""
        if token in self._ends and self.can_stop:
            self._ended = True
        elif self._ended or not self._machine.consume_token(int(token)):
            if "satisfy the grammar" not in self._machine.get_error():
                self._raise_on_error()
            raise BackendError(
                f"Token {token} was chosen though the grammar refuses it here.",
                remedy="Apply the mask before sampling, and accept each token once.",
            )
        elif self._digits is not None:
            self._digits.feed(self._trie.plain[token])
        self._write = None

    def forced(self) -> list[int]:
        """Return the tokens that must follow (none where there is a choice); they are not accepted yet."""
        if self.finished:
            return []
        tokens = list(self._machine.compute_ff_tokens())
        self._raise_on_error()
        return tokens

    def _raise_on_error(self) -> None:
        if self._machine.is_error():
            raise BackendError(
                f"The grammar cannot go on: {self._machine.get_error().splitlines()[0]:.300}",
                remedy="Simplify the schema or the grammar; its state grew over a stated limit.",
            )


def _keep(allowed: npt.NDArray[np.intp], logits: npt.NDArray[np.float32]) -> None:
    kept = logits[allowed]
    logits.fill(_NEG_INF)
    logits[allowed] = kept


def _forbid(forbidden: npt.NDArray[np.intp], count: int, logits: npt.NDArray[np.float32]) -> None:
    logits[forbidden] = _NEG_INF
    logits[count:] = _NEG_INF


def _cap(ceilings: npt.NDArray[np.float32], logits: npt.NDArray[np.float32]) -> None:
    row = logits[: ceilings.size]
    np.minimum(row, ceilings, out=row)
    logits[ceilings.size :] = _NEG_INF


def _positions(indices: npt.NDArray[np.intp], words: npt.NDArray[np.uint32]) -> npt.NDArray[np.intp]:
    """Return the positions of the set bits of some words of a bit mask."""
    bits = (words[:, None] >> _BITS) & np.uint32(1)
    rows, columns = np.nonzero(bits)
    return indices[rows] * 32 + columns
