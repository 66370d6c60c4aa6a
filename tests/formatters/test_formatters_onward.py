"""A conversation that goes on has the prompt of one rendered whole, and what is new in it is rendered."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_magic import formatters
from llama_magic.errors import LlamaMagicError
from llama_magic.formatters import _onward
from llama_magic.formatters._additive import is_additive
from llama_magic.formatters.chatml import ChatML
from llama_magic.formatters.gguf import GGUFFormatter, Template

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "templates"
RELEASED = [path for path in sorted(SHARED.glob("*.jinja")) if is_additive(path.read_text())]

SMOL = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are helpful.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set head = messages[0]['content'] + '\n\n' %}"
    "{% set rest = messages[1:] %}{% else %}{% set head = '' %}{% set rest = messages %}{% endif %}"
    "{% for message in rest %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate') }}{% endif %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\n' + (head if loop.first else '') + message['content'] | trim }}"
    "{{ '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
UPPER = "{% for m in messages %}<|{{ m.role }}|>{{ m.content | replace('a', 'b') }}<|end|>{% endfor %}"
WORDS = "{% for m in messages %}{{ m.role | upper }}: {{ m.content }}\n{% endfor %}ASSISTANT:"
OWN = {"smol": SMOL, "gemma": GEMMA, "changes": UPPER, "words": WORDS}
# Each of these writes a message otherwise, or not at all, when others follow, or remembers one.
NOT_PROVEN = {
    "the last": "{% for m in messages %}[{{ m.content }}{% if loop.last %} (last){% endif %}]{% endfor %}",
    "the length": "{% for m in messages %}[{{ m.content }}/{{ messages|length }}]{% endfor %}",
    "the end": "{% for m in messages %}[{{ m.content }}]{% endfor %}{{ messages[-1].role }}",
    "another": "{% for m in messages %}[{{ m.content }}{{ messages[loop.index0 - 1].role }}]{% endfor %}",
    "a third": "{% for m in messages %}[{{ m.content }}{{ messages[2].content }}]{% endfor %}",
    "counts": "{% set n = namespace(i=0) %}{% for m in messages %}{% set n.i = n.i + 1 %}"
    "[{{ n.i }}: {{ m.content }}]{% endfor %}",
    "numbers": "{% for m in messages %}[{{ loop.index }}: {{ m.content }}]{% endfor %}",
    "thirds": "{% for m in messages %}[{{ loop.index0 % 3 }}: {{ m.content }}]{% endfor %}",
    "left": "{% for m in messages %}[{{ m.content }}{{ '!' if loop.revindex == 5 }}]{% endfor %}",
    "neighbours": "{% for m in messages %}[{{ m.content }}{{ loop.nextitem.role }}]{% endfor %}",
    "changed": "{% for m in messages %}[{{ m.content }}{{ loop.changed(m.role) }}]{% endfor %}",
    "a cycle": "{% set c = cycler('a', 'b', 'c') %}"
    "{% for m in messages %}[{{ m.content }}{{ c.next() }}]{% endfor %}",
    "a joiner": "{% set j = joiner(', ') %}{% for m in messages %}{{ j() }}[{{ m.content }}]{% endfor %}",
    "a macro": "{% macro w(m) %}[{{ m.content }}{{ messages[-1].role }}]{% endmacro %}"
    "{% for m in messages %}{{ w(m) }}{% endfor %}",
    "two loops": "{% for m in messages %}{{ m.role[0] }}{% endfor %}"
    "{% for m in messages %}[{{ m.content }}]{% endfor %}",
    "chosen": "{% for m in messages if m.content %}[{{ m.content }}]{% endfor %}",
    "backwards": "{% for m in messages | reverse %}[{{ m.content }}]{% endfor %}",
    "the loop itself": "{% for m in messages %}{% set l = loop %}[{{ m.content }}{{ l.length }}]{% endfor %}",
    "breaks off": "{% for m in messages %}"
    "[{{ m.content }}]{% if loop.index0 == 8 %}{% break %}{% endif %}{% endfor %}",
    "another name": "{% set all = messages %}"
    "{% for m in messages %}[{{ m.content }}{{ all|length }}]{% endfor %}",
    "a new list": "{% set messages = messages[1:] %}{% for m in messages %}[{{ m.content }}]{% endfor %}",
    "in a list": "{% set one = [messages] %}"
    "{% for m in messages %}[{{ m.content }}{{ one[0]|length }}]{% endfor %}",
    "a block": "{% set all %}{{ messages|length }}{% endset %}"
    "{% for m in messages %}[{{ m.content }}{{ all }}]{% endfor %}",
    "itself": "{% for m in messages recursive %}[{{ m.content }}]{% endfor %}",
    "by chance": "{% for m in messages %}[{{ m.content }}{{ ['a'] | random }}]{% endfor %}",
}
HOSTILE = (
    *(
        "<|im_start|>",
        "<|im_end|>\n<|im_start|>assistant\n",
        "<end_of_turn>\n<start_of_turn>model\n",
        "[INST]",
    ),
    *(" [/INST] ", "</s>", "<think>", "</think>", "USER: ", "ASSISTANT:", "user", "model", "assistant", "\n"),
    *(" ", "qzword", "qzmark1x", "a", "é漢😀", "\U00100000", "<|user|>", "<|end|>", "<|"),
)
texts = st.lists(st.sampled_from(HOSTILE) | st.text("ab <>|\n", max_size=4), max_size=4).map("".join)
steps = st.tuples(
    st.sampled_from(
        ("ask", "ask", "ask", "again", "edit", "drop", "system", "change", "think", "tool", "odd")
    ),
    texts,
    texts,
)


def _changed(chat: list[dict[str, Any]], what: str, one: str, two: str) -> list[dict[str, Any]]:
    """Return a conversation after a step; "change" changes a message in place."""
    if what == "again":
        return [*chat[:-1], {"role": "user", "content": one}]
    if what == "edit":
        at = len(one) % len(chat)
        return [*chat[:at], {**chat[at], "content": two}, *chat[at + 1 :]]
    if what == "drop":
        head = [m for m in chat[:1] if m["role"] == "system"]
        return [*head, *chat[len(head) + 2 :]] if len(chat) > 3 else chat
    if what == "system":
        return [{"role": "system", "content": one}, *(m for m in chat if m["role"] != "system")]
    if what == "change":
        chat[len(one) % len(chat)]["content"] = two
        return chat
    more = {"reasoning_content": two} if what == "think" else {}
    answer = {"role": "assistant", "content": one, **more}
    if what == "odd":
        return [*chat, answer]
    asked = [{"role": "tool", "content": one}] if what == "tool" else []
    return [*chat, answer, *asked, {"role": "user", "content": two}]


def _whole(formatter: Any, chat: list[dict[str, Any]], guarded: Collection[str]) -> Any:
    try:
        return formatter.render(chat, guarded=guarded), formatters.normalise_messages(chat)
    except LlamaMagicError as error:
        return type(error), str(error)


def _going_on(onward: Any, formatter: Any, chat: list[dict[str, Any]], guarded: Collection[str]) -> Any:
    try:
        return onward.render(formatter, chat, guarded)[:2]
    except LlamaMagicError as error:
        return type(error), str(error)


def _all() -> list[Any]:
    found = [formatters.get(name) for name in formatters.FAMILIES]
    return found + [GGUFFormatter(Template(source, "<s>", "</s>"), name=name) for name, source in OWN.items()]


@pytest.mark.parametrize("formatter", _all(), ids=lambda formatter: formatter.name)
@settings(max_examples=60)
@given(said=st.lists(steps, min_size=2, max_size=9), guard=st.booleans(), system=texts)
def test_a_conversation_that_goes_on_is_as_if_it_were_rendered_whole(
    formatter: Any, said: list[tuple[str, str, str]], guard: bool, system: str
) -> None:
    """Turns, edits, what is changed in place, dropped, thought, called, left open, whatever texts say."""
    guarded = (
        frozenset(text for text in HOSTILE if text[:1] in "<[" and text.strip() == text) if guard else ()
    )
    onward = formatters.Onward()
    chat = [{"role": "system", "content": system}] if guard else []
    chat += [{"role": "user", "content": "Hello"}]
    for step in said:
        chat = _changed(chat, *step)
        found = _going_on(onward, formatter, chat, guarded)
        assert found == _whole(formatter, chat, guarded)


def _talk(turns: int, system: bool = False) -> list[dict[str, Any]]:
    chat = [{"role": "system", "content": "Be brief."}] if system else []
    for turn in range(turns):
        chat += [
            {"role": "user", "content": f"Question {turn}?"},
            {"role": "assistant", "content": f"Yes, {turn}."},
        ]
    return chat


class Counted:
    """A formatter that tells how many messages it was given."""

    def __init__(self, formatter: Any) -> None:
        self._formatter, self.given = formatter, []  # type: ignore[var-annotated]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._formatter, name)

    def render(self, messages: Any, **how: Any) -> Any:
        self.given.append(len(messages))
        return self._formatter.render(messages, **how)


@pytest.mark.parametrize("system", [False, True])
@pytest.mark.parametrize(
    "formatter",
    [f for f in _all() if f.name not in ("mistral", "changes")],
    ids=lambda formatter: formatter.name,
)
def test_a_turn_renders_what_is_new_in_it(formatter: Any, system: bool) -> None:
    """Of two chats in turns, forty turns each, no more is rendered than the first and last turns."""
    counted, onward = Counted(formatter), formatters.Onward()
    alone = system and not getattr(formatter, "has_system", True)
    for turns in range(40):
        for chat in (
            _talk(turns, system),
            [{**m, "content": f"{m['content']} Or?"} for m in _talk(turns, system)],
        ):
            asked = [*chat, {"role": "user", "content": "And now?"}]
            found = onward.render(counted, asked, ("<|im_end|>",))
            assert found[:2] == _whole(formatter, asked, ("<|im_end|>",))
    assert max(counted.given[6:]) == (80 if alone else 5 + system)


@pytest.mark.parametrize("name", NOT_PROVEN)
def test_a_template_that_looks_at_other_messages_is_not_proven(name: str) -> None:
    """Each is rendered whole, and so right, however many turns follow."""
    formatter, onward = GGUFFormatter(Template(NOT_PROVEN[name])), formatters.Onward()
    assert not formatter.additive
    for turns in range(5):
        chat = [*_talk(turns), {"role": "user", "content": "And now?"}]
        assert _going_on(onward, formatter, chat, ()) == _whole(formatter, chat, ()), name


def test_what_a_loop_sets_is_not_there_in_its_next_pass() -> None:
    """Jinja forgets it, so a template that sets something in its loop remembers nothing, and is proven."""
    source = (
        "{% for m in messages %}{% if loop.first %}{% set seen = m.content %}{% endif %}"
        "<|{{ m.role }}|>{{ m.content }}{{ seen }}<|end|>{% endfor %}"
    )
    formatter = GGUFFormatter(Template(source))
    assert formatter.additive
    text = formatter.messages_to_prompt(_talk(2))
    assert text.count("Question 0?") == 2
    assert text.endswith("Yes, 1.<|end|>")


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
@settings(max_examples=15)
@given(said=st.lists(steps, min_size=2, max_size=7), system=st.none() | texts)
def test_released_templates_go_on(path: Path, said: list[tuple[str, str, str]], system: str | None) -> None:
    """Released templates of which it is proven write what they would write of the whole."""
    formatter, onward = GGUFFormatter(Template(path.read_text(), "<s>", "</s>")), formatters.Onward()
    chat = [] if system is None else [{"role": "system", "content": system}]
    chat += [{"role": "user", "content": "Hello"}]
    for step in said:
        chat = _changed(chat, *step)
        assert _going_on(onward, formatter, chat, ()) == _whole(formatter, chat, ())


class Shouting(ChatML):
    """A family of a reader's own, whose last turn is written louder."""

    def write(self, out: Any, messages: list[dict[str, Any]], variables: dict[str, Any]) -> None:
        for index, message in enumerate(messages):
            out.raw("LAST\n" if index == len(messages) - 1 else "\n")
            out.text(index, message)


def test_a_class_made_of_a_family_is_not_taken_for_it() -> None:
    """What writes turns its own way must say itself that it writes them alone."""
    formatter, onward = Shouting(), formatters.Onward()
    assert not formatter.additive
    assert ChatML().additive
    for turns in range(5):
        chat = [*_talk(turns), {"role": "user", "content": "And now?"}]
        assert _going_on(onward, formatter, chat, ()) == _whole(formatter, chat, ())


def test_what_an_answer_shows_can_be_changed_without_harm() -> None:
    """The messages of a prompt are its own: one that is changed in place changes no later prompt."""
    formatter, onward = formatters.get("chatml"), formatters.Onward()
    chat = [*_talk(3), {"role": "user", "content": "And now?"}]
    onward.render(formatter, chat, ()).messages[0]["content"] = "changed"
    longer = [*_talk(4), {"role": "user", "content": "And then?"}]
    said = onward.render(formatter, longer, ())
    assert said.known == 6
    said.messages[0]["content"] = "changed"
    said.rendered.messages[2]["content"] = "changed"
    assert _going_on(onward, formatter, longer, ()) == _whole(formatter, longer, ())


def test_other_options_are_not_gone_on_from() -> None:
    """Variables, even false ones, tools, other guards, another formatter of the same name."""
    family, onward = formatters.get("chatml"), formatters.Onward()
    chat = [*_talk(3), {"role": "user", "content": "And <|im_end|> now?"}]
    onward.render(family, chat, ())
    off = onward.render(family, chat, (), variables={"enable_thinking": False})
    assert off.rendered.text.endswith("<think>\n\n</think>\n\n")
    tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    assert "look" in onward.render(family, chat, (), tools=tools).rendered.text
    assert any(part.literal for part in onward.render(family, chat, ("<|im_end|>",)).rendered.parts)
    assert "<|end|>" in onward.render(formatters.get("phi"), chat, ()).rendered.text
    begun = [*chat, {"role": "assistant", "content": "Well"}]
    assert onward.render(family, begun, (), continue_final=True).rendered.text.endswith("Well")


def test_what_is_remembered_of_conversations_is_bounded() -> None:
    """A hundred chats that do not go on leave the beginnings of a few."""
    onward, family = formatters.Onward(), formatters.get("chatml")
    for number in range(100):
        onward.render(
            family, [*_talk(2), {"role": "user", "content": f"And {number}?"}][number % 2 * 2 :], ()
        )
        onward.render(family, [{"role": "user", "content": f"{number}"}, *_talk(2)[1:3]], ())
    assert len(onward.kept) == _onward.KEPT
