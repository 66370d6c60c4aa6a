"""The short model, which stands for a real one where only the shape of a model counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from short_model import SHORT

import llama_magic as lm


def test_it_is_smollm2_but_for_its_blocks(path_of: Callable[[str], Path]) -> None:
    """Every key of the header is SmolLM2's, tokens, merges and template too; only the blocks are fewer."""
    short, whole = (lm.inspect(path_of(name)) for name in ("short", "smollm2"))
    changed = {key for key in whole.metadata if short.metadata[key] != whole.metadata[key]}
    assert (set(short.metadata), changed) == (set(whole.metadata), {"llama.block_count"})
    assert (short.metadata["llama.block_count"], len(short.tensors)) == (3, 2 + 3 * 9)
    for name, tensor in short.tensors.items():
        number = name.split(".")[1] if name.startswith("blk.") else ""
        theirs = whole.tensors[name.replace(f".{number}.", f".{SHORT[int(number)]}.") if number else name]
        assert (tensor.shape, tensor.type) == (theirs.shape, theirs.type)


def test_what_it_writes_depends_on_all_that_came_before(short: Any) -> None:
    """Prompts that end alike and differ in their first word are answered with other words, twice the same."""
    asked = [f"{word} and the sea, the town, the hill, and so on and on:" for word in ("Rain", "Stone")]
    first, again = (
        [short.complete(text, max_tokens=12, seed=1, temperature=0).text for text in asked] for _ in "ab"
    )
    assert first == again
    assert first[0] != first[1]
