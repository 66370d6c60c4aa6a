"""Embeddings: one vector a text, from a context of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from llama_magic.engine.side import cuts, side_context, side_reader, tokens_within
from llama_magic.errors import OptionError
from llama_magic.threads import look

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from llama_magic.engine.core import Core
    from llama_magic.engine.engine import Engine
    from llama_magic.engine.native import Context, ContextOptions
    from llama_magic.gguf import GGUFInfo

PURPOSE = "embedding"
_NONE, _MEAN, _FIRST, _LAST, _RANK = range(5)  # LLAMA_POOLING_TYPE_NONE, _MEAN, _CLS, _LAST, _RANK


def embed(
    engine: Engine,
    info: GGUFInfo,
    window: int,
    texts: Sequence[str | Sequence[int]],
    put: Callable[[Sequence[NDArray[np.float32]]], None],
) -> None:
    """Make a vector of each text; `put` is told of each, and of none now and then. See `Model.embed`."""
    pooling = _pooling(info)
    if pooling == _RANK:
        raise OptionError(
            f"{info.architecture} here is a reranker: it scores pairs and has no vector of a text.",
            remedy="Use an embedding model.",
        )
    if pooling not in (_NONE, _MEAN, _FIRST, _LAST):  # llama.cpp would end the process
        raise OptionError(
            f"The file names pooling {pooling}; known are 0 (none), 1 (mean), 2 (first), 3 (last token).",
            remedy="Use an embedding model; of this one generation works, vectors do not.",
        )
    batches = []
    for i, text in enumerate(texts):
        look()
        batches.append(tokens_within(engine.tokenizer, window, text, what=f"Text {i}", purpose="embed"))
        put(())
    with engine.side_job("embed texts"):
        for tokens in batches:
            put([_one(engine, info, tokens, put)])


def _pooling(info: GGUFInfo) -> int:
    """Return llama.cpp's number of the pooling; a file names one only where it was made for embeddings."""
    return int(info.metadata.get(f"{info.architecture}.pooling_type") or 0)


def _at_once(core: Core, info: GGUFInfo) -> bool:
    """Return whether a text is read in one batch: tokens see those that follow, or the first one counts."""
    causal = info.metadata.get(f"{info.architecture}.attention.causal", True)
    return core.weights.embeds or not causal or _pooling(info) == _FIRST


def _one(
    engine: Engine, info: GGUFInfo, tokens: list[int], put: Callable[[Sequence[Any]], None]
) -> NDArray[np.float32]:
    """Embed one text, piece by piece between the steps of running answers.

    llama.cpp pools each batch for itself, and holds logits of all its tokens. Where attention is causal the
    last token's vector is that of the last piece, and the mean over the text is that of the pieces' means,
    weighted by their length.
    """
    last_only = _pooling(info) == _LAST
    with side_reader(engine, PURPOSE, partial(_options, info), keep=True) as reader:
        vector: NDArray[np.float32] | float = 0.0
        start = 0
        for end in cuts(len(tokens), reader.size):
            put(())
            part = tokens[start:end]
            if last_only and end < len(tokens):
                reader.pass_over(part, start)
            else:
                share = 1.0 if last_only else len(part) / len(tokens)
                vector = vector + share * reader.read(part, start, lambda made: made.embedding(0))
            start = end
        assert not isinstance(vector, float)
        return vector


def context(core: Core, info: GGUFInfo) -> Context:
    """Return the context for embeddings, made at its first use."""
    return side_context(core, PURPOSE, partial(_options, info))


def _options(info: GGUFInfo, core: Core) -> ContextOptions:
    """Return the options of the context for embeddings; the file's own pooling, where it names one, holds."""
    n_vocab, at_once = core.weights.vocab.n_tokens, _at_once(core, info)
    return core.options.contexts.embedding(n_vocab, at_once=at_once, pooled=_pooling(info) != 0)
