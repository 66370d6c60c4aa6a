"""A text read through once: how likely the model found each token, and what it expected instead.

Nothing is generated. The text is read in chunks in a context of its own, only as long as the
text; a chunk's logits become five numbers a token before the next chunk is read, so memory
does not grow with the text (`logits_all` would take 4 * tokens * vocabulary bytes).
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_magic.engine.lanes.logits import unusable
from llama_magic.engine.side import cuts, side_reader, tokens_within
from llama_magic.errors import GenerationInterrupted, InputTypeError
from llama_magic.microscope.tokens import piece_text
from llama_magic.request.tokenizer import length_in
from llama_magic.threads import keep
from llama_magic.words.counting import counted
from llama_magic.words.shown import Printed
from llama_magic.words.tables import data_frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llama_magic.engine.core import Core
    from llama_magic.engine.engine import Engine
    from llama_magic.engine.native import Context, ContextOptions
    from llama_magic.request.backend import Reads
    from llama_magic.request.tokenizer import Tokenizer

EXPECTED = 5
_BLOCK = 8  # rows of logits worked on at a time: temporaries stay small
_numbers = itertools.count(1)


@dataclass(frozen=True)
class ReadToken:
    """One token of a text, and what the model knew before it.

    `logprob` is natural-log, `rank` counts from 1, `entropy` is in bits, `expected` holds the
    five likeliest (text, probability) pairs. All are None (and `expected` empty) for the first
    token, which nothing comes before. `bytes` are exact, where `text` shows parts of a character as `<0xE2>`.
    """

    id: int
    text: str
    logprob: float | None
    rank: int | None
    entropy: float | None
    expected: tuple[tuple[str, float], ...] = ()
    bytes: bytes = b""

    @property
    def bits(self) -> float | None:
        """Surprise: -log2 of the probability."""
        return None if self.logprob is None else max(0.0, -self.logprob / math.log(2))


_LARGEST = math.log(sys.float_info.max)


@dataclass(frozen=True)
class ReadThrough(Printed):
    """A text, token by token. `model` names who read it.

    Of an `interrupted` one, `text` and `tokens` are what was read until then.
    """

    text: str
    tokens: tuple[ReadToken, ...]
    model: str = ""
    interrupted: bool = False

    @property
    def known(self) -> tuple[ReadToken, ...]:
        """The tokens that something comes before."""
        return tuple(token for token in self.tokens if token.logprob is not None)

    @property
    def logprob(self) -> float:
        """The natural-log probability of the text, given its first token."""
        return sum(token.logprob or 0.0 for token in self.known)

    @property
    def perplexity(self) -> float:
        """Exp of the mean surprise: as unsure as among so many equally likely tokens. NaN for one token."""
        mean = -self.logprob / len(self.known) if self.known else math.nan
        return math.inf if mean > _LARGEST else math.exp(mean)

    @property
    def bits_per_byte(self) -> float:
        """Bits of surprise for a byte of text; comparable between models with different tokenizers."""
        size = len(self.text.encode("utf-8", "replace"))
        return -self.logprob / math.log(2) / size if size else math.nan

    def to_pandas(self) -> Any:
        """Return one row a token: id, text, logprob, rank, entropy, expected, bytes, bits."""
        return data_frame([asdict(token) | {"bits": token.bits} for token in self.tokens])


@dataclass(frozen=True)
class Reading:
    """Measured from logits, for n tokens: all arrays are (n,), `best` and `best_logprob` (n, EXPECTED)."""

    logprob: NDArray[np.float64]
    rank: NDArray[np.int64]
    entropy_bits: NDArray[np.float64]
    best: NDArray[np.int64]
    best_logprob: NDArray[np.float64]


def measure(logits: NDArray[np.float32], targets: NDArray[np.int64]) -> Reading:
    """Say what (n, n_vocab) logits make of the tokens (n,) that did come next. Works in blocks of rows."""
    parts = [_block(logits[i : i + _BLOCK], targets[i : i + _BLOCK]) for i in range(0, len(targets), _BLOCK)]
    return Reading(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


@np.errstate(over="ignore", invalid="ignore")  # what comes of numbers that are none is looked at below
def _block(logits: NDArray[np.float32], targets: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
    rows = np.arange(len(targets))
    shifted = logits - logits.max(axis=1, keepdims=True)
    weights = np.exp(shifted)
    total = weights.sum(axis=1, dtype=np.float64)
    log_total = np.log(total)
    if not np.isfinite(log_total).all():
        raise unusable(float(log_total[~np.isfinite(log_total)][0]))
    spread = np.einsum("ij,ij->i", weights, np.maximum(shifted, np.float32(-1e4)), dtype=np.float64)
    own = shifted[rows, targets]
    k = min(EXPECTED, logits.shape[1])
    best = np.argpartition(shifted, -k, axis=1)[:, -k:]
    # Ties go to the smaller id, so that the order does not depend on the partition.
    order = np.lexsort((best, -np.take_along_axis(shifted, best, 1)))
    best = np.take_along_axis(best, order, 1)
    return (
        own.astype(np.float64) - log_total,
        (shifted > own[:, None]).sum(axis=1) + 1,
        np.maximum(0.0, (log_total - spread / total) / math.log(2)),
        best,
        np.take_along_axis(shifted, best, 1).astype(np.float64) - log_total[:, None],
    )


def read(engine: Engine, tokenizer: Tokenizer, window: int, model: str, text: object) -> ReadThrough:
    """Read a text through; see `Model.read`."""
    if not isinstance(text, str):
        raise InputTypeError(f"The text is a {type(text).__name__}; expected a str.")
    ids = tokens_within(tokenizer, window, text, what="The text", purpose="read")
    tokens = [_token(tokenizer, ids[0])]
    keep(lambda: _interrupted(tokenizer, text, ids, list(tokens), model))
    try:
        with side_reader(engine, f"reading {next(_numbers)}", partial(_options, len(ids))) as reader:
            start = 0
            for end in cuts(len(ids), reader.size):
                targets = ids[start + 1 : end + 1]
                if targets:
                    measured = partial(_measured, targets, end - start)
                    result = reader.read(ids[start:end], start, measured)
                    tokens += list(_read_tokens(tokenizer, targets, result))  # all of it, or none
                start = end
    except KeyboardInterrupt:
        raise _interrupted(tokenizer, text, ids, tokens, model) from None
    return ReadThrough(text, tuple(tokens), model)


def read_elsewhere(source: Reads, tokenizer: Tokenizer, window: int, model: str, text: object) -> ReadThrough:
    """Return what a source that reads by itself says of a text; it does not tell the entropy."""
    ids = tokens_within(tokenizer, window, text, what="The text", purpose="read")
    assert isinstance(text, str)
    told = source.read(ids)
    tokens = [_token(tokenizer, ids[0])]
    for token, (logprob, rank, likely) in zip(ids[1:], told, strict=True):
        tokens.append(_token(tokenizer, token, logprob, rank, None, tuple(likely)))
    return ReadThrough(text, tuple(tokens), model)


def _interrupted(
    tokenizer: Tokenizer, text: str, ids: list[int], tokens: list[ReadToken], model: str
) -> GenerationInterrupted:
    """Return what to raise for a reading that was stopped: it holds the tokens read so far."""
    words = f"{len(tokens):,} of {counted(len(ids), 'token')} were read, and are kept"
    if len(tokens) == 1:
        words = f"none of {counted(len(ids), 'token')} was measured yet"
    data = text.encode("utf-8", "replace")
    position = 0
    for token in tokens:
        position += length_in(data, tokenizer.piece(token.id), position) or 0  # BOS does not stand there
    part = data[:position].decode("utf-8", "ignore")
    return GenerationInterrupted(ReadThrough(part, tuple(tokens), model, interrupted=True), words)


def _options(length: int, core: Core) -> ContextOptions:
    core.weights.must_generate()
    return core.options.contexts.reading(length, core.weights.vocab.n_tokens)


def _measured(targets: list[int], n: int, context: Context) -> Reading:
    """Measure a chunk of `n` tokens that was just read."""
    return measure(context.all_logits(n)[: len(targets)], np.asarray(targets, dtype=np.int64))


def _read_tokens(tokenizer: Tokenizer, ids: list[int], r: Reading) -> Iterator[ReadToken]:
    for i, token in enumerate(ids):
        likely = zip(r.best[i], np.exp(r.best_logprob[i]), strict=True)
        expected = tuple((piece_text(tokenizer, int(t)), float(p)) for t, p in likely)
        found = float(r.logprob[i]), int(r.rank[i]), float(r.entropy_bits[i])
        yield _token(tokenizer, token, *found, expected)


def _token(
    tokenizer: Tokenizer,
    token: int,
    logprob: float | None = None,
    rank: int | None = None,
    entropy: float | None = None,
    expected: tuple[tuple[str, float], ...] = (),
) -> ReadToken:
    text, data = piece_text(tokenizer, token), tokenizer.piece(token)
    return ReadToken(token, text, logprob, rank, entropy, expected, data)
