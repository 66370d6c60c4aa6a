"""Sequences of results: they are fixed, and go with the lists that people have."""

from __future__ import annotations

import json
import pickle

import pytest

from llama_magic.request.fixed import Fixed
from llama_magic.testing import scripted_model


def test_an_answers_tokens_and_messages_go_with_lists() -> None:
    """The tokens of an answer equal what `tokenize` gives, and its messages take a next turn behind them."""
    model = scripted_model(["Paris.", "Lyon.", "Three."])
    first = model.chat([{"role": "user", "content": "A city?"}])
    second = model.chat(first.messages + [{"role": "user", "content": "Another?"}])  # noqa: RUF005 - the sum is what is tested
    assert [message["content"] for message in second.messages] == ["A city?", "Paris.", "Another?", "Lyon."]
    assert first.messages == [*second.messages][:2] == second.messages[:2]
    raw = model.complete("One two.")
    assert raw.prompt_token_ids == model.tokenize("One two.")
    assert model.tokenize("One two.") == model.token_strip("One two.").ids
    assert list(model.token_strip("One two.").pieces) == [
        model.detokenize([token]) for token in raw.prompt_token_ids
    ]
    model.close()


def test_a_fixed_sequence_is_a_tuple_that_knows_lists() -> None:
    """It equals tuples and lists of the same, adds to either, slices to its own kind, and is not changed."""
    ids = Fixed((1, 2, 3))
    assert [1, 2, 3] == ids == [1, 2, 3] == ids == (1, 2, 3)
    assert [ids != [1, 2], ids != [1, 2, 3], ids != (1, 2), ids != 5] == [True, False, True, True]
    assert (ids + [4], [0] + ids) == ([1, 2, 3, 4], [0, 1, 2, 3])  # noqa: RUF005 - the sum is what is tested
    assert (ids + (4,), (0,) + ids) == ((1, 2, 3, 4), (0, 1, 2, 3))  # noqa: RUF005 - the sum is what is tested
    assert (ids[-1], ids[:2], type(ids[1:])) == (3, [1, 2], Fixed)
    assert {ids: "kept"}[(1, 2, 3)] == "kept"
    assert (pickle.loads(pickle.dumps(ids)), json.dumps(ids)) == ([1, 2, 3], "[1, 2, 3]")
    with pytest.raises(TypeError):
        ids[0] = 5  # type: ignore[index]
    with pytest.raises(TypeError):
        5 + ids
