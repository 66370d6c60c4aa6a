"""`lm.map`: rows to runs, over the scripted backend; what one row does never touches another."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sqlite3
import sys
import threading
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pandas as pd
import pytest
from pydantic import BaseModel, field_validator

import llama_magic as lm
from llama_magic.experiments.rows import read_rows
from llama_magic.experiments.runs import Runs
from llama_magic.loading import hooks
from llama_magic.testing import Script, scripted_model

Point = namedtuple("Point", "x y")


@dataclass
class Pair:
    x: int
    y: str


class Review(BaseModel):
    mood: Literal["good", "bad"]
    stars: int


DATABASE = sqlite3.connect(":memory:")
DATABASE.row_factory = sqlite3.Row
(SQLITE,) = DATABASE.execute("SELECT 2 AS b")
HELLO = [{"role": "user", "content": "Hello"}]


def said(request: Any) -> str:
    """Return what the user said last in a request."""
    return str(request.messages[-1]["content"]) if request.messages else request.text


def upper(request: Any) -> str:
    return said(request).upper()


def asked(model: Any) -> list[str]:
    return [said(request) for request in model.backend.requests]


# --- rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        (pd.DataFrame({"a": [1, 2], "b": ["x", None]}), [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
        (pd.Series(["x", "y"], name="review"), [{"review": "x"}, {"review": "y"}]),
        (pd.Series(["x"]), [{"text": "x"}]),
        (pd.Series(["x"], name=""), [{"text": "x"}]),  # as one of polars without a name
        (SimpleNamespace(to_pylist=lambda: [{"a": 1}]), [{"a": 1}]),  # as a table of pyarrow
        (io.StringIO("x\r\ny\n", newline=""), [{"text": "x"}, {"text": "y"}]),
        (["x", "y"], [{"text": "x"}, {"text": "y"}]),
        ([{"a": 1}, {"b": 2}], [{"a": 1}, {"b": 2}]),
        ([HELLO], [{"messages": HELLO}]),
        ((text for text in ["x", "y"]), [{"text": "x"}, {"text": "y"}]),
        ([Point(1, 2), Pair(1, "z")], [{"x": 1, "y": 2}, {"x": 1, "y": "z"}]),
        (type("Geo", (pd.DataFrame,), {})({"a": [1]}, index=["k"]), [{"a": 1}]),
        ([pd.Series({"a": "x"}), SQLITE], [{"a": "x"}, {"b": 2}]),
        ([Review(mood="bad", stars=2)], [{"mood": "bad", "stars": 2}]),
        ([], []),
    ],
)
def test_rows_of_every_kind_are_dicts(given: Any, rows: list[dict[str, Any]]) -> None:
    """Tables, columns, dicts, texts, conversations, records of Python: a dict of columns each, in order."""
    read = [dict(row.inputs) for row in read_rows(given)]
    assert [{k: None if pd.isna(v) is True else v for k, v in row.items()} for row in read] == rows


TABLE = type("Relation", (list,), {"columns": ["a"]})(["a"])  # gives names of columns, as many a kind does


@pytest.mark.parametrize("given", ["a text", {"a": [1, 2]}, 5, None, b"bytes", TABLE])
def test_what_holds_no_rows_is_refused(given: Any) -> None:
    """A text is not taken for its letters, nor a dict of columns, or a table, for its names."""
    with pytest.raises(lm.InputTypeError, match="rows are a"):
        lm.map(given, "{{ text }}", model=scripted_model())


# --- answers ------------------------------------------------------------------------------------


def test_runs_stand_in_row_order_whatever_ends_first() -> None:
    """Runs are a sequence in the order of the rows, each with its inputs and its own answer."""
    gates = [threading.Event() for _ in range(6)]
    ended: list[int] = []

    def answer(request: Any) -> Script:
        row = int(said(request)[-1])
        return Script(upper(request), at=0, hold=gates[row]) if 0 < row < 5 else Script(upper(request))

    def one_more(standing: Any) -> None:  # the first is asked alone; then the last ends, then the one before
        ended.append(standing.done)
        gates[6 - standing.done].set() if standing.done > 1 else None

    frame = pd.DataFrame({"text": [str(i) for i in range(6)]})
    runs = lm.map(frame, "say {{ text }}", model=scripted_model(answer), progress=one_more)
    assert isinstance(runs, Runs)
    assert [run.text for run in runs] == [f"SAY {i}" for i in range(6)]
    assert [(run.row, run.inputs["text"]) for run in runs] == [(i, str(i)) for i in range(6)]
    assert [run.row for run in runs.newest(6)] == [1, 2, 3, 4, 5, 0]
    assert ended == [1, 2, 3, 4, 5, 6, 6]
    assert [run.row for run in runs[2:4]] == [2, 3]
    assert runs[-1].seconds == runs[-1].completion.timings.total_s  # type: ignore[union-attr]


def test_prompts_of_every_kind_are_filled() -> None:
    """A text is a user's turn, messages are filled one by one, and without a prompt a row is asked itself."""
    model = scripted_model(upper)
    rows = [{"a": "x", "n": 2}]
    assert [r.text for r in lm.map(rows, "{{ a * n }} {{ b }}", b="y", model=model)] == ["XX Y"]
    talk = [{"role": "system", "content": "S {{ a }}"}, {"role": "user", "content": "{{ n + 1 }}"}]
    assert [r.text for r in lm.map(rows, talk, model=model)] == ["3"]
    assert model.backend.requests[-1].messages[0] == {"role": "system", "content": "S x"}
    in_parts = [{"role": "user", "content": [{"type": "text", "text": "{{ a }} "}, "{{ b }}"]}]
    assert [r.text for r in lm.map(rows, in_parts, b="y", model=model)] == ["X Y"]
    with pytest.raises(lm.TemplateError, match=r"asks for \{\{ c \}\}"):
        lm.map(rows, [{"role": "user", "content": [{"type": "text", "text": "{{ c }}"}]}], model=model)
    named = lm.map(rows, "{{ a }} {{ b }}", variables={"b": "y"}, model=model)
    assert [r.text for r in named] == ["X Y"]
    assert [r.text for r in lm.map(rows, "{{ a }}", system="be {{ n }}", model=model)] == ["X"]
    assert model.backend.requests[-1].messages[0]["content"] == "be 2"
    assert [r.text for r in lm.map(["one", HELLO], model=model)] == ["ONE", "HELLO"]
    assert [r.text for r in lm.map(pd.Series(["one"], name="review"), model=model)] == [
        "ONE"
    ]  # its only column
    assert [r.text for r in lm.map([{"text": "one", "id": "7"}], model=model)] == ["ONE"]
    with_two = lm.map([{"a": "one", "b": "two"}], model=model)
    assert "neither a text nor a conversation" in str(with_two[0].error)
    named = lm.map(rows, {"role": talk, "plain": "{{ n }}"}, model=model)
    assert [r.text for r in named] == ["3", "2"]
    assert [r.text for r in lm.map(rows, "raw {{ a }}", mode="complete", model=model)] == ["RAW X"]
    assert model.backend.requests[-1].text == "raw x"


def test_structured_rows_are_instances() -> None:
    """With a schema `parsed` is an instance, with choices the choice; both keep to it."""
    model = scripted_model(lambda r: json.dumps({"mood": said(r), "stars": 3}))
    runs = lm.map(["good", "bad"], "{{ text }}", schema=Review, model=model)
    assert [run.parsed for run in runs] == [Review(mood="good", stars=3), Review(mood="bad", stars=3)]
    assert [run.answer("mood") for run in runs] == ["good", "bad"]
    runs = lm.map(["yes", "no"], choices=["yes", "no"], model=scripted_model(said))
    assert [run.answer() for run in runs] == ["yes", "no"]


# --- what one row does --------------------------------------------------------------------------


class Fussy(BaseModel):
    """A validator that fails in its own way."""

    word: str

    @field_validator("word")
    @classmethod
    def _look(cls, word: str) -> str:
        if word == "key":
            raise KeyError(word)
        if word == "value":
            raise ValueError("not this one")
        return word


def _fussy(request: Any) -> Any:
    if said(request) == "lost":
        return Script('{"wo', at=1, error=lm.BackendError("the lane failed"))
    return json.dumps({"word": said(request)})


def test_a_bad_row_costs_no_other() -> None:
    """Whatever is wrong with a row, or befalls its answer, is that row's error; the others are answered."""
    rows: list[Any] = [
        {"text": "fine"}, {"text": None}, {"text": float("nan")}, {"text": pd.NA}, 5, {"other": 1},
        {"text": "word " * 600}, {"text": "key"}, {"text": "value"}, {"text": "lost"}, {"text": "fine, too"},
    ]  # fmt: skip
    runs = lm.map(rows, "{{ text }}", schema=Fussy, model=scripted_model(_fussy))
    assert len(runs) == 11
    assert [run.answer("word") for run in runs if run.error is None] == ["fine", "fine, too"]
    kinds = [type(run.error).__name__ for run in runs]
    assert kinds == [
        "NoneType", *["TemplateError"] * 3, "InputTypeError", "TemplateError", "ContextOverflowError",
        *["StructuredOutputError"] * 2, "BackendError", "NoneType",
    ]  # fmt: skip
    assert [run.row for run in runs.failures] == list(range(1, 10))
    assert all(run.completion is None for run in runs.failures)
    assert "no text: the value is None" in str(runs[2].error)
    assert runs[8].text == '{"word": "value"}'  # what was written is kept
    assert list(runs.to_pandas()["answer"].isna()) == [run.completion is None for run in runs]
    assert repr(runs) == "<Runs: 11 rows, 9 errors>"


def test_without_a_model_the_only_one_loaded_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a script no model is current; the one in memory is meant, and no second one is loaded."""
    model = scripted_model({"a": "b"})
    monkeypatch.setattr(hooks, "current_model", lambda: None)
    monkeypatch.setattr(hooks, "loaded", lambda: [model])
    assert [run.text for run in lm.map(["a"], "{{ text }}")] == ["b"]
    with lm.serve(port=0) as server:
        assert server.models == (model.name,)
    monkeypatch.setattr(hooks, "loaded", lambda: [model, scripted_model({})])
    assert hooks.model_at_hand() is None


def test_failed_rows_are_asked_again_when_asked_to() -> None:
    """`resume(errors=True)` asks for the failed rows alone."""
    model = scripted_model(_fussy)
    runs = lm.map(["a", "lost", "b"], schema=Fussy, model=model)
    model.backend.answers = lambda r: '{"word": "found"}'
    assert runs.resume() is runs
    assert len(model.backend.requests) == 3
    runs.resume(errors=True)
    assert [run.answer() for run in runs] == ["a", "found", "b"]
    assert asked(model) == ["a", "b", "lost", "lost"]


def test_stop_keeps_what_is_there() -> None:
    """With on_error="stop" the error of the first bad row is raised; it names the row and holds the runs."""
    model = scripted_model(_fussy)
    with pytest.raises(lm.TemplateError) as caught:
        lm.map(["a", {"text": None}, "c"], "{{ text }}", schema=Fussy, model=model, on_error="stop")
    assert caught.value.row == 1
    runs = caught.value.completions
    assert isinstance(runs, Runs)
    assert [run.row for run in runs] in ([1], [0, 1])
    runs.resume()
    assert [run.answer() for run in runs] == ["a", None, "c"]


def test_a_closed_model_ends_it() -> None:
    """Nobody waits for a thousand rows of a model that is gone: the error is raised, what is done is kept."""
    model = scripted_model(
        lambda r: Script("ok") if said(r) == "a" else Script("ok", error=lm.ModelClosedError("gone"), at=0)
    )
    with pytest.raises(lm.ModelClosedError) as caught:
        lm.map(["a", *"bcdefgh"], model=model)
    assert caught.value.completions[0].text == "ok"


# --- calls that cannot be meant -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ({"prompt": "{{ txt }}"}, lm.TemplateError, r"asks for \{\{ txt \}\}.*columns text.*\n.*mean text"),
        ({"prompt": "{{ text"}, lm.TemplateError, "never closed"),
        ({"prompt": 5}, lm.InputTypeError, "prompt is a int"),
        ({"prompt": ["a", "b"]}, lm.InputTypeError, "prompts have names"),
        ({"prompt": {}}, lm.OptionError, "empty"),
        ({"temprature": 1}, lm.OptionError, "temperature"),
        ({"temperature": -1}, lm.OptionError, "temperature"),
        ({"seed": "x"}, lm.InputTypeError, "seed"),
        ({"over": {"temprature": [1]}}, lm.OptionError, "mean temperature"),
        ({"over": {"temperature": []}}, lm.OptionError, "no value"),
        ({"over": {"prompt": ["a"]}}, lm.OptionError, "dict of names"),
        ({"over": {"top_k": [1, 2, 1]}}, lm.OptionError, "'top_k' has 1 twice.\n.*n=2"),
        ({"over": {"text": [{"a": 1}, {"a": 1}]}}, lm.OptionError, "twice"),
        ({"over": [1]}, lm.InputTypeError, "over is a list"),
        ({"over": {"seed": range(10**10)}}, lm.OptionError, "has 100,001 combinations up to 'seed'"),
        ({"over": {"a": range(10**3), "b": range(10**3)}}, lm.OptionError, "has 1,000,000 combinations"),
        ({"n": 0}, lm.OptionError, "n is 0"),
        ({"scor": 1}, lm.OptionError, "Did you mean score?"),
        ({"on_error": "ignore"}, lm.OptionError, "'keep' or 'stop'"),
        ({"mode": "structured"}, lm.OptionError, "chat, complete"),
        ({"mode": "complete", "schema": Review}, lm.OptionError, "no schema"),
        ({"score": "labl"}, lm.OptionError, "no row has a column 'labl'|No row has a column 'labl'"),
        ({"score": 3}, lm.InputTypeError, "score is a int"),
        ({"schema": {"type": "nothing"}}, lm.SchemaError, "nothing"),
        ({"models": []}, lm.OptionError, "models is empty"),
        ({"models": "smollm2"}, lm.InputTypeError, "model="),
        ({"record": 7}, lm.InputTypeError, "record is a int"),
        ({"progress": "bar"}, lm.InputTypeError, "progress is 'bar'"),
        ({"variables": 5}, lm.InputTypeError, "variables is a int"),
        ({"rows": pd.DataFrame([["a", "b"]], columns=["text", "text"])}, lm.InputTypeError, "called 'text'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_call_is_said_at_once(how: Any, error: type[Exception], words: str) -> None:
    """A mistake in the call is no bad row: it is raised before anything is asked, with the nearest name."""
    model = scripted_model()
    asked = None if "models" in how else model
    given = {"rows": ["a", "b"], "prompt": "{{ text }}", "model": asked, **how}
    with pytest.raises(error, match=words):
        lm.map(**given)
    assert model.backend.requests == []


@pytest.mark.parametrize(
    ("rows", "found"),
    [([1, 2], "Row 0 (from 0) is a int"), ([Path("x")], "is a PosixPath"), ([None], "is None")],
)
def test_rows_that_are_none_say_what_they_are(rows: Any, found: str) -> None:
    """Where no row is one, that is said, not that columns are missing; places are those of `run.row`."""
    with pytest.raises(lm.InputTypeError) as caught:
        lm.map(rows, "{{ text }}", model=scripted_model())
    assert found.replace("Posix", type(Path()).__name__.removesuffix("Path")) in str(caught.value)
    assert "read_text()" in str(caught.value)
    runs = lm.map(["a", 5], model=scripted_model(upper))
    assert str(runs[1].error).startswith("Row 1 (from 0) is a int;")


def test_keys_that_are_written_alike_are_no_columns() -> None:
    """1 and "1" would be one column, and a value lost: the row says so, and costs no other."""
    runs = lm.map([{1: "a", "1": "b"}, {1: "c"}], "{{ 1 }}", model=scripted_model(upper))
    assert "Row 0 (from 0) has 2 keys that are written '1'" in str(runs[0].error)
    assert runs[1].text == "C"


def test_files_are_rows_as_they_are_meant(tmp_path: Path) -> None:
    """A mark at the beginning (BOM) is no part of a name or line; a line that is no JSON is an error."""
    (tmp_path / "a.csv").write_text("\ufefftext,label\nx,y\n", "utf-8")
    with (tmp_path / "a.csv").open(encoding="utf-8") as file:
        table = lm.map(csv.DictReader(file), "{{ text }}", model=scripted_model(upper))
    with (tmp_path / "a.csv").open(encoding="utf-8") as file:
        lines = lm.map(file, model=scripted_model(upper))
    assert [run.text for run in (*table, *lines)] == ["X", "TEXT,LABEL", "X,Y"]
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n\n{"text": "y\n"z"\n', "utf-8")
    with (tmp_path / "a.jsonl").open(encoding="utf-8") as file:
        runs = lm.map(file, "{{ text }}", model=scripted_model(upper))
    assert "The line of this row is no JSON: Unterminated string" in str(runs[1].error)
    assert [runs[0].text, runs[2].text] == ["X", "Z"]


def test_a_group_of_a_series_says_what_its_column_is_called() -> None:
    """Within `groupby.apply` pandas gives a Series the name of its group."""
    frame = pd.DataFrame({"text": ["a", "b"], "mood": ["good", "bad"]})
    model = scripted_model(upper)
    with pytest.raises(lm.TemplateError, match=r"columns bad\.\n.*series\.rename\('text'\)"):
        frame.groupby("mood")["text"].apply(lambda part: lm.map(part, "{{ text }}", model=model))
    found = frame.groupby("mood")["text"].apply(
        lambda part: lm.map(part.rename("text"), "{{ text }}", model=model).to_pandas()["answer"]
    )
    assert dict(found.droplevel(0)) == {0: "A", 1: "B"}


def test_what_is_meant_is_no_module_of_the_notebook() -> None:
    """Of a notebook's own names those that are values are proposed."""
    space = {"lm": lm, "threading": sys, "things": "x", "model": scripted_model()}
    with pytest.raises(lm.TemplateError, match="Did you mean things"):
        exec("lm.sweep('{{ thing }}', model=model)", space)
    del space["things"]
    with pytest.raises(lm.TemplateError) as caught:
        exec("lm.sweep('{{ thing }}', model=model)", space)
    assert "threading" not in str(caught.value)


# --- seeds --------------------------------------------------------------------------------------


def test_each_row_has_a_seed_by_the_rule() -> None:
    """Row 0 has the seed itself, row k four bytes of the SHA-256 of "SEED/k"; further samples by theirs."""
    runs = lm.map(list("abcd"), model=scripted_model(lambda r: str(r.seed)), seed=7, n=2)

    def of_row(row: int) -> int:
        digest = hashlib.sha256(f"7/{row}".encode()).digest()
        return 7 if row == 0 else int.from_bytes(digest[:4], "big") % (2**32 - 1)

    wanted = [(of_row(row) + sample * 0x9E3779B1) % (2**32 - 1) for row in range(4) for sample in range(2)]
    assert [run.seed for run in runs] == wanted
    assert [int(run.text) for run in runs] == wanted
    assert len(set(wanted)) == 8
    assert all(run.completion.seeded for run in runs if run.completion)
    drawn = lm.map(list("ab"), model=scripted_model(lambda r: str(r.seed)))
    assert [run.seed for run in drawn] == [int(run.text) for run in drawn]


def test_a_row_alone_gives_the_same_tokens(loaded: Callable[..., Any]) -> None:
    """Every row of a seeded map gives what it gives when asked alone with its seed."""
    model = loaded("short")
    rows = [f"Name a {thing}." for thing in ("fish", "tree", "river", "king")]
    runs = lm.map(rows, model=model, seed=5, n=2, max_tokens=12, temperature=1.5)
    for run in runs:
        ask = [{"role": "user", "content": run.inputs["text"]}]
        alone = model.chat(ask, seed=run.seed, max_tokens=12, temperature=1.5)
        assert run.completion.token_ids == alone.token_ids  # type: ignore[union-attr]
    assert len({run.text for run in runs}) > 4


def test_notes_of_answers_stand_under_the_table() -> None:
    """A prompt that was cut, or an option that does nothing, is said once, with how many answers it is of."""
    model = scripted_model(lambda _: "ok", window=100)
    rows = ["a", "word " * 200, "b", "word " * 300]
    runs = lm.map(
        rows, model=model, temperature=0, top_k=5, overflow="truncate-prompt", max_tokens=5, progress=False
    )
    *_, every, some = runs._repr_mimebundle_()["text/plain"].splitlines()
    assert every == "All 4 answers: temperature 0 is greedy decoding: top_k is not used."
    assert some.startswith("Row 1 and 1 other answer: Cut the first ")
    one = lm.map(["a", "word " * 200], model=model, overflow="truncate-prompt", max_tokens=5, progress=False)
    assert one._repr_mimebundle_()["text/plain"].splitlines()[-1].startswith("Row 1: Cut the first ")
    grid = lm.sweep("x", over={"temperature": [0, 1]}, model=model, top_k=5, max_tokens=5, progress=False)
    assert grid._repr_mimebundle_()["text/plain"].splitlines()[-1].startswith("1 of 2 answers: temperature 0")
