"""A text read through once: how likely the model found each token, and what it expected instead.

Nothing is generated. The text is read in chunks in a context of its own, only as long as the
text; a chunk's logits become five numbers a token before the next chunk is read, so memory
does not grow with the text (`logits_all` would take 4 * tokens * vocabulary bytes).
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_magic.engine.native import Context, DecodeStatus
from llama_magic.errors import (
    BackendError,
    ContextOverflowError,
    GenerationInterrupted,
    InputTypeError,
    ModelClosedError,
    OptionError,
)
from llama_magic.microscope.tokens import piece_text
from llama_magic.request.tokenizer import TooManyTokensError
from llama_magic.words.counting import counted
from llama_magic.words.shown import Printed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llama_magic.engine.core import Core
    from llama_magic.engine.engine import Engine
    from llama_magic.request.tokenizer import Tokenizer

EXPECTED = 5
_LOGIT_BYTES = 64 * 2**20  # a chunk's logits; at least 64 tokens are read at once
_BLOCK = 8  # rows of logits worked on at a time: temporaries stay small
# llama.cpp's attention rounds differently below 64 tokens, so no chunk is shorter unless the text is.
_CUT = 64
# An interrupt loses one chunk. More tokens were read no faster: 8.5 s of CPU for 1,301 with 128, 256, 512.
_CHUNK = 128
_numbers = itertools.count(1)


@dataclass(frozen=True)
class ReadToken:
    """One token of a text, and what the model knew before it.

    `logprob` is natural-log, `rank` counts from 1, `entropy` is in bits, `expected` holds the
    five likeliest (text, probability) pairs. All are None (and `expected` empty) for the first
    token, which nothing comes before.
    """

    id: int
    text: str
    logprob: float | None
    rank: int | None
    entropy: float | None
    expected: tuple[tuple[str, float], ...] = ()

    @property
    def bits(self) -> float | None:
        """Surprise: -log2 of the probability."""
        return None if self.logprob is None else max(0.0, -self.logprob / math.log(2))


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
        return math.exp(-self.logprob / len(self.known)) if self.known else math.nan

    @property
    def bits_per_byte(self) -> float:
        """Bits of surprise for a byte of text; comparable between models with different tokenizers."""
        size = len(self.text.encode("utf-8", "replace"))
        return -self.logprob / math.log(2) / size if size else math.nan

    def to_pandas(self) -> Any:
        """Return one row a token: id, text, logprob, rank, entropy, expected, bits."""
        import pandas

        return pandas.DataFrame([asdict(token) | {"bits": token.bits} for token in self.tokens])


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


def _block(logits: NDArray[np.float32], targets: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
    rows = np.arange(len(targets))
    shifted = logits - logits.max(axis=1, keepdims=True)
    weights = np.exp(shifted)
    total = weights.sum(axis=1, dtype=np.float64)
    log_total = np.log(total)
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
    ids = _tokens(tokenizer, window, text)
    assert isinstance(text, str)
    first = ReadToken(ids[0], piece_text(tokenizer, ids[0]), None, None, None)
    tokens = [first]
    try:
        with _context(engine, len(ids)) as context:
            start = 0
            for end in _cuts(len(ids), context.n_batch - _CUT + 1):
                targets = ids[start + 1 : end + 1]
                part = _Job(context, ids[start:end], start, targets)
                result = engine.call(part) if targets else None
                if result is not None:
                    tokens += _read_tokens(tokenizer, targets, result)
                start = end
    except KeyboardInterrupt:
        raise _interrupted(tokenizer, text, ids, tokens, model) from None
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
        piece = tokenizer.piece(token.id)
        if not data.startswith(piece, position) and piece[:1] == b" ":
            piece = piece[1:]  # the space that SPM vocabularies put in front
        if data.startswith(piece, position):  # BOS does not stand in the text
            position += len(piece)
    part = data[:position].decode("utf-8", "ignore")
    return GenerationInterrupted(ReadThrough(part, tuple(tokens), model, interrupted=True), words)


def _tokens(tokenizer: Tokenizer, window: int, text: object) -> list[int]:
    if not isinstance(text, str):
        raise InputTypeError(f"The text is a {type(text).__name__}; expected a str.")
    try:
        ids = tokenizer.encode(text, most=window)
        count, said = len(ids), f"{len(ids):,}"
    except TooManyTokensError as many:
        ids, count, said = [0], many.least, f"at least {many.least:,}"
    if not text or not ids:
        raise OptionError("The text is empty, so there is nothing to read.", remedy="Write some text.")
    if count > window:
        raise ContextOverflowError(
            f"The text has {said} tokens, but the context window holds {window:,}: "
            f"{count - window:,} too many.",
            prompt_tokens=count,
            max_tokens=0,
            window=window,
            parts=(("text", count),),
            remedy="Read it in shorter parts, or load the model with a larger --ctx.",
        )
    return ids


def _cuts(length: int, chunk: int) -> Iterator[int]:
    """Yield where chunks end: every `chunk` tokens, a short rest joined to the chunk before it."""
    end = chunk
    while length - end >= _CUT:
        yield end
        end += chunk
    yield length


@contextlib.contextmanager
def _context(engine: Engine, length: int) -> Iterator[Context]:
    """Make a context for `length` tokens, and free it at the end; an interrupt stops what it computes.

    llama.cpp cannot be stopped while it makes one. That is done on the compute thread, and nobody waits
    for it, nor for its end, after an interrupt: the freeing is queued behind it.
    """

    def make(core: Core) -> Context:
        core.weights.must_generate()
        row = 4 * core.weights.vocab.n_tokens
        chunk = max(_CUT, min(_CHUNK, _LOGIT_BYTES // row) // _CUT * _CUT)
        size = chunk + _CUT - 1
        cells = -(-max(length, size) // 256) * 256
        options = replace(
            core.options.context, cells=cells, sequences=1, batch=size, ubatch=size, outputs=min(size, length)
        )
        return Context(core.weights, options)

    name = f"reading {next(_numbers)}"
    made: list[Context] = []

    def begin(core: Core) -> None:
        made.append(make(core))
        core.side[name] = made[0]  # a model that is closed meanwhile frees it

    def end(core: Core) -> None:
        if name in core.side:
            core.side.pop(name).close()

    try:
        engine.call(begin)
        yield made[0]
        with contextlib.suppress(ModelClosedError):
            engine.call(end)
    except BaseException:
        for context in made:
            context.abort()
        engine.later(end)
        raise


@dataclass(frozen=True)
class _Job:
    """Read one chunk on the compute thread, between two steps of running answers."""

    context: Context
    tokens: list[int]
    start: int
    targets: list[int]

    def __call__(self, core: Core) -> Reading:
        n = len(self.tokens)
        status = self.context.decode(self.tokens, range(self.start, self.start + n), [0] * n, range(n))
        if status is not DecodeStatus.DONE:
            raise BackendError(
                f"llama.cpp could not read the text ({status.name.lower().replace('_', ' ')})."
            )
        logits = self.context.all_logits(n)[: len(self.targets)]
        return measure(logits, np.asarray(self.targets, dtype=np.int64))


def _read_tokens(tokenizer: Tokenizer, ids: list[int], r: Reading) -> Iterator[ReadToken]:
    for i, token in enumerate(ids):
        likely = zip(r.best[i], np.exp(r.best_logprob[i]), strict=True)
        expected = tuple((piece_text(tokenizer, int(t)), float(p)) for t, p in likely)
        yield ReadToken(
            token,
            piece_text(tokenizer, token),
            float(r.logprob[i]),
            int(r.rank[i]),
            float(r.entropy_bits[i]),
            expected,
        )
