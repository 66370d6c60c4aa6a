"""The file of a record: whole answers whatever happens, several kernels, other tools, files that are none."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pandas
import pytest

import llama_magic as lm
from llama_magic.errors import OptionError, SourceError
from llama_magic.record.database import Database
from llama_magic.record.record import Record, open_record
from llama_magic.testing import scripted_model

WRITERS = Path(__file__).with_name("writers.py")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers.sqlite"


def written(tmp_path: Path) -> list[Any]:
    """Return answers: chat, text, samples, logprobs, structured, interrupted, odd characters."""
    model = scripted_model(
        {"Hi": "Hello <think>there", "odd": "\ud83d half \x00 and 🦙", "digit": "7", "long": "a b c d e f"}
    )
    hi = [{"role": "user", "content": "Hi"}]
    made = [model.chat(hi, seed=1, max_tokens=20, stop=["zzz"], tag="first", logprobs=2)]
    made += model.complete("odd", n=3, max_tokens=20, logit_bias={3: -float("inf")})
    made.append(model.structured("digit", int, max_tokens=9, pressure=True))
    stream = model.complete("long", stream=True, max_tokens=9)
    next(stream)
    stream.cancel()
    return [*made, stream.completion]


def test_answers_come_back_as_they_were(path: Path, tmp_path: Path) -> None:
    """Every field of every kind of answer is read back equal, and so is its receipt; order is kept."""
    made = written(tmp_path)
    with Record(path) as record:
        for one in made:
            record.add(one)
    again = open_record(path)
    assert len(again) == len(made) == 6
    for one, back in zip(made, again, strict=True):
        assert back == one
        assert back.receipt == json.loads(json.dumps(one.receipt))
        assert (back.id, back.time, back.tag) == (one.id, one.time, one.tag)
    assert again[-1] == made[-1]
    assert again[1:3] == made[1:3]
    assert again[4].parsed == 7
    with pytest.raises(IndexError, match="6 answers"):
        again[6]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows removes no file that is open")
@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_removed_is_missed(path: Path, tmp_path: Path, replaced: bool) -> None:
    """What is written into a file without a name ends with the process: an error, and nothing is lost."""
    record = Record(path)
    record.add(*(made := written(tmp_path))[:2])
    path.unlink()
    if replaced:
        Record(path).add(made[5])
    with pytest.raises(SourceError, match=r"was removed, or another.*\n.*export"):
        record.add(made[2])
    assert [one.id for one in record] == [one.id for one in made[:2]]
    assert path.exists() == replaced
    record.export(tmp_path / "kept.jsonl")
    assert len((tmp_path / "kept.jsonl").read_text("utf-8").splitlines()) == 2
    with Record(path) as anew:
        anew.add(made[2])
        assert len(anew) == 1 + replaced


def test_an_answer_is_kept_once(path: Path) -> None:
    """Added again it is the same row, which takes a label; a tag goes to those that have none."""
    model = scripted_model(["one", "two"])
    first, second = model.complete("a", tag="mine"), model.complete("a")
    record = Record(path)
    record.add(first, second, tag="all")
    record.add(first, label="row 1")
    record.add(first)
    assert [one.tag for one in record] == ["mine", "all"]
    assert record.find(label="row 1") == [first]
    assert "row 1" in str(record)
    record.add(first, label="0f" * 32)  # as a batch calls its rows: nothing to read
    assert "0f0f" not in str(record)
    record.add(first, label="row 1")
    assert [one.text for one in record.find(request=first.request)] == ["one", "two"]
    assert record.find(request="none") == []
    with pytest.raises(OptionError, match="one of them"):
        record.find()


def test_equal_requests_have_one_name(path: Path) -> None:
    """A drawn seed, reuse and a tag are no part of a request; each thing that changes the answer is."""
    model = scripted_model(lambda _request: "yes")
    base = model.complete("a", max_tokens=5)
    for same in ({}, {"reuse": False}, {"tag": "t"}, {"timeout": 99.0}):
        assert model.complete("a", **{"max_tokens": 5, **same}).request == base.request
    others = [
        {"seed": 1}, {"seed": 2}, {"max_tokens": 6}, {"stop": "x"}, {"n": 2}, {"logprobs": 1},
        {"temperature": 0.1}, {"regex": "yes|no"}, {"choices": ["yes"]}, {"choices": ["yes", "no"]},
        {"ignore_eos": True}, {"logit_bias": {65: 1.0}},
    ]  # fmt: skip
    made = [model.complete("a", **{"max_tokens": 5, **other}) for other in others]
    names = {(one[0] if isinstance(one, list) else one).request for one in made}
    assert len(names | {base.request, model.complete("b", max_tokens=5).request}) == len(others) + 2
    elsewhere = scripted_model(lambda _request: "yes", name="other")
    assert elsewhere.complete("a", max_tokens=5).request != base.request


def test_the_file_is_read_by_any_tool(path: Path, tmp_path: Path) -> None:
    """SQLite's own columns, pandas and an export say the same; what JSON has not is written as text."""
    made = written(tmp_path)
    record = Record(path)
    record.add(*made, label="l")
    connection = sqlite3.connect(path)
    rows = connection.execute(
        "SELECT model, mode, seed, prompt, tag, label, completion_tokens FROM answers"
    ).fetchall()
    connection.close()
    assert rows == [(r.model, r.mode, r.seed, r.prompt, r.tag, "l", r.usage.completion_tokens) for r in made]
    frame = record.to_pandas()
    assert list(frame["finish_reason"]) == [r.finish_reason for r in made]
    assert list(frame["seeded"]) == [True, *[False] * 5]
    assert frame["total_s"].tolist() == [r.timings.total_s for r in made]
    assert isinstance(frame["time"].dtype, pandas.DatetimeTZDtype)
    out = record.export(tmp_path / "x.jsonl")
    lines = [json.loads(line, parse_constant=pytest.fail) for line in out.read_text("utf-8").splitlines()]
    assert [line["receipt"] for line in lines] == [json.loads(json.dumps(r.receipt)) for r in made]
    assert lines[0]["tag"] == "first"
    assert lines[0]["timings"]["total_s"] == made[0].timings.total_s
    assert Record(tmp_path / "empty.sqlite").to_pandas().empty


def test_the_columns_are_documented(path: Path) -> None:
    """README names every table and column of the file, and its version."""
    Record(path)
    connection = sqlite3.connect(path)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    columns = [row[1] for table in tables for row in connection.execute(f"PRAGMA table_xinfo({table})")]
    ((version,),) = connection.execute("PRAGMA user_version")
    connection.close()
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    section = readme.partition("## Records")[2].partition("\n## ")[0]
    assert [name for name in (*tables, *columns) if f"`{name}`" not in section] == []
    assert f"`PRAGMA user_version` is {version}" in section


def test_a_record_shows_itself(path: Path) -> None:
    """Its text lists the last fifty answers and says how many there are."""
    model = scripted_model(lambda request: f"says {request.text}")
    record = Record(path)
    assert "No answer" in str(record)
    for number in range(52):
        record.add(model.complete(f"q{number}.", tag="shown"))
    text = str(record)
    assert "52 answers, the last 50 of them shown" in text
    assert "says q51." in text
    assert "says q1." not in text
    assert "shown" in text
    assert "52 answers" in repr(record)


@pytest.mark.parametrize("kind", ["text", "other", "later", "folder"])
def test_what_is_no_record_is_left_alone(path: Path, kind: str) -> None:
    """A text, another program's database, a later version and a folder are refused by name, unchanged."""
    if kind == "text":
        path.write_text("Once upon a time " * 100)
    elif kind == "folder":
        path.mkdir()
    else:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE mine (x)")
        if kind == "later":
            connection.execute("PRAGMA application_id = 1819042157")
            connection.execute("PRAGMA user_version = 99")
        connection.close()
    before = path.read_bytes() if path.is_file() else None
    words = {
        "text": "is no record",
        "other": "another program",
        "later": "version 99",
        "folder": "cannot be used",
    }
    with pytest.raises(SourceError, match=words[kind]) as caught:
        Record(path)
    assert str(path) in str(caught.value)
    assert before == (path.read_bytes() if path.is_file() else None)


def test_reading_makes_no_file(path: Path) -> None:
    """`open_record` wants a file that is there; an empty one, left by a kill, is an empty record."""
    with pytest.raises(SourceError, match="no record at"):
        lm.open_record(path)
    assert not path.exists()
    path.touch()
    assert len(lm.open_record(path)) == 0
    with pytest.raises(SourceError, match="cannot be used"):
        Record(path.parent / "nowhere" / "x.sqlite")


def test_a_file_that_cannot_be_written_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a read-only disk the answers are there; adding to them is an error that names the file."""
    model = scripted_model(lambda _request: "yes")
    with Record(path) as record:
        record.add(model.complete("a"))
    monkeypatch.setattr("llama_magic.record.database.os.access", lambda *_: False)
    record = open_record(path)
    assert [one.text for one in record] == ["yes"]
    with pytest.raises(SourceError, match="cannot be used"):
        record.add(model.complete("a"))


def test_an_interrupt_loses_no_answer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while an answer is written comes out when it is kept, once; before or after the statement."""
    model = scripted_model(lambda _request: "yes")
    record = Record(path)
    write = Database.write
    for after in (False, True):
        presses = [1]

        def interrupted(
            to: Database, sql: str, values: Any, after: bool = after, presses: list[int] = presses
        ) -> None:
            if not presses or after:
                write(to, sql, values)
            if presses:
                presses.pop()
                raise KeyboardInterrupt

        monkeypatch.setattr(Database, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            record.add(model.complete("a"))
    assert len(record) == 2


def test_who_wants_to_write_waits(path: Path) -> None:
    """While another kernel holds the file, an answer waits and is then kept."""
    model = scripted_model(lambda _request: "yes")
    record = Record(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    thread = threading.Thread(target=lambda: record.add(model.complete("a")))
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    assert len(record) == 0  # and who reads does not wait
    other.execute("COMMIT")
    thread.join()
    other.close()
    assert len(record) == 1


def test_threads_share_a_record(path: Path) -> None:
    """Eight threads add at the same time, and all is there."""
    model = scripted_model(lambda request: request.text)
    record = Record(path)
    threads = [
        threading.Thread(target=lambda i=i: [record.add(model.complete(f"{i}.{j}")) for j in range(12)])
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.text for one in record) == sorted(f"{i}.{j}" for i in range(8) for j in range(12))


def test_a_forked_child_opens_the_file_anew(path: Path) -> None:
    """Parent and child add to one record without each other's connections."""
    model = scripted_model(lambda _request: "yes")
    mine, theirs = model.complete("a"), model.complete("a")
    record = Record(path)
    record.add(mine)
    child = os.fork()
    if not child:
        status = 1
        try:
            record.add(theirs)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert [one.id for one in record] == [mine.id, theirs.id]


def run(path: Path, case: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WRITERS), str(path), case, str(count)], stdout=subprocess.PIPE, text=True
    )


def test_two_kernels_write_to_one_record(path: Path) -> None:
    """Two processes begin the same file and write 250 answers each: 500 rows."""
    both = [run(path, "many", 250) for _ in "ab"]
    assert [process.wait() for process in both] == [0, 0]
    record = open_record(path)
    assert len(record) == 500
    assert len({one.id for one in record}) == 500


def test_several_begin_one_record_at_once(tmp_path: Path) -> None:
    """Threads, as well as kernels: none takes a file whose tables are being made for another program's."""
    failed: list[Exception] = []

    def begin(path: Path, together: threading.Barrier) -> None:
        together.wait()
        try:
            Record(path)
        except Exception as error:
            failed.append(error)

    for number in range(20):
        together = threading.Barrier(4)
        threads = [
            threading.Thread(target=begin, args=(tmp_path / f"{number}.sqlite", together)) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_a_killed_kernel_leaves_whole_calls(path: Path) -> None:
    """After each of twelve kills the file opens, holds whole calls only, and all that a writer knew of."""
    states = kills(path, 12)
    assert len(states) == 12
    assert states[-1]["kept"] > 12


def test_a_full_disk_leaves_whole_calls(path: Path) -> None:
    """At each of twelve places, new file or old: the error is named, and what was kept is there, whole."""
    states = kills(path, 12, "full")
    assert len(states) == 12
    assert all(state["named"] for state in states)
    assert len({state["kept"] for state in states}) > 2


def kills(path: Path, count: int, how: str = "kill") -> list[dict[str, Any]]:
    """Kill writers, or fill their disk, and check what each leaves; return the states."""
    process = run(path, how, count)
    out, _ = process.communicate()
    assert process.returncode == 0
    states = [json.loads(line) for line in out.splitlines()]
    for state in states:
        assert state["kept"] >= state["told"]
        assert (state["whole"], state["calls"], state["check"]) == (True, True, "ok")
    return states


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_record_stays_where_it_was_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record opened by a relative path is the same file after the working folder changed, for a connection
    that is made then (a forked child has none yet), too; without a working folder it is refused by name.
    """
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.chdir(first)
    record = Record("answers.sqlite")
    record.add(*written(tmp_path)[:2])
    monkeypatch.chdir(second)
    child = os.fork()
    if child == 0:
        try:
            code = 40 + len(record)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    assert not list(second.iterdir())
    second.rmdir()
    try:
        for opened in (Record, open_record):
            with pytest.raises(SourceError, match=r"answers\.sqlite cannot be used: the folder"):
                opened("answers.sqlite")
    finally:
        monkeypatch.chdir(tmp_path)


ODD = [
    "\ud800",
    "a\udcffb",
    "\x00",
    "",
    "x" * 100_000,
    "\u202eright",
    "e\u0301",
    "👩\u200d👧",
    "'; DROP TABLE answers;--",
    "%_",
]


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_any_tag_and_label_is_kept_and_found(odd: str, path: Path, tmp_path: Path) -> None:
    """Whatever text a tag or label is, the answer is kept, found by it, shown and exported."""
    record = Record(path)
    with scripted_model(["one", "two"]) as model:
        record.add(model.complete("a", max_tokens=5, tag=odd), label=odd)
        record.add(model.complete("b", max_tokens=5), label="plain", tag=odd)
    assert [one.text for one in record.find(label=odd)] == ["one"]
    assert [one.text for one in open_record(path)] == ["one", "two"]
    assert str(record)
    assert len(record.to_pandas()) == 2
    assert record.export(tmp_path / "out.jsonl").read_text(encoding="utf-8").count("\n") == 2


@pytest.mark.parametrize("place", [2, -3, 2**63, 10**30, -(2**63) - 1, -(10**30)])
def test_a_place_that_a_record_has_not_is_an_index_error(place: int, path: Path) -> None:
    """Beyond its ends a record raises IndexError, as every sequence; also where SQLite has no such number."""
    record = Record(path)
    with scripted_model(["one", "two"]) as model:
        record.add(*(model.complete(text, max_tokens=5) for text in "ab"))
    with pytest.raises(IndexError):
        record[place]


def test_a_file_that_was_cut_short_is_called_damaged(path: Path, tmp_path: Path) -> None:
    """What to do is about that; it was to choose a folder with room."""
    with Record(path) as record:
        for one in written(tmp_path):
            record.add(one)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(SourceError, match=r"is damaged: database disk image is malformed\.\nTake a copy"):
        len(open_record(path))


@pytest.mark.parametrize(
    ("column", "value"),
    [("receipt", "json_set(receipt, '$.usage', 'x')"), ("receipt", "json_remove(receipt, '$.token_ids')"),
     ("receipt", "json_set(receipt, '$.sampling.old', 1)"), ("time", "x'ff00'"),
     ("more", "json_remove(more, '$.timings.load_s')"), ("more", "'[1]'")],
)  # fmt: skip
def test_an_answer_that_is_damaged_is_named(path: Path, tmp_path: Path, column: str, value: str) -> None:
    """It says which it is and what is wrong with it; the others are read as before."""
    made = written(tmp_path)
    with Record(path) as record:
        for one in made:
            record.add(one)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = 1")
        connection.execute(f"UPDATE answers SET {column} = {value} WHERE id = 2")
    connection.close()
    with open_record(path) as record:
        assert record[0] == made[0]
        assert record[2] == made[2]
        for ask in (
            lambda: record[1],
            lambda: list(record),
            lambda: record.export(tmp_path / "x"),
            record.table,
        ):
            with pytest.raises(SourceError, match=r"Answer 2 of the record is damaged: \w"):
                ask()
