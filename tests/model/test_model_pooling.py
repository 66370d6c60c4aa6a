"""Vectors of texts by the pooling that a file names, against plain llama_cpp."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import random_models
from raw_llama import raw

import llama_magic as lm
from llama_magic.errors import OptionError

WINDOW = 1024
LENGTHS = (1, 5, 63, 64, 65, 191, 192, 255, 256, 300, 900)
_FACTS = {
    "none": {},
    "mean": {"pooling_type": 1},
    "first": {"pooling_type": 2},
    "last": {"pooling_type": 3},
    "last, both directions": {"pooling_type": 3, "attention.causal": False},
    "mean, both directions": {"pooling_type": 1, "attention.causal": False},
}


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what writes a decoder whose file names a pooling, as those of Qwen3-Embedding do."""
    folder = tmp_path_factory.mktemp("pooling")
    tensors = gguf.GGUFReader(random_models.build(folder, ["llama"])["llama"]).tensors
    shapes = {tensor.name: [int(n) for n in tensor.shape] for tensor in tensors}

    def writes(name: str) -> Path:
        path = folder / "pooled.gguf"
        random_models.write(path, "llama", shapes, **_FACTS[name])
        return path

    return writes


@pytest.mark.parametrize("name", _FACTS)
def test_a_text_has_the_vector_of_the_whole(name: str, write: Callable[[str], Path]) -> None:
    """However long: read in pieces where attention is causal, and the same for texts in any order."""
    path = write(name)
    texts = [[3 + (7 * i + length) % 250 for i in range(length)] for length in LENGTHS]
    batch: dict[str, Any] = dict.fromkeys(("n_batch", "n_ubatch", "n_outputs_max"), WINDOW)
    if name == "none":
        batch["pooling_type"] = 1  # the mean is ours where a file names nothing
    with lm.load(path, ctx=WINDOW, threads=1) as model, raw(path, WINDOW, embeddings=True, **batch) as plain:
        rows = model.embed(texts)
        again = model.embed(texts[-2::-1])[::-1]
        whole = np.stack([plain.embed(text) for text in texts])
    assert np.array_equal(rows[:-1], again)
    # A last token is read as it is in the whole text; a mean is put together from those of the pieces.
    np.testing.assert_allclose(rows, whole, atol=1e-7 if name.startswith(("first", "last")) else 2e-6)


@pytest.mark.parametrize("name", ["last", "mean, both directions"])
def test_a_text_is_read_for_few_outputs_where_the_last_token_tells(
    name: str, write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 900 tokens at most 191 had logits at once; where tokens see what follows, all of them."""
    from llama_magic.engine.native import Context

    seen: list[int] = []
    decode = Context.decode

    def watch(self: Context, tokens: Any, positions: Any, sequences: Any, outputs: Any) -> Any:
        if self.options.embeddings:
            seen.append(len(outputs))
        return decode(self, tokens, positions, sequences, outputs)

    monkeypatch.setattr(Context, "decode", watch)
    with lm.load(write(name), ctx=WINDOW, threads=1) as model:
        model.embed([[5] * 900])
    assert seen[:-1] == ([0] * (len(seen) - 1))
    assert seen[-1] <= 191 if name == "last" else seen == [900]


@pytest.mark.parametrize("pooling", [5, 2**31, 2**32 - 2, 2**32 - 1])
def test_a_pooling_that_nobody_knows_is_refused(
    pooling: int, write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its number, before llama.cpp ends the process; the model writes on."""
    monkeypatch.setitem(_FACTS, "odd", {"pooling_type": pooling})
    with lm.load(write("odd"), ctx=WINDOW, threads=1) as model:
        with pytest.raises(OptionError, match=f"The file names pooling {pooling}; known are 0"):
            model.embed("a text")
        assert len(model.complete("a", max_tokens=3, ignore_eos=True).token_ids) == 3
