"""Options that do nothing without another one are named in the answer's notes."""

from __future__ import annotations

from typing import Any

import pytest

import llama_magic as lm
from llama_magic.doors import Door, through
from llama_magic.model.options import _NEEDS, OF_A_CHAT, OF_A_SCHEMA, idle
from llama_magic.testing import scripted_model

GIVEN = {
    "tool_choice": "none",
    "parallel_tool_calls": False,
    "tools_as_text": True,
    "tools_auto": True,
    "tool_rounds": 2,
    "pressure": True,
    "retries": 1,
    "thinking": True,
    "show_schema": True,
}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


NEEDY = {name for some, _ in _NEEDS.values() for name in some}


def test_the_table_has_all_that_belong_to_tools_or_a_schema() -> None:
    """An option of a chat or schema that does not stand alone stands among those that need something."""
    alone = {"tools", "template_variables", "system"}
    assert NEEDY - {"pressure"} == (OF_A_CHAT.keys() | OF_A_SCHEMA.keys()) - alone
    assert GIVEN.keys() == NEEDY


@pytest.mark.parametrize("name", sorted(OF_A_CHAT.keys() & NEEDY | {"pressure"}))
def test_an_answer_names_what_did_nothing(name: str) -> None:
    """A default is no wish, and with what it needs it says nothing."""
    model: Any = scripted_model({"Hi": "yes"})
    (note,) = model.chat("Hi", **{name: GIVEN[name]}).notes
    assert note.startswith(f"{name} does nothing: no")
    assert model.chat("Hi", **{name: {**OF_A_CHAT, "pressure": False}[name]}).notes == ()
    held = {"choices": ["yes"]} if name == "pressure" else {"tools": [add], "tools_as_text": True}
    assert not any(name in note for note in model.chat("Hi", **{**held, name: GIVEN[name]}).notes)


@pytest.mark.parametrize(
    ("door", "written"),
    [(Door.MAGIC, "--tools-auto"), (Door.SHELL, "--tools-auto"), (Door.SERVER, "tools_auto")],
)
def test_it_is_named_as_the_caller_writes_it(door: Door, written: str) -> None:
    """On a magic's line and in a shell by its flag, in a request by its field."""
    with through(door):
        assert idle({"tools_auto": True}, ()) == (
            f"{written} does nothing: no tool is a function, to be run here.",
        )
        assert door is Door.SERVER or idle({"thinking": True}, ())[0].startswith("--think does nothing")


def test_tools_that_are_only_described_are_not_run() -> None:
    """So how often, and whether with a line before, does nothing; how they are written does."""
    described = {"type": "function", "function": {"name": "g", "parameters": {"type": "object"}}}
    found = scripted_model().chat("Hi", tools=[described], tools_as_text=True, tools_auto=True).notes
    assert [note for note in found if "nothing" in note] == [
        "tools_auto does nothing: no tool is a function, to be run here."
    ]


def test_a_map_without_a_schema_says_so_once() -> None:
    """What is for structured answers stands in the notes of all runs, and not with a schema."""
    asked: dict[str, Any] = {name: GIVEN[name] for name in ("retries", "thinking", "show_schema")}
    runs = lm.map(["a", "b"], "Q {{ text }}", model=scripted_model(), progress=False, **asked)
    assert sorted(runs.notes) == [f"{name} does nothing: there is no schema." for name in sorted(asked)]
    assert idle(asked, {"schema"}) == ()
