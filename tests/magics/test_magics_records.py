"""The verbs of records: kept, listed, saved."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import llama_magic as lm
from llama_magic.display import to_text
from llama_magic.errors import OptionError, SourceError
from llama_magic.testing import Script


def texts(record: Any) -> list[str]:
    return [one.text for one in record]


def test_every_answer_goes_into_the_record(run: Any, model: Any, session: Any) -> None:
    """Cells, Python calls, samples, what was interrupted or is no instance; from record PATH until off."""
    model.backend.answers = [
        "before",
        "cell",
        "python",
        "one",
        '"x',
        Script("cut short", at=1, interrupt=True),
        "after",
    ]
    run("%%llama complete\nQ")
    run("%llama record answers.sqlite --tag mine")
    run("%%llama chat --tag own\nQ")
    model.complete("Q")
    run("%%llama complete -N 2\nQ")
    run("%%llama structured --schema \"Literal['xy']\" -n 4\nQ")
    run("%%llama complete\nQ")
    assert [entry.number for entry in run("%llama history --tag mine").result] == [3, 4, 5, 6, 7]
    assert "None of 7 generations is so" in to_text(run("%llama history --tag other").result)
    run("%llama record off")
    run("%%llama complete\nQ")
    record = lm.open_record("answers.sqlite")
    assert texts(record) == ["cell", "python", "one", "one", '"x', "cut"]
    assert [one.tag for one in record] == ["own", *["mine"] * 5]
    assert record[-1].finish_reason == "interrupted"
    assert [entry.completion.id for entry in session.history[1:-1]] == [one.id for one in record]


def test_a_record_is_shown_tagged_and_replaced(
    run: Any, model: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a word the record is shown, --tag alone tags from now on, another PATH takes its place."""
    assert "No record is kept" in str(run("%llama record").error_in_exec)
    run("%llama record one.sqlite")
    run("%%llama complete\nQ")
    assert texts(run("%llama record").result) == ["answer 1"]
    run("%llama record --tag later")
    run("%%llama complete\nQ")
    run("%llama record two.sqlite")
    run("%%llama complete\nQ")
    assert [one.tag for one in lm.open_record("one.sqlite")] == [None, "later"]
    assert texts(lm.open_record("two.sqlite")) == ["answer 3"]
    run("%llama record one.sqlite")
    assert "which holds 2 already" in capsys.readouterr().out
    run("%llama record off")
    assert "Nothing more goes into one.sqlite" in capsys.readouterr().out
    assert isinstance(run("%llama record off --tag t").error_in_exec, OptionError)
    assert isinstance(run("%llama record nowhere/x.sqlite").error_in_exec, SourceError)


def test_a_bad_path_leaves_the_record_that_is_kept(run: Any, model: Any) -> None:
    """What cannot be opened changes nothing."""
    run("%llama record one.sqlite")
    Path("text").write_text("no record " * 50)
    assert "JSON lines are for %llama verify" in str(run("%llama record text").error_in_exec)
    run("%%llama complete\nQ")
    assert texts(lm.open_record("one.sqlite")) == ["answer 1"]


def test_an_answer_that_cannot_be_kept_is_a_warning(run: Any, model: Any, session: Any) -> None:
    """The disk fails: each cell has its answer, and says that the record has not; the count keeps it said."""
    run("%llama record one.sqlite")
    connection = sqlite3.connect("one.sqlite")
    connection.execute("DROP TABLE answers")
    connection.close()
    for said, words in ("answer 1", "The last answer is not"), ("answer 2", "2 answers are not in the rec"):
        with pytest.warns(UserWarning, match=words):
            answer = run("%%llama complete\nQ").result
        assert answer.text == said


def test_the_history_can_be_searched_and_saved(
    run: Any, model: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last N, an expression on prompts and answers, a tag, together; saved lines hold the receipts."""
    model.backend.answers = ["red", "green", "blue", "grey"]
    for question, tag in (("a", ""), ("b", "--tag t"), ("c", "--tag t"), ("green?", "")):
        run(f"%%llama complete {tag}\n{question}")

    def found(line: str) -> list[str]:
        return [entry.completion.text for entry in run(f"%llama history {line}").result]

    assert found("") == ["red", "green", "blue", "grey"]
    assert found("2") == ["blue", "grey"]
    assert found("--grep gr[e]{2}n") == ["green", "grey"]
    assert found("--tag t") == ["green", "blue"]
    assert found("1 --tag t --grep e") == ["blue"]
    assert found("--tag none") == []
    number = run("%llama history 1").result[0].number
    assert run("%llama history").result.numbered(number).completion.text == "grey"
    for line in ("%llama history save some.py", "%llama export"):
        refused = run(line).error_in_exec
        assert "%history -f x.py" in str(refused)
    run("%llama history --tag t save some.jsonl")
    assert "Saved 2 to some.jsonl" in capsys.readouterr().out
    lines = [json.loads(line) for line in Path("some.jsonl").read_text("utf-8").splitlines()]
    assert [(line["receipt"]["text"], line["tag"], line["number"]) for line in lines] == [
        ("green", "t", number - 2),
        ("blue", "t", number - 1),
    ]
    for wrong in ("0", "x", "--grep (", "save", "2 keep x"):
        assert isinstance(run(f"%llama history {wrong}").error_in_exec, OptionError), wrong
    with pytest.raises(OptionError, match="no generation 0"):
        run("%llama history").result.numbered(0)


def test_a_generation_is_run_again(
    run: Any, engine: Any, session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its number, with options and name=value changed; it says where the answers part; -o binds it."""
    question = chr(0x4E00)
    run(f"%%llama complete --seed 5 -n 4 --stop zz\n{question}")
    number = session.history[-1].number
    again = run(f"%llama rerun {number}").result
    assert again.token_ids == session.history[-2].completion.token_ids
    assert f"Equal to generation {number}." in capsys.readouterr().out
    run(f"%llama rerun {number} -n 2 seed=6 temperature=0.1 stop=yy -o other")
    other = session.history[-1].completion
    assert (other.seed, other.usage.completion_tokens, other.sampling.temperature) == (6, 2, 0.1)
    assert other.receipt["asked"]["stop"] == ["yy"]
    assert run("other").result is other
    assert f"It differs from generation {number} from token 3 on." in capsys.readouterr().out
    run("%%llama chat\nHi")
    chat = run(f"%llama rerun {session.history[-1].number} -q").result
    assert chat.text == session.history[-2].completion.text
    assert len(session.chat().turns) == 1
    for wrong in ("", "0", "99", f"{number} tempurature=1", f"{number} x", f"{number} n=0"):
        assert isinstance(run(f"%llama rerun {wrong}").error_in_exec, OptionError), wrong
    assert "temperature" in str(run(f"%llama rerun {number} tempurature=1").error_in_exec)


def test_the_model_that_wrote_it_is_asked(run: Any, session: Any) -> None:
    """Not the current one; where it is gone, that is said, and -m names another."""
    first = session.load("first")
    run("%%llama complete --seed 1\nQ")
    session.load("second").backend.answers = ["from the second"]
    first.backend.answers = ["again"]
    assert run("%llama rerun 1").result.text == "again"
    run("%llama unload first")
    assert "first, is not loaded" in str(run("%llama rerun 1").error_in_exec)
    assert run("%llama rerun 1 -m second").result.text == "from the second"


def test_two_generations_are_compared(run: Any, model: Any) -> None:
    """By their numbers, and by the names of variables that hold answers."""
    model.backend.answers = ["red green", "red blue"]
    run("%%llama complete -o one\nQ")
    run("%%llama complete\nQ")
    for line in ("1 2", "one 2"):
        found = run(f"%llama diff {line}").result
        assert (found.step, [side.there for side in found.sides]) == (1, [" green", " blue"])
    assert found.sides[0].name == "one"
    for wrong in ("1", "1 2 3", "1 nothing", "0 1"):
        assert isinstance(run(f"%llama diff {wrong}").error_in_exec, OptionError), wrong
    assert "needs A and B" in str(run("%llama diff 1").error_in_exec)
    assert "There is no 'ones'; expected an answer" in str(run("%llama diff 1 ones").error_in_exec)
    assert "Did you mean one?" in str(run("%llama diff 1 ones").error_in_exec)
    assert "run is a function; expected an answer" in str(
        run("run = lambda: 1\n%llama diff 1 run").error_in_exec
    )


def test_what_is_verified(run: Any, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is named, else the notebook at work, else the record that is kept, else the history."""
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    assert "nothing to verify" in str(run("%llama verify").error_in_exec)
    model.backend.answers = lambda request: f"said {request.text}"
    run("%%llama complete --seed 1\nA")
    run("%%llama complete\nB")
    found = run("%llama verify").result
    assert (found.badge, found.unseeded) == ("1 of 1 answer comes out equal here", 1)
    run("%llama record r.sqlite")
    for question in "CD":
        run(f"%%llama complete --seed 1\n{question}")
    assert run("%llama verify").result.badge == "2 of 2 answers come out equal here"
    saved = {
        "cells": [{"outputs": [{"data": run("%llama history 1").result[0].completion._repr_mimebundle_()}]}]
    }
    Path("n.ipynb").write_text(json.dumps(saved), "utf-8")
    monkeypatch.setenv("JPY_SESSION_NAME", str(Path("n.ipynb").absolute()))
    assert run("%llama verify").result.of == "n.ipynb"
    assert run("%llama verify r.sqlite").result.total == 2
    model.backend.answers = lambda request: f"said other {request.text}"
    changed = run("%llama verify r.sqlite -m fake").result
    assert (changed.equal, changed.verdicts[0].step, changed.verdicts[0].reasons) == (0, 1, ())
    assert "nothing that the receipt knows of" in str(changed)
