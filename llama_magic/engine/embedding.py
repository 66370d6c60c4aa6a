"""Embeddings: one vector a text, from a context of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from llama_magic.engine.native import DecodeStatus
from llama_magic.errors import BackendError, ContextOverflowError, InputTypeError, OptionError
from llama_magic.request.tokenizer import TooManyTokensError
from llama_magic.threads import Latch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from llama_magic.engine.engine import Core, Engine
    from llama_magic.engine.native import Context
    from llama_magic.gguf import GGUFInfo
    from llama_magic.request.tokenizer import Tokenizer

_PIECE = 256  # tokens read at once
_PURPOSE = "embedding"
_RANK = 4  # LLAMA_POOLING_TYPE_RANK


def embed(
    engine: Engine, info: GGUFInfo, window: int, texts: str | Sequence[str], *, normalize: bool
) -> NDArray[np.float32]:
    """Return (len(texts), n_embd) float32; see `Model.embed`."""
    import numpy as np

    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, (list, tuple)):
        raise InputTypeError(f"The texts are a {type(texts).__name__}; expected a str or a list of str.")
    pooling = _pooling(info)
    if pooling == _RANK:
        raise OptionError(
            f"{info.architecture} here is a reranker: it scores pairs and has no vector of a text.",
            remedy="Use an embedding model.",
        )
    batches = [_tokens(engine.tokenizer, window, i, text) for i, text in enumerate(texts)]
    with engine.side_job("embed texts"):
        rows = [_one(engine, info, tokens) for tokens in batches]
    matrix = np.stack(rows) if rows else np.zeros((0, info.embedding_length), np.float32)
    if normalize:
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        matrix /= np.where(lengths > 0, lengths, 1)
    return matrix


def _tokens(tokenizer: Tokenizer, window: int, index: int, text: object) -> list[int]:
    if not isinstance(text, str):
        raise InputTypeError(f"Text {index} is a {type(text).__name__}; expected a str.")
    try:
        tokens = tokenizer.encode(text, most=window)
        count, said = len(tokens), f"{len(tokens):,}"
    except TooManyTokensError as many:
        tokens, count, said = [0], many.least, f"at least {many.least:,}"
    if not tokens or not text:
        raise OptionError(f"Text {index} is empty, so there is nothing to embed.", remedy="Leave it out.")
    if count > window:
        raise ContextOverflowError(
            f"Text {index} has {said} tokens, but the window holds {window:,}.",
            prompt_tokens=count,
            max_tokens=0,
            window=window,
            remedy="Cut it into shorter texts, or load the model with a larger --ctx.",
        )
    return tokens


def _pooling(info: GGUFInfo) -> int:
    """Return llama.cpp's number of the pooling; a file names one only where it was made for embeddings."""
    return int(info.metadata.get(f"{info.architecture}.pooling_type") or 0)


def _one(engine: Engine, info: GGUFInfo, tokens: list[int]) -> NDArray[np.float32]:
    """Embed one text, piece by piece between the steps of running answers.

    A model without a pooling of its own is read in pieces whose means are averaged by their
    length: attention is causal, so that is the mean over the whole text. (llama.cpp pools
    each micro-batch for itself, and holds logits for all of its tokens.)
    """
    stopped = Latch()

    def piece(core: Core, start: int, size: int) -> NDArray[np.float32]:
        made = context(core, info)
        made.clear_abort()
        if start == 0:
            made.clear()
        part = tokens[start : start + size]
        n = len(part)
        if (
            stopped.is_set()
            or made.decode(part, range(start, start + n), [0] * n, range(n)) is not DecodeStatus.DONE
        ):
            raise BackendError("The embedding was interrupted.")
        return made.embedding(0) * (n / len(tokens))

    try:
        size = engine.call(lambda core: context(core, info).n_batch)
        starts = range(0, len(tokens), size)
        return sum(engine.call(partial(piece, start=start, size=size)) for start in starts)  # type: ignore[return-value]
    except BaseException:
        stopped.set()
        engine.abort(_PURPOSE)
        raise


def context(core: Core, info: GGUFInfo) -> Context:
    """Return the context for embeddings, made at its first use.

    A text that is pooled by the file's own rule, or read in both directions, is read in one batch.
    """
    from llama_magic.engine.native import Context

    made = core.extras.get(_PURPOSE)
    if made is None:
        options, named = core.options.context, _pooling(info)
        size = options.cells if named or core.weights.embeds else min(_PIECE, options.cells)
        options = replace(options, sequences=1, batch=size, ubatch=size, outputs=size)
        options = replace(options, embeddings=True, pooling=None if named else "mean")
        made = Context(core.weights, options)
        core.extras[_PURPOSE] = made
    return made
