"""Requests that equal one of a record are answered from it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import llama_magic as lm
from llama_magic import display
from llama_magic.errors import OptionError, SourceError
from llama_magic.model.results import Completion
from llama_magic.testing import Script, scripted_model

HI = [{"role": "user", "content": "Hi"}]
QUICKSTART = Path(__file__).parents[2] / "notebooks" / "00_quickstart.ipynb"


def recorded(session: Any, model: Any, ask: Any) -> Any:
    """Return what `ask` gives while a record is kept; and leave it so that it is replayed from now on."""
    session.keep_record("r.sqlite")
    made = ask(model)
    session.keep_record(None)
    model.backend.answers = lambda _request: "anew"
    return made


def every_kind(model: Any) -> list[Any]:
    """Return an answer of each kind of call."""
    chunks = list(model.chat(HI, max_tokens=5, stream=True))
    return [
        model.complete("Q", max_tokens=5, seed=1),
        model.chat(HI, max_tokens=5, stop=["x"], tag="t"),
        *model.complete("Q", n=3, max_tokens=5, logprobs=1),
        model.structured("A digit?", int, seed=1, retries=1),
        model.chat(HI, prefill="Well", max_tokens=5),
        model.complete("Q", choices=["yes", "no"]),
        asyncio.run(model.acomplete("A", max_tokens=5)),
        "".join(chunk.delta for chunk in chunks),
    ]


def scripts(request: Any) -> str:
    """Answer by what was asked, and how often."""
    return "7" if request.constraint is not None and request.constraint.kind == "json" else "yes"


def test_equal_requests_are_answered_from_the_record(session: Any, model: Any) -> None:
    """All that the answers hold is as it was, and they say so; another request is asked of the model."""
    model.backend.answers = scripts
    before = recorded(session, model, every_kind)
    asked = len(model.backend.requests)
    session.replay_from("r.sqlite")
    again = every_kind(model)
    assert again == before
    assert len(model.backend.requests) == asked
    assert [one.id for one in again[:-1]] == [one.id for one in before[:-1]]
    assert all(one.replayed.startswith("r.sqlite, 20") for one in again[:-1])
    assert "answered from the record r.sqlite, 20" in display.to_text(again[0])
    assert again[0].timings == before[0].timings
    for changed in ({"seed": 2}, {"max_tokens": 6}, {"temperature": 0.5}, {"stop": "z"}, {"logprobs": 1}):
        assert model.complete("Q", **{"max_tokens": 5, "seed": 1, **changed}).text == "anew"
    assert model.complete("Q ", max_tokens=5, seed=1).text == "anew"
    session.replay_from(None)
    assert model.complete("Q", max_tokens=5, seed=1).text == "anew"


def test_answers_without_a_seed_come_in_their_order(session: Any, model: Any) -> None:
    """Several answers to one request are given one after the other, then anew; cut ones never are."""
    model.backend.answers = ["one", "two", Script("three and more", at=1, hold=None), "four"]

    def ask(model: Any) -> None:
        for _ in range(2):
            model.complete("Q")
        stream = model.complete("Q", stream=True)
        next(stream)
        stream.cancel()

    recorded(session, model, ask)
    kept = [one.finish_reason for one in lm.open_record("r.sqlite")]
    session.replay_from("r.sqlite")
    expected = ["one", "two", "one"] if kept[2] == "interrupted" else ["one", "two", "three and more"]
    assert [model.complete("Q").text for _ in range(3)] == expected


def test_the_same_fields_in_another_order_are_another_request(session: Any, model: Any) -> None:
    """An answer has its schema's order, so it does not answer for a schema with another one."""
    model.backend.answers = lambda _request: '{"b": 1, "a": 1}'
    recorded(session, model, lambda model: model.structured("Q", "b int, a int", seed=1))
    session.replay_from("r.sqlite")
    assert list(model.structured("Q", "b int, a int", seed=1).parsed) == ["b", "a"]
    model.backend.answers = lambda _request: '{"a": 2, "b": 2}'
    assert model.structured("Q", "a int, b int", seed=1).parsed == {"a": 2, "b": 2}


def test_what_is_replayed_is_history_and_no_new_row(session: Any, model: Any) -> None:
    """It stands in the history; a record that is kept meanwhile holds what was generated only."""
    model.backend.answers = scripts
    recorded(session, model, lambda model: model.complete("Q", seed=1))
    session.replay_from("r.sqlite")
    session.keep_record("other.sqlite")
    model.complete("Q", seed=1)
    model.complete("New", seed=1)
    assert [entry.completion.text for entry in session.history] == ["yes", "yes", "anew"]
    assert [one.text for one in lm.open_record("other.sqlite")] == ["anew"]


def test_half_a_call_is_no_answer(session: Any, model: Any) -> None:
    """Samples are replayed all together; a record that lacks one of them asks the model."""
    model.backend.answers = scripts
    recorded(session, model, lambda model: model.complete("Q", n=3, seed=1))
    record = lm.open_record("r.sqlite")
    record.database.write("DELETE FROM answers WHERE id = 2")
    session.replay_from("r.sqlite")
    assert [one.text for one in model.complete("Q", n=3, seed=1)] == ["anew"] * 3


def test_only_what_was_recorded_is_answered(
    run: Any, session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --only the model comes out of the record, too: templates, counts and errors are as they were."""
    model = scripted_model(scripts, options={"window": 512})
    session.keep(model)
    session.keep_record("r.sqlite")
    made = [run("%%llama chat --seed 1\nHi").result, run("%%llama complete --seed 1\nQ").result]
    counted = model.count_tokens(HI), model.tokenize("some words"), model.token_strip("some words")
    overflow = str(run("%%llama complete -n 5000\nQ").error_in_exec)
    session.keep_record(None)
    run("%llama unload --all")
    run("%llama replay r.sqlite --only")
    assert "nothing else is answered" in capsys.readouterr().out
    loaded = run("%llama load").result
    assert "no weights are loaded" in capsys.readouterr().out
    assert run("%%llama chat --new --seed 1\nHi").result == made[0]
    assert run("%%llama complete --seed 1\nQ").result == made[1]
    assert (
        loaded.count_tokens(HI),
        loaded.tokenize("some words"),
        loaded.token_strip("some words"),
    ) == counted
    assert loaded.detokenize(counted[1]) == "some words"
    assert str(run("%%llama complete -n 5000\nQ").error_in_exec) == overflow
    assert "does not know the text 'Q?'" in str(run("%%llama complete --seed 1\nQ?").error_in_exec)
    assert "no answer to this request" in str(run("%%llama complete --seed 2\nQ").error_in_exec)
    assert "engine in it" in str(run("%%llama surprise\nQ").error_in_exec)
    for wrong in ("nobody", "--ctx 1024"):
        assert isinstance(run(f"%llama load {wrong}").error_in_exec, OptionError), wrong
    assert lm.load("scripted") is loaded
    assert lm.load("record:r.sqlite").complete("Q", seed=1).text == made[1].text
    run("%llama replay off")
    assert "No longer answered from r.sqlite" in capsys.readouterr().out


def test_the_verb(run: Any, session: Any, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a word it says what is replayed; a missing file, and off without one, are told apart."""
    assert "Nothing is replayed" in str(run("%llama replay").error_in_exec)
    assert isinstance(run("%llama replay none.sqlite").error_in_exec, SourceError)
    run("%llama replay off")
    assert "Nothing was replayed" in capsys.readouterr().out
    session.keep_record("r.sqlite")
    run("%%llama complete\nQ")
    run("%llama replay r.sqlite")
    capsys.readouterr()
    run("%llama replay")
    assert "Replay of r.sqlite: 1 answer" in capsys.readouterr().out
    run("%%llama complete\nQ")
    assert "answered from the record r.sqlite" in capsys.readouterr().out
    assert isinstance(run("%llama replay off --only").error_in_exec, OptionError)


def test_a_batch_is_no_record_of_a_model(run: Any, model: Any) -> None:
    """What only `lm.map` wrote knows answers but no model: --only says so."""
    with lm.Record("batch.sqlite") as record:
        record.add(model.complete("Q"))
    run("%llama replay batch.sqlite --only")
    assert "knows no model" in str(run("%llama load").error_in_exec)


def test_the_quick_start_is_replayed_without_llama_cpp(
    ip: Any, tmp_path: Path, short_demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every cell ends as it did, where llama.cpp cannot be imported; a changed prompt is refused."""
    monkeypatch.syspath_prepend(str(short_demo))
    cells = [
        "".join(cell["source"]).replace("-n 60", "-n 8").replace("-n 40", "-n 8")
        for cell in json.loads(QUICKSTART.read_text("utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]
    assert sum("%%llama" in cell for cell in cells) >= 5
    ip.run_cell("%llama record quick.sqlite")
    ended = []
    for source in cells:
        result = ip.run_cell(source, store_history=True)
        value = result.result
        words = value.text if isinstance(value, Completion) else repr(value)
        ended.append({"value": words, "error": str(result.error_in_exec or "")})
    ip.run_cell("%llama record off")
    parsed = repr(ip.user_ns["answer"].parsed)
    changed = next(cell for cell in cells if "primary colours" in cell).replace("primary", "secondary")
    Path("cells.json").write_text(json.dumps([*cells, "%llama load --ctx 2048", changed]), "utf-8")
    script = Path(__file__).with_name("replayed_quickstart.py")
    command = [sys.executable, str(script), "quick.sqlite", "cells.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.partition("RESULT")[2])
    for mine, theirs in zip(ended, told["cells"], strict=False):
        kept = {name: theirs[name] for name in ("value", "error")}
        assert kept == mine | ({"value": kept["value"]} if mine["value"].startswith("<Model") else {})
    assert told["parsed"] == parsed
    assert told["replayed"].startswith("quick.sqlite")
    assert "does not know the text" in told["cells"][-1]["error"]
