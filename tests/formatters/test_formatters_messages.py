"""Messages: what is taken, and what each wrong one is told."""

from __future__ import annotations

import enum
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from llama_magic import formatters
from llama_magic.errors import InputTypeError, LlamaMagicError, OptionError, TemplateError


class Role(enum.Enum):
    USER = "user"


@dataclass
class Plain:
    role: Any
    content: Any


class Model(BaseModel):
    role: str
    content: str | None = None
    name: str | None = None


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "hi"},
        Plain("user", "hi"),
        Plain(Role.USER, "hi"),
        Model(role="user", content="hi"),
        {"role": "user", "content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]},
    ],
)
def test_forms_that_are_taken(message: Any) -> None:
    """Dicts, objects, pydantic models and lists of text parts give one plain dict."""
    assert formatters.normalise_messages([message]) == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("messages", "kind", "said"),
    [
        ("hi", TypeError, "list"),
        ({"role": "user", "content": "x"}, TypeError, "list"),
        (None, TypeError, "list"),
        ([], ValueError, "empty"),
        (["hi"], TypeError, r"messages\[0\]"),
        ([{"content": "x"}], ValueError, r"messages\[0\] has no role"),
        ([{"role": "user", "content": "a"}, {"role": "user"}], ValueError, r"messages\[1\].*no content"),
        ([{"role": "user", "content": None}], ValueError, r"messages\[0\].*None"),
        ([{"role": "assistant", "content": None}], ValueError, "tool_calls"),
        ([{"role": "user", "content": 3}], TypeError, "int"),
        ([{"role": 3, "content": "x"}], TypeError, "role"),
        ([{"role": "", "content": "x"}], ValueError, "empty role"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], TypeError, "image_url"),
    ],
)
def test_wrong_messages_are_named(messages: Any, kind: type[Exception], said: str) -> None:
    """Each wrong message is an error of ours with its index and what is wrong."""
    with pytest.raises(kind, match=said) as caught:
        formatters.normalise_messages(messages)
    assert isinstance(caught.value, LlamaMagicError)


def test_a_string_is_told_the_form() -> None:
    """A bare string is an error that shows the right form."""
    with pytest.raises(InputTypeError, match='"role": "user"'):
        formatters.normalise_messages("hi")


def test_the_caller_s_messages_are_never_changed() -> None:
    """Repair and rendering work on copies."""
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    before = [dict(m) for m in messages]
    formatters.get("gemma").render(messages)
    formatters.gguf.Template("{{ messages[-1].content }}{{ messages[0].content }}").render(messages)
    assert messages == before


def test_tool_calls_may_stand_without_content() -> None:
    """An assistant message with tool calls needs no text."""
    call = {"function": {"name": "f", "arguments": "{}"}}
    done = formatters.normalise_messages([{"role": "assistant", "content": None, "tool_calls": [call]}])
    assert done == [{"role": "assistant", "content": "", "tool_calls": [call]}]


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    """Importing the package brings neither Jinja nor pydantic nor NumPy."""
    code = (
        "import sys, llama_magic.formatters as f; f.get('chatml').completion_to_prompt('x');"
        "print([m for m in ('jinja2', 'pydantic', 'numpy', 'llama_cpp', 'IPython') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("calls", [5, "f()", {"name": "f"}, True])
def test_tool_calls_are_a_list(calls: Any) -> None:
    """What is no list is an error of ours with the index."""
    message = {"role": "assistant", "content": "x", "tool_calls": calls}
    with pytest.raises(InputTypeError, match=r"messages\[0\] has tool_calls of type"):
        formatters.normalise_messages([message])


CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


@pytest.mark.parametrize(
    ("role", "meant"),
    [("usr", "user"), ("User", "user"), ("asistant", "assistant"), ("SYSTEM", "system"), ("tools", "tool")],
)
def test_a_misspelt_role_is_refused_with_the_right_one(role: str, meant: str) -> None:
    """Many templates write any role as it stands, so it would reach the model; a family has its own alone."""
    messages = [{"role": "user", "content": "a"}, {"role": role, "content": "b"}]
    template = formatters.gguf.Template(CHATML)
    with pytest.raises(OptionError, match=rf"messages\[1\] has the role '{role}'.*mean '{meant}'"):
        template.messages_to_prompt(messages)
    with pytest.raises(TemplateError, match=rf"role '{role}' \(messages\[1\]\).*mean {meant}\?"):
        formatters.get("mistral").messages_to_prompt(messages)


@pytest.mark.parametrize(("role", "meant"), [("human", "user"), ("gpt", "assistant"), ("Model", "assistant")])
def test_a_role_of_another_tool_s_data_is_refused_with_ours(role: str, meant: str) -> None:
    """ShareGPT's "human" is like none of ours in letters; "critic" is somebody's own and passes."""
    template = formatters.gguf.Template(CHATML)
    with pytest.raises(OptionError, match=rf"messages\[0\] has the role '{role}'.*mean '{meant}'"):
        template.messages_to_prompt([{"role": role, "content": "a"}])
    assert "critic" in template.messages_to_prompt([{"role": "critic", "content": "a"}])
    own = "{% for m in messages %}{{ 'says' if m.role == 'model' else 'asks' }} {{ m.content }}{% endfor %}"
    assert formatters.gguf.Template(own).messages_to_prompt([{"role": "model", "content": "a"}]) == "says a"


@pytest.mark.parametrize("role", ["critic", "user_2", "assistant2", "narrator", "developer", "function"])
def test_a_role_that_somebody_made_up_passes(role: str) -> None:
    """A template that writes roles as they stand writes one that is like no other, too."""
    written = formatters.gguf.Template(CHATML).messages_to_prompt([{"role": role, "content": "x"}])
    assert written in (f"<|im_start|>{role}\nx<|im_end|>\n", "<|im_start|>system\nx<|im_end|>\n")


def test_a_role_of_the_template_passes_though_it_is_like_another() -> None:
    """What the template asks for by name it knows."""
    own = "{% for m in messages %}{% if m.role == 'users' %}[{{ m.content }}]{% endif %}{% endfor %}"
    assert formatters.gguf.Template(own).messages_to_prompt([{"role": "users", "content": "x"}]) == "[x]"
