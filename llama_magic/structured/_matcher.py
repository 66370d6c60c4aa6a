"""One running sequence under a grammar: masks applied to logits in place."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from llama_magic.errors import BackendError
from llama_magic.structured._vocab import Trie

_NEG_INF = np.float32(-np.inf)
_FULL = np.uint32(0xFFFFFFFF)
_BITS = np.arange(32, dtype=np.uint32)
_CHUNK = 32_768  # tokens
# (256, 8) float32: for a byte of the mask, +inf where its token is allowed, -inf where not.
# A minimum with it costs the same for any mask; writing -inf by index costs up to 20 times more.
_CEILINGS = np.where(np.arange(256)[:, None] >> np.arange(8) & 1, np.inf, -np.inf).astype(np.float32)
_local = threading.local()


def _scratch() -> npt.NDArray[np.float32]:
    buffer: npt.NDArray[np.float32] | None = getattr(_local, "buffer", None)
    if buffer is None:
        buffer = _local.buffer = np.empty((_CHUNK // 8, 8), dtype=np.float32)
    return buffer


class Matcher:
    """The state of one answer. Not for two threads at once; `prepare` may run in a worker.

    The order of one step is `prepare` (optional), `apply`, sample, `accept`. Costs, at 49k and
    262k tokens: see benchmarks/bench_masks.py.
    """

    def __init__(self, machine: Any, trie: Trie) -> None:
        self._machine = machine
        self._n_tokens = trie.n_tokens
        self._ends = frozenset(trie.ends)
        self._holes = trie.holes
        self._words = np.zeros((trie.n_tokens + 31) // 32, dtype=np.uint32)
        self._address = self._words.ctypes.data
        self._tail = np.uint32((1 << (trie.n_tokens % 32)) - 1) if trie.n_tokens % 32 else _FULL
        self._ready = False
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
        if self._ready:
            return
        if self.finished:
            self._words.fill(0)
            for token in self._ends:
                self._words[token >> 5] |= np.uint32(1 << (token & 31))
        else:
            self._machine.unsafe_compute_mask_ptr(self._address, self._words.nbytes)
            self._raise_on_error()
        self._words[-1] &= self._tail
        self._ready = True

    def apply(self, logits: npt.NDArray[np.float32]) -> None:
        """Set the logits of forbidden tokens to -inf, in place. `logits`: (n_vocab,) float32."""
        self.prepare()
        some = np.flatnonzero(self._words)
        if some.size * 8 < self._words.size:  # few tokens allowed: keep theirs, forbid the rest
            allowed = _positions(some, self._words[some])
            kept = logits[allowed]
            logits.fill(_NEG_INF)
            logits[allowed] = kept
            return
        holes = self._holes.find(self._words)
        if holes is not None:
            logits[holes] = _NEG_INF
            logits[self._n_tokens :] = _NEG_INF
            return
        count = self._n_tokens
        octets = self._words.view(np.uint8)
        scratch = _scratch()
        for start in range(0, count, _CHUNK):  # in pieces that stay in the cache
            row = logits[start : min(start + _CHUNK, count)]
            part = octets[start // 8 : (start + row.size + 7) // 8]
            ceilings = scratch[: part.size]
            np.take(_CEILINGS, part, axis=0, out=ceilings, mode="clip")
            np.minimum(row, ceilings.reshape(-1)[: row.size], out=row)
        logits[count:] = _NEG_INF

    def allowed(self) -> npt.NDArray[np.intp]:
        """Return the ids of the tokens that may come next, ascending."""
        self.prepare()
        some = np.flatnonzero(self._words)
        return np.sort(_positions(some, self._words[some]))

    def outside_mass(self, logits: npt.NDArray[np.float32]) -> float:
        """Return the probability (0 to 1) that the model gave to forbidden tokens; logits unmasked."""
        weights = np.exp(logits[: self._n_tokens] - logits.max(), dtype=np.float32)
        inside = float(weights[self.allowed()].sum(dtype=np.float64))
        return min(1.0, max(0.0, 1.0 - inside / float(weights.sum(dtype=np.float64))))

    allowed_mass = outside_mass  # the name that the engine's interface gave it

    def accept(self, token: int) -> None:
        """Take a token that was chosen. One that the grammar refuses raises `BackendError`."""
        if token in self._ends and self.can_stop:
            self._ended = True
        elif self._ended or not self._machine.consume_token(int(token)):
            raise BackendError(
                f"Token {token} was chosen though the grammar refuses it here.",
                remedy="Apply the mask before sampling, and accept each token once.",
            )
        self._ready = False

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


def _positions(indices: npt.NDArray[np.intp], words: npt.NDArray[np.uint32]) -> npt.NDArray[np.intp]:
    """Return the positions of the set bits of some words of a bit mask."""
    bits = (words[:, None] >> _BITS) & np.uint32(1)
    rows, columns = np.nonzero(bits)
    return indices[rows] * 32 + columns
