"""A conversation that ends with an assistant's message: the answer goes on from it, or is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scripted_gguf import EOS, chain
from stand_ins import TALKERS

import llama_magic as lm
from llama_magic import display
from llama_magic.formatters import from_jinja
from llama_magic.testing import scripted_model as script

BEGUN = chr(0x4E00 + 3)  # what the scripted model goes on from
TALK = [{"role": "user", "content": "say it"}, {"role": "assistant", "content": BEGUN}]


def test_an_answer_goes_on_from_the_last_message(scripted: Any, answers: dict[str, str]) -> None:
    """The prompt ends with what the assistant began, no second turn is opened, and both are one message."""
    done = scripted.chat(TALK, seed=1)
    assert done.prompt.endswith(f"<|assistant|>{BEGUN}")
    assert done.prompt.count("<|assistant|>") == 1
    assert done.text == answers[BEGUN]
    assert done.messages[-1] == {"role": "assistant", "content": BEGUN + answers[BEGUN]}
    assert len(done.messages) == 2
    assert scripted.count_tokens(TALK) == done.usage.prompt_tokens


def test_an_empty_beginning_is_no_beginning(scripted: Any) -> None:
    """An empty assistant's message is not continued; a choice that was given counts."""
    empty = scripted.chat([TALK[0], {"role": "assistant", "content": ""}], max_tokens=1)
    assert empty.prompt.endswith("<|end|><|assistant|>")
    closed = scripted.chat(TALK, max_tokens=1, template_variables={"continue_final": False})
    assert closed.prompt.endswith(f"<|assistant|>{BEGUN}<|end|><|assistant|>")


def test_what_cannot_be_continued_is_refused(scripted: Any) -> None:
    """A template that changes the text of the last message, two beginnings and a raw text say so by name."""
    with pytest.raises(lm.OptionError, match="begun twice"):
        scripted.chat(TALK, prefill="a")
    with pytest.raises(lm.OptionError, match="the text itself goes on"):
        scripted.complete("a", prefill="b")
    with pytest.raises(lm.OptionError, match="more than blanks"):
        scripted.chat(TALK[:1], prefill=" ")
    with pytest.raises(lm.InputTypeError, match="prefill is 3"):
        scripted.chat(TALK[:1], prefill=3)
    before = scripted.formatter
    try:
        scripted.formatter = from_jinja(
            "{% for m in messages %}<|{{ m.role }}|>{{ m.content[:30] }}{% endfor %}\n"
        )
        long = [TALK[0], {"role": "assistant", "content": "word " * 20}]
        with pytest.raises(lm.TemplateError, match="cannot be continued"):
            scripted.chat(long)
    finally:
        scripted.formatter = before


# --- prefill: the beginning is part of the answer -------------------------------------------------

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def test_a_beginning_is_part_of_the_answer(scripted: Any, answers: dict[str, str]) -> None:
    """Text, tokens and chunks hold it; it costs no tokens of the answer, and the model writes the same."""
    added = scripted.chat(TALK, seed=1)
    done = scripted.chat(TALK[:1], prefill=BEGUN, seed=1, reuse=False)
    assert done.text == BEGUN + answers[BEGUN]
    assert done.messages == added.messages
    assert done.prompt == added.prompt
    assert done.token_ids == (*done.prompt_token_ids[-done.begun :], *added.token_ids)
    assert done.usage == added.usage
    assert done.receipt["asked"]["prefill"] == BEGUN
    assert done.receipt["begun"] == done.begun == 1
    chunks = list(scripted.chat(TALK[:1], prefill=BEGUN, seed=1, stream=True))
    assert "".join(chunk.delta for chunk in chunks) == done.text
    assert sum((chunk.token_ids for chunk in chunks), ()) == done.token_ids
    assert "its first 1 token given" in display.to_text(done)
    both = scripted.chat(TALK[:1], prefill=BEGUN, n=2)
    assert {one.text for one in both} == {done.text}
    assert scripted.chat(TALK[:1], prefill="", max_tokens=1).begun == 0
    instructed = scripted.complete("say it", instruct=True, prefill=BEGUN, seed=1)
    assert (instructed.text, instructed.mode) == (done.text, "complete")


def test_a_stop_text_may_begin_in_it(scripted: Any, answers: dict[str, str]) -> None:
    """One that reaches from the beginning into what is written ends the answer; a given one does not."""
    across = scripted.chat(TALK[:1], prefill=f"a{BEGUN}", stop=f"{BEGUN}<", seed=1)
    assert (across.text, across.stop, across.finish_reason) == ("a", f"{BEGUN}<", "stop")
    given = scripted.chat(TALK[:1], prefill=BEGUN, stop=[BEGUN, ">,"], seed=1)
    assert given.text == (BEGUN + answers[BEGUN]).partition(">,")[0]


def test_each_step_of_a_begun_answer_can_be_looked_into(scripted: Any) -> None:
    """A step that was given is read again; the first one drawn is exact."""
    done = scripted.chat(TALK[:1], prefill=BEGUN, seed=1, temperature=0)
    assert [done.xray(step).step for step in range(2)] == [0, 1]
    assert not done.xray(0).exact
    drawn = done.xray(1)
    assert drawn.exact
    assert drawn.drawn.id == done.token_ids[1]


@pytest.mark.parametrize("name", TALKERS)
def test_a_structured_answer_is_begun(loaded: Callable[..., Any], name: str) -> None:
    """The mask goes on from the beginning, in its layout and in others; the instance holds it."""
    model = loaded(name)
    for beginning in ('{"name": "Zo', '{"name":"Zo', '{ "name" : "Zo'):
        for messages in (
            {"prompt": "Invent a person.", "prefill": beginning},
            {"prompt": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": beginning}]},
        ):
            answer = model.structured(schema=PERSON, seed=1, max_tokens=60, **messages)
            assert answer.text.startswith(beginning)
            assert answer.parsed["name"].startswith("Zo")
            assert 0 <= answer.parsed["age"] <= 99
    stream = model.structured("Invent a person.", PERSON, prefill='{"name": "Zo', seed=1, stream=True)
    partials = [chunk.partial for chunk in stream]
    assert partials[0]["name"].startswith("Zo")
    assert partials[-1] == stream.completion.parsed


def test_beginnings_that_no_answer_has() -> None:
    """They are refused before anything is asked; one that is the whole answer takes no token."""
    model = script(["never"])
    with pytest.raises(lm.StructuredOutputError, match="No answer begins with"):
        model.structured("Invent a person.", PERSON, prefill='{"age": 4')
    with pytest.raises(lm.StructuredOutputError, match="No answer begins with 'maybe'"):
        model.chat(TALK[:1], choices=["yes", "no"], prefill="maybe")
    assert model.backend.requests == []
    whole = model.chat(TALK[:1], choices=["yes", "no"], prefill="yes")
    assert (whole.text, whole.usage.completion_tokens, whole.finish_reason) == ("yes", 0, "stop")
    with pytest.raises(lm.OptionError, match="cannot think first"):
        script(formatter="deepseek").structured("a", PERSON, prefill="{", thinking=True)


@pytest.mark.parametrize(
    ("held", "begun", "whole"),
    [
        ({"choices": ["yes", "no"]}, "ye", {"yes"}),
        ({"regex": "[ab]{2}c"}, "b", {"bac", "bbc"}),
        ({"grammar": 'root ::= "one " ("two" | "six")'}, "one t", {"one two"}),
    ],
)
def test_a_constraint_holds_of_the_beginning_too(
    scripted: Any, held: dict[str, Any], begun: str, whole: set[str]
) -> None:
    """A last message of the assistant begins a constrained answer as prefill does: the text holds both."""
    last = {"role": "assistant", "content": begun}
    asked: dict[str, Any] = {**held, "max_tokens": 20, "seed": 3}
    answer = scripted.chat([*TALK[:1], last], **asked)
    assert answer.text in whole
    assert answer.text == scripted.chat(TALK[:1], prefill=begun, **asked).text
    assert answer.messages[-1] == {"role": "assistant", "content": answer.text}
    with pytest.raises(lm.StructuredOutputError, match="No answer begins with 'x'"):
        scripted.chat([*TALK[:1], {**last, "content": "x"}], **asked)


def test_an_answer_that_is_all_given_needs_no_decode(scripted: Any) -> None:
    """The engine ends it at once, and goes on with others."""
    whole = scripted.chat(TALK[:1], choices=["yes", "no"], prefill="yes", seed=1)
    assert (whole.text, whole.parsed, whole.usage.completion_tokens) == ("yes", "yes", 0)
    both = scripted.chat(TALK[:1], choices=["yes", "no"], prefill="no", n=2)
    assert [one.text for one in both] == ["no", "no"]
    assert scripted.chat(TALK[:1], seed=1).finish_reason == "stop"


def test_a_beginning_is_retried_with(scripted: Any) -> None:
    """Each further attempt begins with it, too."""
    model = script(['1"', '2"'])
    answer = model.structured(
        "Say it.", {"type": "string", "minLength": 2, "format": "date"}, prefill='"2020-01-0', retries=1
    )
    assert answer.parsed == "2020-01-01"


def test_a_beginning_has_tokens_of_its_own(real: Any) -> None:
    """Where a token of the prompt would reach into it, the answer is cut there, and is what was given."""
    for beginning in ("\n\n- one", " two", "three", " a ", "🦙"):
        done = real.chat(TALK[:1], prefill=beginning, seed=1, max_tokens=3)
        assert done.text.lstrip().startswith(beginning.strip())
        assert real.detokenize(done.token_ids[: done.begun]).strip() == beginning.strip()
        assert done.prompt_token_ids[-done.begun :] == done.token_ids[: done.begun]


def test_no_thinking_before_a_beginning(scripted_model: Any) -> None:
    """A template that opens a thinking part leaves it out where the answer is begun."""
    template = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
        "{% if not loop.last %}<|end|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|end|><|assistant|><think>{% endif %}"
    )
    marks = ["<|user|>", "<|assistant|>", "<|end|>"]
    model = scripted_model(chain("b", "cd", EOS), controls=marks, user_defined=["<think>", "</think>"],
                           template=template + "{# <think> </think> #}")  # fmt: skip
    done = model.chat(TALK[:1], prefill="ab", seed=1, max_tokens=9)
    assert (done.text, done.thinking) == ("abcd", "")
    assert "<think>" not in done.prompt
