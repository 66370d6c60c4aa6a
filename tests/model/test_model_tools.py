"""Tools: their schema, the turns in which they are called and answered, and what forces or forbids a call."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field

from llama_magic import formatters
from llama_magic.errors import (
    ContextOverflowError,
    GenerationInterrupted,
    InputTypeError,
    OptionError,
    SchemaError,
    TemplateError,
)
from llama_magic.model.asked import Beside
from llama_magic.model.tools import docstring
from llama_magic.model.tools.loop import Rounds
from llama_magic.model.tools.offer import Offer
from llama_magic.model.tools.tool import Tool
from llama_magic.testing import scripted_model
from llama_magic.words.calls import call_words

ASK = [{"role": "user", "content": "What is the weather in Lyon?"}]


def weather(city: str, days: int = 1) -> dict[str, Any]:
    """Say the weather.

    Args:
        city: name of a city,
            in English
        days (int): how many
    """
    return {"city": city, "days": days}


class Place(BaseModel):
    lat: float


def call(name: str, **arguments: Any) -> str:
    """Return a call as ChatML's models write it."""
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


# --- schemas ---


def test_a_schema_comes_from_signature_and_docstring() -> None:
    """Types, defaults and requirements are the signature's, descriptions the docstring's or `Field`'s."""

    def f(
        city: str, unit: Literal["c", "f"] = "c", at: Place | None = None, n: Annotated[int, Field(ge=1)] = 2
    ) -> None:
        """Do it.

        :param city: where
        :param str unit: in what
        """

    body = Tool.of(f).description_for_api["function"]
    assert (body["name"], body["description"]) == ("f", "Do it.")
    properties = body["parameters"]["properties"]
    assert properties["city"] == {"type": "string", "description": "where"}
    assert properties["unit"] == {
        "default": "c", "enum": ["c", "f"], "type": "string", "description": "in what",
    }  # fmt: skip
    assert properties["n"]["minimum"] == 1
    assert body["parameters"]["required"] == ["city"]
    assert body["parameters"]["$defs"]["Place"]["required"] == ["lat"]


GOOGLE = """Do it.

    Args:
        a: the a
            goes on
        b (int): the b

    Returns:
        c: no
    """
NUMPY = """Do it.

    Parameters
    ----------
    a : int
        the a
        goes on
    b : str
        the b
    """
SPHINX = """Do it.

    :param a: the a
        goes on
    :param int b: the b
    :returns: a: no
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX])
def test_three_kinds_of_docstring_are_read(text: str) -> None:
    """Google's, NumPy's and Sphinx's forms give the same descriptions."""
    assert docstring.read(text) == ("Do it.", {"a": "the a goes on", "b": "the b"})


def test_what_cannot_be_a_tool_is_refused_by_name() -> None:
    """No name, a parameter without a name, a type without a schema, a foreign object, two of one name."""

    def rest(*args: int) -> None: ...

    def odd(x: threading.Thread) -> None: ...

    model = scripted_model()
    for tools, error, words in (
        ([lambda x: x], OptionError, "<lambda>"),
        ([rest], OptionError, r"rest takes \*args"),
        ([odd], OptionError, "odd has no schema"),
        ([3], InputTypeError, "int"),
        ([weather, weather], OptionError, "Two tools are called 'weather'"),
        (weather, InputTypeError, "tools is a function"),
        ([{"type": "retrieval"}], OptionError, "retrieval"),
        ([{"name": "a b"}], OptionError, "'a b'"),
        ([{"name": "auto"}], OptionError, "'auto'"),
        ([{"name": "x", "parameters": {"type": "array"}}], OptionError, "x are no schema of an object"),
    ):
        with pytest.raises(error, match=words):
            model.chat(ASK, tools=tools)
    assert model.backend.requests == []  # type: ignore[attr-defined]


def test_a_schema_that_cannot_be_held_names_its_tool() -> None:
    """The error of a tool's schema says whose it is."""
    tool = {
        "name": "pick",
        "parameters": {"type": "object", "properties": {"x": {"enum": []}}, "required": ["x"]},
    }
    with pytest.raises(SchemaError, match="The tool pick"):
        scripted_model().chat(ASK, tools=[tool])


# --- the turns ---


def test_a_call_is_said_run_and_answered(capsys: pytest.CaptureFixture[str]) -> None:
    """The line stands before the function runs; its result is a tool turn; every turn is in the messages."""
    seen: list[str] = []

    def look(city: str) -> dict[str, Any]:
        """Look."""
        seen.append(capsys.readouterr().out)
        return {"city": city, "sky": "grün"}

    model = scripted_model([call("look", city="Lyon"), "It is fine."])
    answer = model.chat(ASK, tools=[look])
    assert seen == ['→ look(city="Lyon")\n']
    assert answer.text == "It is fine."
    assistant, tool = answer.steps
    (made,) = assistant["tool_calls"]
    assert made["function"] == {"name": "look", "arguments": '{"city": "Lyon"}'}
    told = '{"city": "Lyon", "sky": "grün"}'
    assert tool == {"role": "tool", "tool_call_id": made["id"], "name": "look", "content": told}
    assert [*answer.messages[:1], *answer.messages[-1:]] == [
        *ASK,
        {"role": "assistant", "content": "It is fine."},
    ]
    assert answer.messages[1:3] == answer.steps
    first, second = model.backend.requests  # type: ignore[attr-defined]
    assert '"description": "Look."' in first.text
    assert '<tool_response>\n{"city": "Lyon", "sky": "grün"}\n</tool_response>' in second.text


def test_a_call_that_runs_unseen_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """`tools_auto` leaves the line out."""
    model = scripted_model([call("weather", city="Lyon"), "Fine."])
    assert model.chat(ASK, tools=[weather], tools_auto=True).text == "Fine."
    assert capsys.readouterr().out == ""


def failing(tools: Sequence[Callable[..., Any]], *answers: str, **options: Any) -> list[str]:
    """Return the results that a model was told."""
    answer = scripted_model([*answers, "Well."], window=4096).chat(
        ASK, tools=tools, tools_auto=True, **options
    )
    assert answer.text == "Well."
    return [step["content"] for step in answer.steps if step["role"] == "tool"]


def test_errors_go_back_as_tool_turns() -> None:
    """What a function raises, an unknown name, wrong arguments, an unreadable call: each is told."""

    def broken(x: int) -> None:
        raise RuntimeError(f"no {x}")

    def never(x: Annotated[int, AfterValidator(lambda x: 1 // 0)]) -> None: ...

    assert failing([broken], call("broken", x=1)) == ["Error: RuntimeError: no 1"]
    (told,) = failing([never], call("never", x=1))
    assert told == "Error: ZeroDivisionError: integer division or modulo by zero"
    # A mask keeps the model from these; a server, or a family whose calls are not held, may send them.
    tools = Offer.read([weather])
    rounds = Rounds(None, tools, ASK, {}, Beside(), announce=None)  # type: ignore[arg-type]
    for made, words in (
        ({"name": "wether", "arguments": {}}, "There is no tool 'wether'. Did you mean weather?"),
        ({"name": "weather", "arguments": {"town": "Lyon"}}, "city Missing required argument"),
        (
            {"name": "weather", "arguments": {"city": "Lyon", "days": "many"}},
            "days Input should be a valid",
        ),
        ({"name": "weather", "arguments": "Lyon"}, "Error: "),
        ({"name": "", "arguments": None, "raw": "{"}, "could not be read"),
    ):
        assert words in rounds.answered({"id": "1", **made}, rounds.run(made))["content"]


def test_results_of_every_kind_are_read() -> None:
    """A text is given as it is, data as JSON, other objects as their text."""

    class Thing:
        def __str__(self) -> str:
            return "a thing"

    def give(what: str) -> Any:
        return {"text": "as it is", "list": [1, None], "thing": Thing(), "none": None}[what]

    calls = "\n".join(call("give", what=what) for what in ("text", "list", "thing", "none"))
    assert failing([give], calls) == ["as it is", "[1, null]", '"a thing"', "null"]


def test_a_loop_of_calls_is_bounded() -> None:
    """After `tool_rounds` rounds the model is asked once more, cannot call, and the answer says so."""
    model = scripted_model([call("weather", city="Lyon")] * 3 + ["Enough."])
    answer = model.chat(ASK, tools=[weather], tools_auto=True, tool_rounds=3)
    assert answer.text == "Enough."
    assert [r.tool_choice for r in model.backend.requests] == ["auto"] * 3 + ["none"]  # type: ignore[attr-defined]
    assert any("after 3 rounds of tool calls" in note for note in answer.notes)
    with pytest.raises(OptionError, match="tool_rounds is 0"):
        model.chat(ASK, tools=[weather], tool_rounds=0)


def test_a_forced_choice_holds_for_the_first_answer_only() -> None:
    """With a name or "required" the first answer is a call; what follows may be words."""
    for choice in ("weather", "required", {"type": "function", "function": {"name": "weather"}}):
        model = scripted_model([call("weather", city="Lyon"), "Fine."])
        answer = model.chat(ASK, tools=[weather], tool_choice=choice, tools_auto=True)
        assert (answer.text, len(answer.steps)) == ("Fine.", 2)
        assert [r.tool_choice for r in model.backend.requests][1] == "auto"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("parallel", "count"), [(None, 1), (True, 2), (False, 1)])
def test_one_call_or_several(parallel: bool | None, count: int) -> None:
    """The mask ends an answer behind its first call, unless several were allowed."""
    model = scripted_model([call("weather", city="Lyon") + "\n" + call("weather", city="Rome")])
    tools = [Tool.of(weather).description_for_api]
    answer = model.chat(ASK, tools=tools, tool_choice="required", parallel_tool_calls=parallel)
    cities = [one["arguments"]["city"] for one in answer.tool_calls]
    assert cities == ["Lyon", "Rome"][:count]


def test_a_result_that_does_not_fit_is_told_as_an_error() -> None:
    """A result over the window does not end the conversation; a conversation that never fitted does."""

    def book() -> str:
        return "word " * 2000

    answer = scripted_model([call("book"), "Too long."]).chat(ASK, tools=[book], tools_auto=True)
    assert answer.text == "Too long."
    assert answer.steps[1]["content"].startswith("Error: the result is too long; with it")
    with pytest.raises(ContextOverflowError):
        scripted_model().chat([{"role": "user", "content": "word " * 2000}], tools=[book])


def test_an_interrupt_in_a_function_keeps_what_was_said() -> None:
    """Ctrl-C while a function runs stops the call; the completion with its tool call is kept."""

    def slow() -> None:
        raise KeyboardInterrupt

    with pytest.raises(GenerationInterrupted, match="slow was stopped") as caught:
        scripted_model([call("slow")]).chat(ASK, tools=[slow], tools_auto=True)
    assert caught.value.completion.tool_calls[0]["name"] == "slow"


def test_async_functions_are_waited_for() -> None:
    """An async function runs in `achat` and in `chat`; its error is told like any other."""

    async def fetch(key: str) -> str:
        await asyncio.sleep(0)
        if key == "b":
            raise LookupError(key)
        return f"value of {key}"

    script = ["\n".join((call("fetch", key="a"), call("fetch", key="b"))), "Done."]
    told = ["value of a", "Error: LookupError: b"]
    options: dict[str, Any] = {"tools": [fetch], "tools_auto": True}
    one = scripted_model(script).chat(ASK, **options)
    other = asyncio.run(scripted_model(script).achat(ASK, **options))  # type: ignore[arg-type]
    for answer in (one, other):
        assert [step["content"] for step in answer.steps[1:]] == told


def test_a_stream_tells_calls_before_they_run_and_results_after() -> None:
    """Chunks hold a call when it is whole, then its turn, then the answer; both kinds of stream agree."""
    ran: list[str] = []

    def note(x: str) -> str:
        ran.append(x)
        return x.upper()

    def events(chunk: Any) -> list[Any]:
        found: list[Any] = [("call", made["arguments"]["x"], list(ran)) for made in chunk.tool_calls]
        found += [("turn", turn["content"]) for turn in chunk.turns]
        return found + ([chunk.delta] if chunk.delta else [])

    async def read() -> list[Any]:
        stream = model().achat(ASK, tools=[note], tools_auto=True, stream=True)
        return [event async for chunk in stream for event in events(chunk)]

    def model() -> Any:
        ran.clear()
        return scripted_model([call("note", x="a"), "ok"])

    stream = model().chat(ASK, tools=[note], tools_auto=True, stream=True)
    told = [event for chunk in stream for event in events(chunk)]
    assert told == [("call", "a", []), ("turn", "A"), "o", "k"]
    assert stream.completion.text == "ok"
    assert asyncio.run(read()) == told


def test_tasks_share_a_stream_that_runs_tools() -> None:
    """Three tasks that read one stream get its chunks between them; a call is run once."""
    ran: list[str] = []

    def note(x: str) -> str:
        ran.append(x)
        return x

    async def read() -> list[str]:
        model = scripted_model([call("note", x="a"), "ok"])
        stream = await model.achat(ASK, tools=[note], tools_auto=True, stream=True)
        got: list[str] = []

        async def reader() -> None:
            async for chunk in stream:
                got.append(chunk.delta)

        await asyncio.gather(reader(), reader(), reader())
        return got

    assert "".join(asyncio.run(read())) == "ok"
    assert ran == ["a"]


# --- what is not run here ---


def test_calls_of_descriptions_are_given_back() -> None:
    """A tool without a function is not run: its call stands in `tool_calls` and in the last message."""
    tool = Tool.of(weather).description_for_api
    answer = scripted_model([call("weather", city="Lyon")]).chat(ASK, tools=[tool, len_of])
    (made,) = answer.tool_calls
    assert (made["name"], made["arguments"]) == ("weather", {"city": "Lyon"})
    assert answer.messages[-1]["tool_calls"][0]["id"] == made["id"]
    assert answer.steps == ()
    assert json.loads(answer.receipt["asked"]["tools"])[0] == tool


def len_of(text: str) -> int:
    return len(text)


def test_ids_are_the_same_by_seed_and_differ_otherwise() -> None:
    """A seed makes the same ids; samples, calls and other seeds have others."""

    def ids(seed: int | None, n: int = 1) -> list[str]:
        script = [f"{call('weather', city='A')}\n{call('weather', city='B')}"]
        made = scripted_model(script).chat(ASK, tools=[Tool.of(weather).description_for_api], seed=seed, n=n)
        return [c["id"] for one in (made if isinstance(made, list) else [made]) for c in one.tool_calls]

    assert ids(7) == ids(7)
    assert len({*ids(7, 3), *ids(8), *ids(None), *ids(None)}) == 6 + 2 + 4
    assert all(len(i) == 9 and i.isalnum() for i in ids(7))


def test_what_stands_against_tools_is_refused() -> None:
    """A constraint or several samples beside functions, a choice without tools, an unknown choice."""
    model = scripted_model()
    for options, words in (
        ({"tools": [weather], "regex": "a+"}, "tools stand beside a constraint"),
        ({"tools": [weather], "n": 2}, "n asks for several"),
        ({"tool_choice": "required"}, "no tools are given"),
        ({"tools": [weather], "tool_choice": "wether"}, "Did you mean weather"),
        ({"tools": [weather], "tool_choise": "weather"}, "Did you mean tool_choice"),
    ):
        with pytest.raises(OptionError, match=words):
            model.chat(ASK, **options)  # type: ignore[call-overload]


def test_tools_as_text_where_the_template_has_none() -> None:
    """A family without tools refuses them by name; as text they are written, called and answered."""
    model = scripted_model(formatter="gemma")
    with pytest.raises(TemplateError, match="gemma has no form for tools") as refused:
        model.chat(ASK, tools=[weather])
    assert "tools_as_text" in str(refused.value.remedy)
    assert "'gguf'" in str(refused.value.remedy)
    guessed = formatters.detect(SimpleNamespace(architecture="gemma3"))  # the file has no template
    with pytest.raises(TemplateError, match="gemma has no form for tools") as refused:
        guessed.render([{"role": "user", "content": ASK}], tools=[{"name": "weather"}])
    assert str(refused.value.remedy) == "Have them written as text: tools_as_text=True."
    model = scripted_model([call("weather", city="Lyon"), "Fine."], formatter="gemma")
    answer = model.chat(ASK, tools=[weather], tools_as_text=True, tool_choice="required", tools_auto=True)
    assert answer.text == "Fine."
    requests = model.backend.requests  # type: ignore[attr-defined]
    first, second = (request.text for request in requests)
    assert first == model.prompt_for(ASK, tools=[weather], tools_as_text=True)
    assert '"description": "name of a city, in English"' in first
    assert f"<start_of_turn>model\n{call('weather', city='Lyon')}<end_of_turn>" in second
    assert '<tool_response>\n{"city": "Lyon", "days": 1}\n</tool_response>' in second
    assert model.count_tokens(ASK, tools=[weather], tools_as_text=True) == len(requests[0].prompt)


def test_a_call_that_is_cut_is_not_run_and_that_is_said() -> None:
    """It has no name yet; the note names what would let it go on. A whole call has none."""
    ran: list[str] = []
    written = call("note", text="a b c d")

    def note(text: str) -> str:
        ran.append(text)
        return "ok"

    why = "the answer was cut within a call of a tool, which was not run; it needs more tokens (max_tokens=)"
    for most, notes in ((4, [why]), (200, [])):
        model = scripted_model([written, "Done."])
        answer = model.chat("Note it.", tools=[note], max_tokens=most)
        assert [said for said in answer.notes if "within a call" in said] == notes
    assert ran == ["a b c d"]


def test_calls_in_words() -> None:
    """A call is one line of Python's form; what a terminal would obey is shown, a long value is cut."""
    assert call_words("f", {"a": "x\ny", "b": [1, True], "c": None}) == 'f(a="x\\ny", b=[1, true], c=None)'
    assert call_words("", None) == "?()"
    assert call_words("f\x1b[0m", "raw") == 'f␛[0m("raw")'
