"""What the answers of a chat have in common is held once, and each knows its own as before."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import pytest

from llama_magic.request import once
from llama_magic.request.fixed import Fixed
from llama_magic.request.once import Beginning

TURNS = 40
_FIELDS = ("prompt", "prompt_token_ids", "messages")


def _of_turn(turn: int) -> dict[str, Any]:
    """Return the prompt, its tokens and the conversation of a turn."""
    said = [
        {"role": role, "content": f"{role} says in turn {i} what nobody said before."}
        for i in range(turn + 8)
        for role in ("user", "assistant")
    ]
    text = "".join(message["content"] for message in said[:-1])
    return {"prompt": text, "prompt_token_ids": Fixed(1000 + ord(c) for c in text), "messages": Fixed(said)}


def test_what_goes_on_is_held_once_and_told_as_it_was() -> None:
    """Of 40 turns one text, one row of tokens and one conversation are held; each turn gives its own."""
    kinds = dict(zip(_FIELDS, (once.TEXTS, once.TOKENS, once.MESSAGES), strict=True))
    for name, kind in kinds.items():
        values = [_of_turn(turn)[name] for turn in range(TURNS)]
        held = [kind.hold(value) for value in values]
        assert {type(one) for one in held} == {Beginning}
        assert len({id(one._longest) for one in held}) == 1
        told = [once.whole(one) for one in held]
        assert told == values
        assert [type(one) for one in told] == [type(one) for one in values]
        other = type(values[9])(values[9] + values[3])  # another end
        parted = kind.hold(other)
        again = kind.hold(values[2])
        assert once.whole(parted) == other
        assert parted._longest is not held[0]._longest
        assert once.whole(again) == values[2]
        assert [once.whole(one) for one in held] == values


@pytest.mark.parametrize(
    "odd",
    [
        {"role": "user", "content": True},
        {"role": "user", "content": ["a"]},
        {"content": "x", "role": "user"},
        {"role": "user", "content": "x", "name": "n"},
    ],
)
def test_messages_that_are_no_plain_texts_are_held_as_they_are(odd: dict[str, Any]) -> None:
    """What is equal and not the same, and what can be changed within, is nobody else's."""
    messages = Fixed([*_of_turn(5)["messages"], odd])
    assert once.MESSAGES.hold(messages) is messages


def test_an_answer_is_copied_pickled_and_changed_with_all_that_it_knows(scripted: Any) -> None:
    """Fields compare, copy and pickle as values; a message that is changed is no other answer's."""
    made = scripted.complete("a", max_tokens=1)
    answers = [replace(made, **_of_turn(turn)) for turn in range(TURNS)]
    assert all(type(vars(answer)[name]) is Beginning for answer in answers for name in _FIELDS)
    answers[-1].messages[0]["content"] = "changed"
    for turn in (0, TURNS - 1):
        for answer in (
            answers[turn],
            copy.deepcopy(answers[turn]),
            pickle.loads(pickle.dumps(answers[turn])),
        ):
            assert {name: getattr(answer, name) for name in _FIELDS} == _of_turn(turn)
            assert answer == answers[turn]
            assert answer.receipt["messages"] == list(_of_turn(turn)["messages"])
    assert answers[3] != answers[4]
    with pytest.raises(AttributeError):
        answers[0].prompt = "x"  # type: ignore[misc]


def test_a_chat_that_goes_on_holds_its_prompts_once(scripted: Any) -> None:
    """What an answer was made by holds them no second time: text, tokens, and none in the request."""
    first = scripted.chat([{"role": "user", "content": "a " * 400}], max_tokens=1)
    then = scripted.chat([*first.messages, {"role": "user", "content": "b"}], max_tokens=1)
    held = [vars(answer)["prompt_token_ids"] for answer in (first, then)]
    for kind in (vars(first)["prompt"], held[0]):
        assert type(kind) is Beginning
    assert held[0]._longest is held[1]._longest
    assert then._origin is not None
    assert then._tracer is not None
    maker = vars(then._origin)
    assert (maker["_head"]._longest, vars(then._tracer)["_held"]._longest) == (held[1]._longest,) * 2
    assert (maker["_request"].prompt, maker["_request"].text, maker["_request"].messages) == ((), "", ())
