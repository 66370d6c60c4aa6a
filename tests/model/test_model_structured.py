"""Structured answers of real models."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel
from scripted_gguf import EOS, chain

import llama_magic as lm
from llama_magic.session.session import Session


class City(BaseModel):
    name: str
    size: Literal["small", "large"]


def test_structured_kinds(loaded: Callable[..., Any]) -> None:
    """Models, Literals, dict schemas, regex, choices and grammar each give an instance of what was asked."""
    model = loaded("smollm2")
    city = model.structured("Lyon?", City, max_tokens=60, seed=1).parsed
    assert isinstance(city, City)
    assert model.structured("A colour?", Literal["red", "green"], seed=1).parsed in ("red", "green")
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "maximum": 99, "minimum": 0}},
        "required": ["n"],
    }
    parsed = model.structured("A number?", schema, seed=1, max_tokens=40).parsed
    assert 0 <= parsed["n"] <= 99
    assert model.complete("Code:", regex="[A-C]{3}-[0-9]{2}", seed=1, max_tokens=20).text[3] == "-"
    assert model.complete("Yes or no?", choices=["yes", "no"], seed=1).text in ("yes", "no")
    assert set(model.complete("x", grammar='root ::= "ab" [cd]+', seed=1, max_tokens=8).text) <= set("abcd")


def test_the_frame_of_an_object_is_forced(loaded: Callable[..., Any]) -> None:
    """What a constraint leaves no choice about is not drawn, is counted, and has the layout of json.dumps."""
    model = loaded("short")
    properties = {name: {"enum": ["red", "green"]} for name in ("first_colour", "second_colour")}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    asked = {**schema, "additionalProperties": False}
    answer = model.structured("Two colours?", asked, seed=1, reuse=False)
    assert answer.text == json.dumps(answer.parsed)
    steps = [answer.xray(step) for step in range(len(answer.token_ids))]
    forced = [step for step in steps if [stage.name for stage in step.stages] == ["constraint"]]
    assert answer.usage.forced_tokens == len(forced) >= 10
    assert answer.receipt["usage"]["forced_tokens"] == answer.usage.forced_tokens
    assert model.chat([{"role": "user", "content": "Hi"}], max_tokens=4).usage.forced_tokens == 0
    told = model.structured("Two colours?", asked, seed=1, reuse=False, logprobs=1)
    assert [entry.token_id for entry in told.logprobs] == list(told.token_ids) == list(answer.token_ids)
    assert b"".join(entry.bytes for entry in told.logprobs).decode() == told.text
    assert told.usage.forced_tokens == answer.usage.forced_tokens
    assert told.usage.completion_tokens == answer.usage.completion_tokens
    assert all(entry.logprob <= entry.top[0][2] <= 0 for entry in told.logprobs)


def test_structured_streams_grow(loaded: Callable[..., Any]) -> None:
    """Partial objects of a stream only grow, and the last is the answer."""
    model = loaded("smollm2")
    stream = model.structured("Lyon?", City, stream=True, max_tokens=60, seed=1)
    partials = [chunk.partial for chunk in stream if chunk.partial]
    keys = [set(p) for p in partials]
    assert all(a <= b for a, b in pairwise(keys))
    assert City.model_validate(partials[-1]) == stream.completion.parsed
    assert stream.fields == ("name", "size")


def test_structured_batch_keeps_order(loaded: Callable[..., Any]) -> None:
    """A list of prompts is answered together, in order, with a budget of its own each."""
    model = loaded("short")
    prompts = ["A colour?", "A colour that is long to describe?", "Sky?"]
    made = model.structured(prompts, {"enum": ["red", "blue"]}, max_tokens=10)
    assert [p in r.prompt for p, r in zip(prompts, made, strict=True)] == [True] * 3
    assert {r.parsed for r in made} <= {"red", "blue"}


def test_cut_structured_answer_carries_what_was_written(loaded: Callable[..., Any]) -> None:
    """An answer cut by its limit is a StructuredOutputError with text, partial object and completion."""
    model = loaded("short")
    schema = {"type": "object", "properties": {"a": {"type": "string", "minLength": 99}}, "required": ["a"]}
    with pytest.raises(lm.StructuredOutputError) as caught:
        model.structured("A long story?", {**schema, "additionalProperties": False}, max_tokens=12, seed=3)
    error = caught.value
    assert error.text.startswith("{")
    assert error.completion.finish_reason == "length"
    assert len(error.completion.token_ids) == 12
    assert isinstance(error.partial, dict)
    told = [entry.completion for entry in Session().history]
    assert [made for made in told if made.text == error.text] == [error.completion]  # once
    with pytest.raises(lm.StructuredOutputError, match="shortest answer"):
        model.structured("x", {"const": "a" * 300}, max_tokens=3)


def test_retries_tell_what_was_wrong(scripted_model: Any) -> None:
    """An answer that only the check after it refuses is asked for again with the reason, `retries` times."""
    template = "{% for m in messages %}[{{ m.content }}]{% endfor %}"
    model = scripted_model(chain("]", "7", EOS), template=template, options={"ctx": 2048})

    asked = []

    def lucky(value: int) -> int:
        asked.append(value)
        if len(asked) < 2:
            raise ValueError("not the right number")
        return value

    schema = Annotated[int, AfterValidator(lucky)]
    done = model.structured("q", schema, retries=2, max_tokens=20, temperature=0)
    assert done.parsed == 7
    assert "not the right number" in done.prompt
    asked.clear()
    with pytest.raises(lm.StructuredOutputError) as caught:
        model.structured("q", schema, max_tokens=20, temperature=0)
    assert caught.value.text == "7"


def test_thinking_is_free_and_the_answer_is_constrained(scripted_model: Any) -> None:
    """Where the template opens <think>, the constraint begins after </think>."""
    template = (
        "{% for m in messages %}<|user|>{{ m.content.split('</think>')[-1] }}{% endfor %}<|assistant|><think>"
    )
    model = scripted_model(
        chain("<think>", "hm", "</think>", "yes", EOS),
        controls=["<|user|>", "<|assistant|>"], user_defined=["<think>", "</think>"], template=template,
        options={"ctx": 1024},
    )  # fmt: skip
    done = model.chat([{"role": "user", "content": "q"}], choices=["yes", "no"], max_tokens=20, temperature=0)
    assert (done.thinking.strip(), done.text.strip()) == ("hm", "yes")
