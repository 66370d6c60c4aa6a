"""Structured answers of models that think: thinking off, thinking first, and templates that always think."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripted_gguf import EOS, build, chain

import llama_magic as lm
from llama_magic import display
from llama_magic.errors import InputTypeError, OptionError, StructuredOutputError
from llama_magic.formatters import from_jinja
from llama_magic.model.finished import finished
from llama_magic.model.thinking import Ways, opening

SOME = ("DeepSeek-R1", "QwQ", "Qwen3-0.6B", "SmolLM3", "GLM-4.6", "K2-Thinking", "command-r7b", "granite-3.3")
TEMPLATES = Path(__file__).resolve().parents[3] / "shared" / "data" / "templates"
TURNS = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>"
SWITCH = TURNS + "{% if enable_thinking is false %}<think></think>{% endif %}"
ALWAYS = TURNS + "<think>{# … </think> #}"
CHOICES = {"enum": ["red", "green"]}
CONTROLS = ["<|user|>", "<|assistant|>", "<|end|>"]
THOUGHT = chain("<think>", "hm ", "so ", "</think>", '"green"', EOS)


@pytest.fixture
def model_of(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Load a scripted model on a template: it thinks "hm so", then says green; without a thought, red."""
    made: list[Any] = []

    def load(template: str, arrows: dict[Any, Any] | None = None, **more: Any) -> Any:
        arrows = {"<|assistant|>": '"red"', '"red"': EOS, **(THOUGHT if arrows is None else arrows)}
        marks = more.pop("user_defined", ["<think>", "</think>"])
        path = tmp_path / f"{len(made)}.gguf"
        build(path, arrows, controls=CONTROLS, user_defined=marks, template=template, **more)
        made.append(lm.load(path, ctx=0, threads=1))
        return made[-1]

    yield load
    for model in made:
        model.close()


def test_thinking_is_switched_off_and_that_is_said(model_of: Any) -> None:
    """By default the template's switch is set, and notes, receipt and view name it."""
    model = model_of(SWITCH, {**THOUGHT, "</think>": '"red"'})
    answer = model.structured("Which?", CHOICES, seed=1, max_tokens=20)
    assert (answer.parsed, answer.thinking) == ("red", "")
    assert answer.prompt.endswith("<think></think>")
    note = "thinking is switched off (enable_thinking=False)"
    assert note in answer.notes
    assert answer.receipt["thinking_choice"] == note
    assert note in display.to_text(answer)


def test_thinking_first(model_of: Any) -> None:
    """With `thinking=True` the thinking part is opened and free; the constraint waits for its end."""
    model = model_of(SWITCH)
    answer = model.structured("Which?", CHOICES, thinking=True, seed=1, max_tokens=20)
    assert (answer.thinking, answer.text, answer.parsed) == ("hm so", '"green"', "green")
    assert answer.raw_text == '<think>hm so </think>"green"'
    assert answer.prompt.endswith("<|assistant|>")
    assert answer.receipt["thinking_choice"] == "the model thinks first; what comes after is constrained"
    assert "thinks first" in display.to_markdown(answer)
    many = model.structured("Which?", CHOICES, thinking=True, n=3, max_tokens=20)
    assert [one.parsed for one in many] == ["green"] * 3
    again = asyncio.run(model.astructured("Which?", CHOICES, thinking=True, max_tokens=20))
    assert (again.parsed, again.thinking) == ("green", "hm so")
    chunks = list(model.structured("Which?", CHOICES, thinking=True, max_tokens=20, stream=True))
    assert "".join(chunk.thinking for chunk in chunks) == "hm so"
    assert chunks[-1].partial == "green"


def test_a_template_that_always_thinks(model_of: Any) -> None:
    """Where the prompt itself opens the thinking part, the constraint comes after it, whatever is asked."""
    model = model_of(ALWAYS)
    for thinking in (False, True):
        answer = model.structured("Which?", CHOICES, thinking=thinking, seed=1, max_tokens=20)
        assert (answer.thinking, answer.parsed) == ("hm so", "green")
    answer = model.structured("Which?", CHOICES, max_tokens=20)
    assert answer.receipt["thinking_choice"].startswith("this template always opens a thinking part")
    assert answer.raw_text == 'hm so </think>"green"'


def test_a_variable_of_the_caller_decides(model_of: Any) -> None:
    """A switch that the caller sets counts, and is named."""
    model = model_of(SWITCH)
    answer = model.structured(
        "Which?", CHOICES, template_variables={"enable_thinking": True}, max_tokens=20, seed=1
    )
    assert (answer.thinking, answer.parsed) == ("hm so", "green")
    assert "enable_thinking=True, as given" in answer.receipt["thinking_choice"]


def test_a_template_without_thinking(model_of: Any) -> None:
    """It says nothing of thinking; asking for it is an error before anything is decoded."""
    model = model_of(TURNS, user_defined=[])
    answer = model.structured("Which?", CHOICES, seed=1, max_tokens=20)
    assert answer.parsed == "red"
    assert answer.notes == ()
    assert "thinking_choice" not in answer.receipt
    with pytest.raises(OptionError, match="no thinking part"):
        model.structured("Which?", CHOICES, thinking=True)
    with pytest.raises(InputTypeError, match="expected True or False"):
        model.structured("Which?", CHOICES, thinking="yes")


def test_a_thinking_part_cannot_end_the_answer(model_of: Any) -> None:
    """A model that would stop while it thinks goes on; one that never ends its thought is cut."""
    model = model_of(ALWAYS, {"<think>": "hm ", "hm ": EOS, "</think>": '"green"', '"green"': EOS})
    with pytest.raises(StructuredOutputError, match="cut after 12 tokens") as caught:
        model.structured("Which?", CHOICES, max_tokens=12, temperature=0)
    assert caught.value.text == ""
    assert caught.value.completion.thinking.startswith("hm")


def test_a_mark_of_several_tokens(model_of: Any) -> None:
    """Where the closing mark is not one token, a token that ends it and begins the answer is forbidden."""
    arrows = {**chain("<think>", "hm ", "</th", "ink>", '"green"', EOS), 'ink>"blue"': EOS, "ink>  ": EOS}
    model = model_of(ALWAYS, arrows, user_defined=[], default="hm ")
    answer = model.structured("Which?", CHOICES, seed=1, max_tokens=20)
    assert (answer.thinking, answer.parsed) == ("hm", "green")
    ways = Ways(model.formatter, model.backend.tokenizer)
    texts = {model.backend.tokenizer.piece(token) for token in ways.forbidden("</th")}
    assert b'ink>"blue"' in texts
    assert not texts & {b"ink>", b"ink>  ", b"hm "}
    assert model.backend.tokenizer.eos_id in ways.forbidden("")


def _thinking_templates() -> list[str]:
    """Return the shared templates with a thinking part whose marks a scripted file can hold as tokens.

    llama.cpp takes `<|end|>` for the end of an answer by its name; a blank is no part of such a token.
    """
    found = []
    for path in sorted(TEMPLATES.glob("*.jinja")):
        if not any(name in path.name for name in SOME):  # all of them take half a minute
            continue
        spec = from_jinja(path.read_text()).spec
        texts = [m.text for m in spec.marks if "thinking" in (*m.where, m.then)]
        if spec.header is None and texts and not any(" " in text or text == "<|end|>" for text in texts):
            found.append(path.name)
    return found


@pytest.mark.parametrize("name", _thinking_templates())
def test_real_templates(model_of: Any, name: str) -> None:
    """On real templates with thinking the default gives an instance, and so does thinking first."""
    template = (TEMPLATES / name).read_text()
    formatter = from_jinja(template)
    mark = opening(formatter)
    closing = next(m.text for m in formatter.spec.marks if "thinking" in m.where and m.then == "text")
    arrows = {**chain("hm ", closing, '"green"', EOS), **({mark: "hm "} if mark else {}), '"red"': EOS}
    marks = [mark, closing] if mark else [closing]
    model = model_of(template, arrows, user_defined=marks, default="hm ", context=8192)
    off = model.structured("Which?", CHOICES, seed=1, max_tokens=100)
    assert off.parsed in ("red", "green")
    on = model.structured("Which?", CHOICES, seed=1, max_tokens=100, thinking=True)
    assert (on.thinking.strip(), on.parsed) == ("hm", "green")
    opened = formatter.reader(off.prompt).state == "thinking"
    assert bool(off.thinking) == opened
    assert opened == ("always opens" in off.thinking_choice)


def test_a_thought_that_took_all_tokens(model_of: Any) -> None:
    """The error says that the thinking took them, and what to do; an answer that was cut says that."""
    model = model_of(SWITCH, {**THOUGHT, "so ": "hm "})  # it never comes to an end
    with pytest.raises(StructuredOutputError, match=r"took all 12 tokens[\s\S]*thinking=False") as caught:
        model.structured("Which?", CHOICES, thinking=True, seed=1, max_tokens=12)
    assert caught.value.completion.thinking
    assert not caught.value.text
    with pytest.raises(StructuredOutputError, match=r"took all 1 token\."):
        model.structured("Which?", CHOICES, thinking=True, seed=1, max_tokens=1)
    late = replace(caught.value.completion, finish_reason="timeout")
    with pytest.raises(StructuredOutputError, match=r"time was up .* before the answer began: thinking took"):
        finished(late, model.constraint(CHOICES))
    free = model_of(ALWAYS, {**THOUGHT, "so ": "hm "}).chat("Which?", seed=1, max_tokens=12)
    note = "thinking took all 12 tokens; it needs more tokens (max_tokens=)"
    assert (free.text, free.notes[-1:]) == ("", (note,)), free
