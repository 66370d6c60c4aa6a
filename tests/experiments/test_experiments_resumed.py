"""Interrupts, records and copies: what is done is kept, and not asked again."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from moods import TEXTS, Mood, asked, until

import llama_magic as lm
from llama_magic.experiments.runs import Runs
from llama_magic.experiments.scheduler import Scheduler
from llama_magic.model.attempts import StructuredStream
from llama_magic.model.stream import Stream
from llama_magic.record.record import Record
from llama_magic.testing import Script, scripted_model


def test_an_interrupt_keeps_what_is_done_and_resume_goes_on() -> None:
    """The interrupt holds the runs; `resume` asks for the missing rows, and for none that was done."""
    model = scripted_model(until("25"))
    with pytest.raises(lm.GenerationInterrupted, match=r"of 40 rows are done and kept; resume\(\)") as caught:
        lm.map(TEXTS, schema=Mood, model=model)
    runs = caught.value.completion
    assert isinstance(runs, Runs)
    done = [run.row for run in runs]
    assert done == sorted(done)
    assert 0 < len(done) < 40
    assert (runs.total, runs.missing) == (40, 40 - len(done))
    before = len(model.backend.requests)
    runs.resume()
    assert [run.answer() for run in runs] == TEXTS
    assert sorted(asked(model)[before:]) == [text for i, text in enumerate(TEXTS) if i not in done]
    assert "missing" not in repr(runs)


def test_several_answers_a_row_are_no_rows() -> None:
    """Also while the second answer to a row is still to come."""
    model = scripted_model(lambda r: Script("x", at=0, interrupt=True))
    with pytest.raises(lm.GenerationInterrupted, match="0 of 4 answers are done"):
        lm.map(["a", "b"], model=model, n=2)
    assert lm.map([], model=model, n=2).noun == "row"


def test_an_interrupt_stops_all_that_is_under_way_at_once() -> None:
    """Nobody waits for one answer to stop while the engine goes on with the others."""
    log: list[str] = []

    class Answer:
        def __init__(self, name: str) -> None:
            self.name = name

        def on_end(self, call: Callable[[], None]) -> None:
            call()

        def settled(self) -> bool:
            return self.name == "a"

        def halt(self) -> None:
            log.append(f"halt {self.name}")

        def cancel(self) -> None:
            log.append(f"cancel {self.name}")

    begun: list[str] = []

    def begin(name: str) -> Answer:
        begun.append(name)
        return Answer(name)

    def tick() -> None:
        if begun[1:]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Scheduler(2, begin, lambda name, answer: None, tick).run("abcde")
    assert log == ["halt b", "halt c", "halt d", "halt e", "cancel e", "cancel d", "cancel c", "cancel b"]


def test_an_interrupt_of_a_structured_batch_stops_all_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is for a list of prompts, whose answers the engine writes together, too."""
    log: list[str] = []
    for name in ("halt", "cancel"):
        old = getattr(Stream, name)

        def noted(self: Any, name: str = name, old: Any = old) -> None:
            log.append(name)
            old(self)

        monkeypatch.setattr(Stream, name, noted)

    def strike(self: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(StructuredStream, "run", strike)
    model = scripted_model(lambda r: json.dumps({"mood": "m"}))
    with pytest.raises(lm.GenerationInterrupted):
        model.structured(["a", "b", "c"], Mood)
    assert log[:3] == ["halt"] * 3
    assert log.count("cancel") == 3


def test_the_same_call_with_the_same_record_goes_on(tmp_path: Path) -> None:
    """After an interrupt, in another kernel too, only what is not kept is asked; instances come back."""
    path = tmp_path / "runs.sqlite"
    first = scripted_model(until("25"))
    with pytest.raises(lm.GenerationInterrupted) as caught:
        lm.map(TEXTS, schema=Mood, model=first, record=path, seed=3)
    done = [run.row for run in caught.value.completion]
    second = scripted_model(until(""))
    runs = lm.map(TEXTS, schema=Mood, model=second, record=str(path), seed=3)
    assert sorted(asked(second)) == [text for i, text in enumerate(TEXTS) if i not in done]
    assert [run.parsed for run in runs] == [Mood(mood=text) for text in TEXTS]
    third = scripted_model(until(""))
    again = lm.map(TEXTS, schema=Mood, model=third, record=lm.open_record(path), seed=3)
    assert asked(third) == []
    assert [(r.text, r.seed) for r in again] == [(r.text, r.seed) for r in runs]
    assert len(lm.open_record(path)) == 40


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 4}, {"temperature": 0.1}, {"system": "be kind"}, {"schema": dict[str, str]}, {"n": 2},
        {"prompt": "{{ text }}."}, {"over": {"top_k": [3]}}, {"max_tokens": 99},
    ],
)  # fmt: skip
def test_another_call_is_not_answered_from_the_record(tmp_path: Path, change: dict[str, Any]) -> None:
    """Whatever of the call is another, its answers are asked for: seed, options, prompt, schema, axes."""
    model = scripted_model(until(""))
    how: dict[str, Any] = {"prompt": "{{ text }}", "schema": Mood, "record": tmp_path / "r.sqlite", "seed": 3}
    lm.map(["a", "b"], model=model, **how)
    lm.map(["a", "b"], model=model, **{**how, **change})
    wanted = 2 * (change.get("n", 1) + 1)
    assert len(model.backend.requests) == (wanted if "n" not in change else 4)


def test_runs_are_copied_and_pickled(tmp_path: Path) -> None:
    """A copy says all that they say, what is missing too; it cannot be gone on with, and says what can."""
    model = scripted_model(until("25"))
    with pytest.raises(lm.GenerationInterrupted) as caught:
        lm.map(TEXTS, schema=Mood, model=model, over={"top_k": [1]}, score=lambda run: True)
    runs = caught.value.completion
    for copied in (pickle.loads(pickle.dumps(runs)), copy.deepcopy(runs)):
        assert (len(copied), copied.missing, repr(copied)) == (len(runs), runs.missing, repr(runs))
        assert copied.missing > 0
        assert copied.to_pandas().equals(runs.to_pandas())
        assert copied.summary(by="top_k") == runs.summary(by="top_k")
        with pytest.raises(lm.OptionError, match="make the same call with the same record="):
            copied.resume()
    assert len(runs.resume()) == 40


def test_no_rows_are_a_table_with_its_columns() -> None:
    """So a pipeline that takes `["answer"]` of what comes back works on an empty table as well."""
    model = scripted_model()
    assert list(lm.map([], "{{ text }}", model=model).to_pandas()["answer"]) == []
    assert list(lm.decide([], "{{ text }}", options=["a", "b"], model=model).to_pandas()["choice"]) == []
    assert model.backend.requests == []


def test_a_score_by_a_column_that_is_not_there(tmp_path: Path) -> None:
    """It is named by `scored` as by the call; it made each score an error that nobody saw."""
    runs = lm.map([{"text": "a", "right": "a"}], "{{ text }}", model=scripted_model(lambda r: "a"))
    assert runs.scored("right")[0].scores == {"right": True}
    for wrong in ("rigth", {"x": "rigth"}):
        with pytest.raises(lm.OptionError, match=r"No row has a column 'rigth' to equal. Did you mean right"):
            runs.scored(wrong)


def test_a_tag_and_a_time_are_no_part_of_what_is_asked(tmp_path: Path) -> None:
    """Answers of a record are found under another tag, and where they may take longer or shorter."""
    model = scripted_model(until(""))
    for beside in ({}, {"tag": "monday"}, {"tag": "tuesday", "timeout": 60}, {"timeout": 99}):
        runs = lm.map(["a", "b"], schema=Mood, model=model, record=tmp_path / "r.sqlite", **beside)
        assert [run.parsed for run in runs] == [Mood(mood="a"), Mood(mood="b")]
    assert len(model.backend.requests) == 2


def test_an_answer_out_of_time_is_asked_again_with_more_time(tmp_path: Path) -> None:
    """One that was cut is found where it would be cut again; with more time it is asked for."""
    hold = threading.Event()
    model = scripted_model([Script("one two", at=1, hold=hold), "three four", "five six"])
    asked_for = []
    for timeout in (0.05, 0.05, 0.04, 60, 60, 0.05):
        how = {"model": model, "record": tmp_path / "r.sqlite", "timeout": timeout}
        (run,) = lm.map(["a"], **how)
        asked_for.append((run.text, len(model.backend.requests)))
    assert asked_for == [("one", 1)] * 3 + [("three four", 2)] * 3
    hold.set()


def test_a_cut_answer_is_an_answer_until_its_limit_is_raised(tmp_path: Path) -> None:
    """One that was to be an instance is the same error again, not asked; with more tokens it is asked.

    `resume(errors=True)` asks, and so does a window whose quarter, the limit where none is given, has grown.
    """
    model = scripted_model(lambda request: '"one two three four five six"')
    path = tmp_path / "r.sqlite"
    for most, count in ((3, 1), (3, 1), (30, 2), (30, 2), (3, 2)):
        (run,) = runs = lm.map(["a"], schema=str, model=model, record=path, max_tokens=most)
        assert len(model.backend.requests) == count
        assert (run.text, run.parsed) == (
            ('"on', None) if most == 3 else ('"one two three four five six"', "one two three four five six")
        )
    assert "cut after 3 tokens" in str(run.error)
    (told,) = runs.to_pandas().to_dict("records")
    assert (told["answer"], told["finish_reason"], told["completion_tokens"]) == (None, "length", 3)
    assert runs.summary().groups[0].tokens == 3
    runs.resume(errors=True)
    assert len(model.backend.requests) == 3
    for window, words, count in ((60, 15, 1), (60, 15, 0), (100, 25, 1), (100, 25, 0), (60, 15, 0)):
        model = scripted_model(lambda request: "w " * 80, window=window)
        (run,) = lm.map(["b"], model=model, record=path)
        assert (len(run.text.split()), len(model.backend.requests)) == (words, count)


def test_a_record_that_takes_nothing_is_said_before_a_row_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row was asked first, of decisions each, and it was lost; what the record holds comes from it."""
    path = tmp_path / "r.sqlite"
    model = scripted_model(lambda request: "x", odds=lambda r, t: 0.4)
    how: dict[str, Any] = {"prompt": "Is it? {{ text }}", "model": model}
    ask = {
        "map": lambda rows, record: lm.map(rows, **how, record=record),
        "decide": lambda rows, record: lm.decide(rows, options=["yes", "no"], **how, record=record),
    }
    rows = [{"text": "a"}, {"text": None}]
    with Record(path) as record:  # the last to close it puts its log into the file
        for call in ask.values():
            call(rows, record)
    monkeypatch.setattr("llama_magic.record.database.os.access", lambda *_: False)
    before = len(model.backend.requests)
    for call in ask.values():
        assert [run.error is None for run in call(rows, path)] == [True, False]
        with pytest.raises(lm.SourceError, match=r"r\.sqlite cannot be used.*readonly"):
            call([*rows, {"text": "b"}], path)
    assert before == len(model.backend.requests) > 1


def test_unseeded_answers_are_found_too_and_bad_ones_are_not_kept(tmp_path: Path) -> None:
    """A row that failed is asked again by the next call; each place keeps its own drawn answer."""
    model = scripted_model(["one", Script("x", at=0, error=lm.BackendError("lost")), "two"])
    runs = lm.map(["a", "a", "a"], model=model, record=tmp_path / "r.sqlite")
    assert sorted(run.text for run in runs) == ["", "one", "two"]
    model.backend.answers = ["three"]
    again = lm.map(["a", "a", "a"], model=model, record=tmp_path / "r.sqlite")
    assert sorted(run.text for run in again) == ["one", "three", "two"]
    assert len(model.backend.requests) == 4


def test_rows_that_move_keep_their_answers(tmp_path: Path) -> None:
    """Without a seed an answer is of what was asked: rows may go, move or come; equal ones have their own."""
    path = tmp_path / "r.sqlite"
    first = scripted_model(lambda request: f"{len(first.backend.requests)}")
    texts = ["bad", "a", "b", "a", "c"]
    kept = dict(zip("01234", lm.map(texts, model=first, record=path), strict=True))
    said = {text: {run.text for run in kept.values() if run.inputs["text"] == text} for text in texts}
    assert len(said["a"]) == 2
    second = scripted_model(lambda request: "new")
    moved = lm.map(["c", "a", "b", "d", "a", "a"], model=second, record=path)
    assert {run.text for run in moved if run.inputs["text"] == "a"} == said["a"] | {"new"}
    assert [run.text for run in moved if run.inputs["text"] in "bcd"] == [*said["c"], *said["b"], "new"]
    assert sorted(asked(second)) == ["a", "d"]
    seeded = lm.map(["a", "b"], model=second, record=path, seed=1)
    assert [run.text for run in lm.map(["b"], model=second, record=path, seed=seeded[1].seed)] == ["new"]
    assert len(second.backend.requests) == 4


def test_the_rows_of_a_decision_may_move(tmp_path: Path) -> None:
    """Nothing is drawn, so an equal question has an equal answer, wherever it stands."""
    model = scripted_model(lambda request: "x", odds=lambda r, t: 0.4)
    how: dict[str, Any] = {"options": ["yes", "no"], "model": model, "record": tmp_path / "r.sqlite"}
    lm.decide(["a", "b", "c"], "Is it? {{ text }}", **how)
    lm.decide(["c", "b"], "Is it? {{ text }}", **how)
    assert len(lm.open_record(tmp_path / "r.sqlite")) == 3
