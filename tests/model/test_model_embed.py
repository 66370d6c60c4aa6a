"""Embeddings, against the raw C API."""

from __future__ import annotations

import asyncio
import ctypes
from typing import Any

import llama_cpp
import numpy as np
import pandas
import pytest
from stand_ins import ONLY_REAL
from test_model_counts import raw_tokenize

import llama_magic as lm


def _raw_embedding(model: Any, text: str) -> np.ndarray:
    """Mean-pool with the C API alone, the whole text in one micro-batch."""
    ids = raw_tokenize(model, text)
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 512
    params.n_outputs_max = 512
    params.embeddings, params.pooling_type = True, 1
    params.n_threads = params.n_threads_batch = 1
    context = llama_cpp.llama_init_from_model(model.backend.weights.pointer, params)
    tokens = (ctypes.c_int32 * len(ids))(*ids)
    assert llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, len(ids))) == 0
    pointer = llama_cpp.llama_get_embeddings_seq(context, 0)
    row = np.ctypeslib.as_array(pointer, (model.info.embedding_length,)).copy()
    llama_cpp.llama_free(context)
    return row / np.linalg.norm(row)


def test_embeddings_are_the_mean_over_the_text(real: Any) -> None:
    """A text has the vector that llama.cpp pools at once; order does not matter. (Texts of several pieces:
    test_model_pooling.py.)
    """
    texts = ["A river.", "The king of the stone garden."]
    rows = real.embed(texts)
    assert rows.shape == (2, real.info.embedding_length)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    long = ["river stone " * 110] if ONLY_REAL else []  # 220 tokens: two pieces
    for text, row in zip(texts + long, [*rows, *(real.embed([text])[0] for text in long)], strict=True):
        assert float(row @ _raw_embedding(real, text)) > 0.9995
    assert np.array_equal(real.embed(texts[::-1])[::-1], rows)
    assert np.linalg.norm(real.embed(texts[0], normalize=False)) > 1.5


def test_texts_come_as_anything_that_gives_them_in_order(scripted: Any) -> None:
    """A column of pandas, an array, a generator: the rows are those of a list."""
    texts = ["one", "two"]
    rows = scripted.embed(texts)
    for several in (pandas.Series(texts, index=[7, 3]), np.array(texts), (text for text in texts)):
        assert np.array_equal(scripted.embed(several), rows)


def test_a_text_is_one_turn_of_a_chat(scripted: Any) -> None:
    """`chat` takes a text as one user turn, in both forms; what is kept of it is a message."""
    asked = [{"role": "user", "content": "Hi there"}]
    expected = scripted.chat(asked, max_tokens=2, seed=1)
    for answer in (
        scripted.chat("Hi there", max_tokens=2, seed=1),
        asyncio.run(scripted.achat("Hi there", max_tokens=2, seed=1)),
    ):
        assert (answer.prompt, answer.text) == (expected.prompt, expected.text)
        assert list(answer.messages[:1]) == asked


def test_texts_that_cannot_be_embedded(scripted: Any) -> None:
    """Empty texts, other types and texts over the window are refused, never cut."""
    assert scripted.embed([]).shape[0] == 0
    with pytest.raises(lm.OptionError, match="empty"):
        scripted.embed(["a", ""])
    with pytest.raises(lm.InputTypeError, match=r"Text 1 is 5; .*\n.*Leave it out"):
        scripted.embed(["a", 5])
    for unordered in ({"a": 1}, {"a"}, b"a", pandas.DataFrame({"a": ["b"]}), 5):
        with pytest.raises(lm.InputTypeError, match="a list, or a column"):
            scripted.embed(unordered)
    with pytest.raises(lm.ContextOverflowError):
        scripted.embed("a" * 1025)
