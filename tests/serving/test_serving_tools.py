"""Some tools of several allowed, tools that take a text, and what others call such fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from serving.conftest import Served, ask

CHAT, RESPONSES, TEXT = "/v1/chat/completions", "/v1/responses", "/v1/completions"


def tool(name: str) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": {}}},
    }


def flat(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name}


def allowed(mode: str, *names: str) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [tool(n) for n in names]}}


def call(name: str, arguments: str = "{}") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def test_of_tools_some_are_allowed(served: Callable[..., Served]) -> None:
    """The model is told of all, in the same prompt; a mask keeps it to those that may be called."""
    here = served(answers=lambda _request: call("b"))
    tools = [tool(name) for name in "abc"]
    here.post(CHAT, **ask(tools=tools))
    for mode in ("auto", "required"):
        body = here.post(CHAT, **ask(tools=tools, tool_choice=allowed(mode, "b", "c")))
        assert body["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "b"
        asked = here.backend.requests[-1]
        assert (asked.tool_choice, asked.allowed_tools) == (mode, ("b", "c"))
        broken = here.client.post(CHAT, json=ask(tools=tools, tool_choice=allowed(mode, "a", "c")))
        assert (broken.status_code, "forbids" in broken.text) == (
            500,
            True,
        )  # the script says "b" all the same
    first, *others = here.backend.requests
    assert all(list(other.prompt) == list(first.prompt) for other in others)
    assert len({request.digest for request in here.backend.requests}) == 5
    choice = {"type": "allowed_tools", "mode": "required", "tools": [flat("b")]}
    newer = here.post(RESPONSES, input="Hi", tools=[flat("a"), flat("b")], tool_choice=choice)
    made = Response.model_validate(newer, strict=True)
    assert (made.output[0].name, made.tool_choice.tools) == ("b", [flat("b")])


def test_a_family_that_no_mask_keeps_is_told_of_the_allowed_tools_alone(
    served: Callable[..., Served],
) -> None:
    """Where a call that the model begins is not held to its form, it does not hear of the others."""
    here = served(answers=lambda _request: "Well.", formatter="gpt_oss")
    here.post(CHAT, **ask(tools=[tool("aaa"), tool("bbb")], tool_choice=allowed("auto", "bbb")))
    asked = here.backend.requests[-1]
    assert ("aaa" in asked.text, "bbb" in asked.text, asked.allowed_tools) == (False, True, ())


def test_a_choice_among_tools_that_cannot_be_is_refused(served: Callable[..., Served]) -> None:
    """One of none of the tools, without tools, of another mode."""
    here = served()
    for more, param in (
        ({"tools": [tool("a")], "tool_choice": allowed("auto", "b")}, "tool_choice"),
        ({"tool_choice": allowed("auto", "b")}, "tool_choice"),
        ({"tools": [tool("a")], "tool_choice": allowed("none", "a")}, "tool_choice.allowed_tools.mode"),
    ):
        here.refused(CHAT, param, **ask(**more))


FORMAT = {"type": "json_schema", "json_schema": {"schema": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("said", "choice"), [(call("b"), "auto"), ("7", "auto"), (call("b"), "required"), ("7", "none")]
)
def test_an_answer_calls_or_has_its_format(served: Callable[..., Served], said: str, choice: str) -> None:
    """Tools and a format together, as agents ask: a mask lets a call be written, or a text of the format."""
    here = served(answers=lambda _request: said)
    asked = ask(tools=[tool("a"), tool("b")], response_format=FORMAT, tool_choice=choice)
    message = here.post(CHAT, **asked)["choices"][0]["message"]
    assert [c["function"]["name"] for c in message.get("tool_calls", ())] == ["b"] * (said != "7")
    assert message["content"] == ("7" if said == "7" else None)
    text = {"format": {"type": "json_schema", "schema": {"type": "integer"}}}
    newer = here.post(RESPONSES, input="Hi", tools=[flat("b")], text=text, tool_choice=choice)
    assert [item["type"] for item in newer["output"]] == ["message" if said == "7" else "function_call"]


@pytest.mark.parametrize(("said", "choice"), [("Well.", "auto"), (call("b"), "none"), ("7", "required")])
def test_an_answer_that_is_neither_is_not_written(
    served: Callable[..., Served], said: str, choice: str
) -> None:
    """Free text, a call under "none", and a text where a call is required are forbidden by the mask."""
    here = served(answers=lambda _request: said)
    asked = ask(tools=[tool("b")], response_format=FORMAT, tool_choice=choice)
    broken = here.client.post(CHAT, json=asked)
    assert (broken.status_code, "forbids" in broken.text) == (500, True)


SQL = {"syntax": "regex", "definition": r'SELECT "\w+"\nFROM \w+;'}
CUSTOM = {"type": "custom", "custom": {"name": "sql", "format": {"type": "grammar", "grammar": SQL}}}
FLAT = {"type": "custom", "name": "sql", "format": {"type": "grammar", **SQL}}
QUERY = 'SELECT "name"\nFROM users;'
WRITTEN = call("sql", r'{"input": "SELECT \"name\"\nFROM users;"}')


def test_a_custom_tool_takes_a_text_of_its_form(served: Callable[..., Served]) -> None:
    """Chosen or free: the client sees the text, streamed as well; an expression holds it; it goes back."""
    here = served(answers=lambda r: "Done." if "<tool_response>" in r.text else WRITTEN)
    for choice in ("auto", "required", {"type": "custom", "custom": {"name": "sql"}}):
        made = ChatCompletion.model_validate(
            here.post(CHAT, **ask(tools=[CUSTOM], tool_choice=choice)), strict=True
        )
        (called,) = made.choices[0].message.tool_calls
        assert (called.type, called.custom.name, called.custom.input) == ("custom", "sql", QUERY)
    (delta,) = [
        one
        for event in here.events(CHAT, **ask(tools=[CUSTOM]))
        for one in event["choices"][0]["delta"].get("tool_calls", ())
    ]
    assert delta == {
        "index": 0,
        "id": delta["id"],
        "type": "custom",
        "custom": {"name": "sql", "input": QUERY},
    }
    turns = [*ask()["messages"], made.choices[0].message.model_dump(exclude_none=True)]
    result = {"role": "tool", "tool_call_id": called.id, "content": "Ann"}
    done = here.post(CHAT, messages=[*turns, result], tools=[CUSTOM])
    assert done["choices"][0]["message"]["content"] == "Done."
    assert WRITTEN in here.backend.requests[-1].text
    free = {"type": "custom", "custom": {"name": "sql"}}
    assert here.post(CHAT, **ask(tools=[free]))["choices"][0]["message"]["tool_calls"][0]["type"] == "custom"
    broken = here.client.post(CHAT, json=ask(tools=[_with({**SQL, "definition": "[0-9]+"})]))
    assert (broken.status_code, "forbids" in broken.text) == (500, True)


def test_a_custom_tool_in_responses(served: Callable[..., Served]) -> None:
    """Items and events are OpenAI's own types; an earlier call and what came back are turns."""
    here = served(answers=lambda r: "Done." if "<tool_response>" in r.text else WRITTEN)
    asked = {"input": "Hi", "tools": [FLAT], "tool_choice": {"type": "custom", "name": "sql"}}
    made = Response.model_validate(here.post(RESPONSES, **asked), strict=True)
    assert [(item.type, item.input) for item in made.output] == [("custom_tool_call", QUERY)]
    kind: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    events = [kind.validate_python(event, strict=True) for event in here.events(RESPONSES, **asked)]
    assert [event.type.removeprefix("response.") for event in events[2:-1]] == [
        "output_item.added", "custom_tool_call_input.delta", "custom_tool_call_input.done",
        "output_item.done",
    ]  # fmt: skip
    assert (events[4].input, events[-1].response.output[0].input) == (QUERY, QUERY)
    item = made.output[0].model_dump(exclude_none=True)
    result = {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "Ann"}
    turns = [{"role": "user", "content": "Hi"}, item, result]
    assert here.post(RESPONSES, input=turns, tools=[FLAT])["output"][0]["content"][0]["text"] == "Done."


def _with(grammar: dict[str, str]) -> dict[str, Any]:
    return {"type": "custom", "custom": {"name": "sql", "format": {"type": "grammar", "grammar": grammar}}}


def test_a_custom_tool_that_nothing_holds_is_refused(served: Callable[..., Served]) -> None:
    """Lark, look-around, what is no expression; a grammar where the calls of a free model are not held."""
    here = served()
    where = "tools[0].custom.format"
    for syntax, definition in (("lark", 'start: "a"'), ("regex", "(?=a)b"), ("regex", "(a")):
        here.refused(CHAT, where, **ask(tools=[_with({"syntax": syntax, "definition": definition})]))
    free = served(formatter="gpt_oss")
    assert "required" in free.refused(CHAT, "tool_choice", **ask(tools=[CUSTOM]))["message"]


@pytest.mark.parametrize(("outputs", "said"), [
    ({"choice": ["yes", "no"]}, "no"),
    ({"regex": "[0-9]{3}"}, "123"),
    ({"json": {"type": "integer"}}, "7"),
    ({"json": '{"type": "integer"}'}, "7"),
    ({"json_object": True}, "{}"),
    ({"grammar": 'root ::= "xy"'}, "xy"),
])  # fmt: skip
def test_structured_outputs_as_vllm_has_them(
    served: Callable[..., Served], outputs: dict[str, Any], said: str
) -> None:
    """Chats and texts are held to what vLLM's field says."""
    here = served(answers=lambda _request: said)
    here.post(CHAT, **ask(structured_outputs=outputs))
    here.post(TEXT, prompt="Hi", structured_outputs=outputs)
    kinds = {"choice": "choices", "json_object": "json", "grammar": "gbnf"}
    name = next(iter(outputs))
    assert [r.constraint.kind for r in here.backend.requests] == [kinds.get(name, name)] * 2


def test_fields_of_others_are_answered_with_ours(served: Callable[..., Served]) -> None:
    """What is not taken, or not together, names itself and what to write."""
    here = served()
    for field, value, words in (
        ("functions", [], "tools="),
        ("function_call", "auto", "tool_choice="),
        ("guided_choice", ["a"], 'structured_outputs={"choice"'),
        ("prediction", {"type": "content", "content": "x"}, "Leave it out"),
        ("verbosity", "low", "max_tokens"),
        ("structured_outputs", {}, "expected one of json, regex"),
        ("structured_outputs", {"regex": "a", "choice": ["a"]}, "expected one of json, regex"),
    ):
        assert words in here.refused(CHAT, field, **ask(**{field: value}))["message"]
    assert "its own marks" in here.refused(TEXT, "suffix", prompt="a", suffix="b")["message"]
    assert list(here.server.log)[-1].ended == "400 suffix"
    here.post(CHAT, **ask())
    here.post(CHAT, **ask(max_tokens=-1))
    assert here.backend.requests[-1].max_tokens == here.backend.requests[-2].max_tokens
    here.post(CHAT, **ask(functions=None, prediction=None, audio=None, verbosity="medium"))
    picture = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]
    where = "messages[0].content[0].type"
    error = here.refused(CHAT, where, messages=[{"role": "user", "content": picture}])
    assert error["message"].startswith(f"{where} is 'image_url'; expected 'text'")
    both = {"structured_outputs": {"regex": "a"}, "regex": "a"}
    assert "stand together" in here.refused(CHAT, "regex", **ask(**both))["message"]
