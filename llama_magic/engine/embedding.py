"""Embeddings: one vector a text, from a context of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from llama_magic.engine.side import side_context, side_reader, tokens_within
from llama_magic.errors import OptionError
from llama_magic.request.vectors import as_texts, unit_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from llama_magic.engine.core import Core
    from llama_magic.engine.engine import Engine
    from llama_magic.engine.native import Context, ContextOptions
    from llama_magic.gguf import GGUFInfo

PURPOSE = "embedding"
_RANK = 4  # LLAMA_POOLING_TYPE_RANK


def embed(
    engine: Engine,
    info: GGUFInfo,
    window: int,
    texts: str | Sequence[str | Sequence[int]],
    *,
    normalize: bool,
) -> NDArray[np.float32]:
    """Return (len(texts), n_embd) float32; see `Model.embed`."""
    import numpy as np

    wanted = as_texts(texts, tokens=True)
    pooling = _pooling(info)
    if pooling == _RANK:
        raise OptionError(
            f"{info.architecture} here is a reranker: it scores pairs and has no vector of a text.",
            remedy="Use an embedding model.",
        )
    batches = [
        tokens_within(engine.tokenizer, window, text, what=f"Text {i}", purpose="embed")
        for i, text in enumerate(wanted)
    ]
    with engine.side_job("embed texts"):
        rows = [_one(engine, info, tokens) for tokens in batches]
    matrix = np.stack(rows) if rows else np.zeros((0, info.embedding_length), np.float32)
    return unit_rows(matrix) if normalize else matrix


def _pooling(info: GGUFInfo) -> int:
    """Return llama.cpp's number of the pooling; a file names one only where it was made for embeddings."""
    return int(info.metadata.get(f"{info.architecture}.pooling_type") or 0)


def _one(engine: Engine, info: GGUFInfo, tokens: list[int]) -> NDArray[np.float32]:
    """Embed one text, piece by piece between the steps of running answers.

    A model without a pooling of its own is read in pieces whose means are averaged by their
    length: attention is causal, so that is the mean over the whole text. (llama.cpp pools
    each micro-batch for itself, and holds logits for all of its tokens.)
    """
    with side_reader(engine, PURPOSE, partial(_options, info), keep=True) as reader:
        whole: NDArray[np.float32] | float = 0.0
        for start in range(0, len(tokens), reader.size):
            part = tokens[start : start + reader.size]
            vector = reader.read(part, start, lambda made: made.embedding(0))
            whole = whole + vector * (len(part) / len(tokens))
        assert not isinstance(whole, float)
        return whole


def context(core: Core, info: GGUFInfo) -> Context:
    """Return the context for embeddings, made at its first use."""
    return side_context(core, PURPOSE, partial(_options, info))


def _options(info: GGUFInfo, core: Core) -> ContextOptions:
    """A text that is pooled by the file's own rule, or read in both directions, is read in one batch."""
    pooled = bool(_pooling(info))
    return core.options.contexts.embedding(whole=pooled or core.weights.embeds, pooled=pooled)
