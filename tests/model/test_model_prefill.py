"""A conversation that ends with an assistant's message: the answer goes on from it, or is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

import llama_magic as lm
from llama_magic.formatters import from_jinja

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
    """A template that changes the text of the last message, and a structured answer, say so by name."""
    with pytest.raises(lm.OptionError, match="begins by itself"):
        scripted.structured(TALK, int)
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
