"""`%%llama chat --tools`: functions of the notebook, the loop turn by turn, in the chat and on the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llama_magic.display.live.feed import Feed
from llama_magic.errors import OptionError, TemplateError
from llama_magic.model.results import Chunk

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Lyon"}}\n</tool_call>'


@pytest.fixture
def functions(run: Any) -> None:
    """Two functions in the notebook's namespace."""
    run(
        "def weather(city: str) -> dict:\n    'Say the weather.'\n    return {'city': city, 'sky': 'clear'}\n"
        "def clock() -> str:\n    raise RuntimeError('no clock')"
    ).raise_error()


@pytest.mark.usefixtures("functions")
def test_the_loop_is_shown_and_every_turn_is_in_the_chat(
    run: Any, session: Any, model: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Call and result are written as they happen; chat and file hold user, call, result, answer."""
    model.backend.answers = [CALL, "It is clear.", "Anything else?"]
    run("%%llama chat --tools weather,clock\nWeather in Lyon?").raise_error()
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ['→ weather(city="Lyon")', '← {"city": "Lyon", "sky": "clear"}', "It is clear."]
    chat = session.chats["default"]
    assert [m["role"] for m in chat.messages] == ["user", "assistant", "tool", "assistant"]
    run("%%llama\nThanks.").raise_error()
    assert [m["role"] for m in model.backend.requests[-1].messages][-2:] == ["assistant", "user"]
    assert "<tool_response>" in model.backend.requests[-1].text
    run("%llama chat default save talk.json")
    saved = json.loads((tmp_path / "talk.json").read_text("utf-8"))["messages"]
    assert saved[1]["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Lyon"}'}
    capsys.readouterr()
    run("again = get_ipython().run_line_magic('llama', 'chat copy load talk.json')").raise_error()
    run("print(again)\nprint(get_ipython().display_formatter.format(again)[0]['text/plain'])")
    said = capsys.readouterr().out
    assert 'assistant: weather({"city": "Lyon"})' in said
    assert '→ weather(city="Lyon")\ntool\n← {"city": "Lyon", "sky": "clear"}\nassistant\nIt is clear.' in said


@pytest.mark.usefixtures("functions", "model")
def test_what_is_left_on_the_page_holds_the_turns(run: Any, ip: Any, model: Any) -> None:
    """The static view has calls, results and the error of a tool; what a model wrote stays text."""
    hostile = '<tool_call>\n{"name": "weather", "arguments": {"city": "<b>x</b>"}}\n</tool_call>'
    clock = '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>'
    model.backend.answers = [f"Let me see.\n{hostile}\n{clock}", "Well."]
    run("%%llama chat -n 250 --tools weather,clock -o r\nWhat?").raise_error()
    bundle = ip.user_ns["r"]._repr_mimebundle_()
    assert "Let me see." in bundle["text/plain"]
    assert "← Error: RuntimeError: no clock" in bundle["text/plain"]
    assert "&lt;b&gt;x" in bundle["text/html"]
    assert "<b>x" not in bundle["text/html"]


@pytest.mark.usefixtures("functions")
def test_options_reach_the_call(run: Any, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """--tool-choice, --tool-rounds, --tools-as-text are those of `model.chat`; a list variable will do."""
    model.backend.answers = [CALL, CALL, "Done."]
    run("both = [weather, clock]").raise_error()
    for word in ("both", "$both", "{both}"):
        run(f"%%llama chat --tools {word} --tool-choice weather --tool-rounds 2 --new\nQ").raise_error()
        model.backend.answers = [CALL, CALL, "Done."]
    asked = model.backend.requests
    assert [r.tool_choice for r in asked] == ["weather", "auto", "none"] * 3
    assert [t["function"]["name"] for t in asked[0].tools] == ["weather", "clock"]
    capsys.readouterr()
    model.formatter = type(model.formatter)()
    model.formatter.writes_tools = False
    assert isinstance(run("%%llama chat --tools weather --new\nQ").error_in_exec, TemplateError)
    model.backend.answers = [CALL, "Done."]
    run("%%llama chat --tools weather --new --tools-as-text\nQ").raise_error()


@pytest.mark.usefixtures("functions")
def test_nothing_runs_unseen_unless_asked(run: Any, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """-q with tools is refused; with --tools-auto nothing is shown; a plain host prints each call."""
    model.backend.answers = [CALL, "Done."] * 3
    error = run("%%llama chat -q --tools weather\nQ").error_in_exec
    assert isinstance(error, OptionError)
    assert "--tools-auto" in str(error)
    assert model.backend.requests == []
    capsys.readouterr()
    run("%%llama chat -q --tools weather --tools-auto\nQ").raise_error()
    assert "weather" not in capsys.readouterr().out
    run("%%capture out\nget_ipython().run_cell_magic('llama', 'chat --tools weather', 'Q')").raise_error()
    run("print(out.stdout)")
    assert capsys.readouterr().out.startswith('→ weather(city="Lyon")\n')


@pytest.mark.usefixtures("functions", "model")
def test_an_unknown_function_names_the_nearest(run: Any) -> None:
    """--tools takes names of the namespace."""
    error = run("%%llama chat --tools wether\nQ").error_in_exec
    assert isinstance(error, OptionError)
    assert "There is no 'wether' in your namespace. Did you mean weather?" in str(error)
    assert isinstance(run("%%llama chat --tools a-b\nQ").error_in_exec, OptionError)


def test_a_live_view_gets_calls_as_verbatim_lines() -> None:
    """A call in the middle of Markdown is a code block of its own, whatever it holds."""
    feed = Feed()
    feed.add(Chunk("**Hm**", "", tool_calls=({"name": "f", "arguments": {"x": "*a*"}},)))
    feed.add(Chunk("", "", turns=({"role": "tool", "content": "_b_\nc"},)))
    [[_, _, _, changes, *_]] = feed.take()["nodes"]
    text = json.dumps(changes)
    assert "pre" in text
    assert '→ f(x=\\"*a*\\")' in json.dumps(changes, ensure_ascii=False).replace('\\\\\\"', '\\"')
    assert "_b_" in text
