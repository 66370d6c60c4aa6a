"""Experiments as they are carried out: order, axes, interrupts, records, scores, and how they are shown."""

from __future__ import annotations

import copy
import io
import itertools
import json
import pickle
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import BaseModel

import llama_magic as lm
from llama_magic.display import to_html, to_markdown, to_text
from llama_magic.display.live import watching
from llama_magic.experiments.runs import Runs
from llama_magic.experiments.scheduler import Scheduler
from llama_magic.model.attempts import StructuredStream
from llama_magic.model.stream import Stream
from llama_magic.record.record import Record
from llama_magic.request.backend import Capabilities
from llama_magic.testing import Script, ScriptedBackend, scripted_loader, scripted_model
from llama_magic.words.counting import counted
from llama_magic.words.standing import Standing


class Mood(BaseModel):
    mood: str


def said(request: Any) -> str:
    return str(request.messages[-1]["content"])


def asked(model: Any) -> list[str]:
    return [said(request) for request in model.backend.requests]


# --- the order of reading -------------------------------------------------------------------------


class Watched(ScriptedBackend):
    """Notes how many requests are under way when each one comes."""

    under_way: list[int]
    _now = 0

    def submit(self, request: Any, sink: Any) -> None:
        self._now += 1
        self.under_way.append(self._now)

        def told(event: Any) -> None:
            self._now -= type(event).__name__ == "EndEvent"
            sink(event)

        super().submit(request, told)


def test_prompts_that_begin_alike_are_asked_one_after_the_other() -> None:
    """The order is a walk of the tree of prompts, the first alone, then as many as the backend works on."""
    model = scripted_model(said)
    rows = [{"doc": doc, "q": q} for q in "pqr" for doc in ("long text A", "long text B", "other")]
    backend = model.backend
    backend.__class__ = Watched
    backend.under_way = []
    backend.capabilities = Capabilities(parallel=2)
    runs = lm.map(rows, "{{ doc }}: {{ q }}", model=model)
    assert [run.text for run in runs] == [f"{row['doc']}: {row['q']}" for row in rows]
    groups = [key for key, _ in itertools.groupby(text.partition(":")[0] for text in asked(model))]
    assert sorted(groups) == ["long text A", "long text B", "other"]  # each stands together
    assert backend.under_way[:2] == [1, 1]
    assert max(backend.under_way) <= 4


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_every_distinct_beginning_is_read_once(loaded: Callable[..., Any], temperature: float) -> None:
    """On the engine: what was read of all prompts is the nodes of their prefix tree, and a token each."""
    model = loaded("short")
    model.kv_clear()
    head = "You judge reviews of shops. " * 12
    rows = [f"{head}Shop {shop}. Review {i}: it is fine." for i in range(3) for shop in ("Ada", "Bert")]
    runs = lm.map(rows, model=model, max_tokens=4, temperature=temperature)
    prompts = [run.completion.prompt_token_ids for run in runs]  # type: ignore[union-attr]
    nodes = {tuple(ids[:end]) for ids in prompts for end in range(1, len(ids) + 1)}
    usage = [run.completion.usage for run in runs]  # type: ignore[union-attr]
    read = sum(u.prompt_tokens - u.cached_tokens for u in usage)
    assert len(nodes) <= read <= len(nodes) + len(rows)
    assert sum(map(len, prompts)) > 3 * read
    shared = model.backend.local.call(lambda core: core.lanes.shared)
    assert shared.kv.store.bytes_used == 0  # nothing of it is kept in host memory
    alone = model.chat([{"role": "user", "content": rows[0]}], max_tokens=4)
    model.chat([{"role": "user", "content": "Something else entirely, " * 8}], max_tokens=4)
    assert shared.kv.store.bytes_used > 0  # a call's own is
    assert alone.usage.prompt_tokens == usage[0].prompt_tokens


# --- axes -----------------------------------------------------------------------------------------


def test_axes_are_every_combination() -> None:
    """Prompts, options, sampling and variables are axes; each combination is asked of each row."""
    model = scripted_model(lambda r: f"{said(r)} {r.sampling.temperature:g} {r.max_tokens}")
    runs = lm.map(
        ["x", "y"],
        {"short": "{{ text }}{{ mark }}", "long": "Say {{ text }}{{ mark }}"},
        over={"temperature": [0, 0.5], "mark": "!?"[:1], "max_tokens": [7]},
        model=model,
    )
    head = {"short": "", "long": "Say "}
    wanted = [
        f"{head[prompt]}{text}! {t:g} 7" for text in "xy" for prompt in ("short", "long") for t in (0, 0.5)
    ]
    assert [run.text for run in runs] == wanted
    assert runs.axes == {
        "prompt": ["short", "long"], "temperature": [0, 0.5], "mark": ["!"], "max_tokens": [7],
    }  # fmt: skip
    assert runs[1].settings == {"prompt": "short", "temperature": 0.5, "mark": "!", "max_tokens": 7}
    part = runs.where(prompt="long", temperature=0)
    assert [run.text for run in part] == ["Say x! 0 7", "Say y! 0 7"]
    with pytest.raises(lm.OptionError, match=r"no axis 'promt'.*prompt"):
        runs.where(promt="long")
    with pytest.raises(lm.OptionError, match=r"'prompt' has no value 'lung'\. Did you mean long\?"):
        runs.where(prompt="lung")
    with pytest.raises(lm.OptionError, match=r"no value 0\.7\. It has \[0, 0\.5\]"):
        part.where(temperature=0.7)
    assert len(part.where(temperature=0.5)) == 0  # an axis' value that this part has not
    assert len(runs.failures.where(prompt="long")) == 0
    with pytest.raises(lm.OptionError, match="cannot be resumed"):
        part.resume()


def test_models_are_an_axis_and_named_ones_are_loaded_in_turn() -> None:
    """A model that is given stays open; a name is loaded when its turn comes and closed after it."""
    from llama_magic.experiments.each_row import map
    from llama_magic.experiments.models import Models

    loader = scripted_loader(said)
    own = scripted_model(said, name="own")
    events: list[str] = []

    def load(name: str | None) -> Any:
        events.append(f"load {name}")
        return loader(name)

    found = Models({"own": own, "a": "a", "b": "b"}, load)
    runs = map(["x", "y"], models=found)
    assert [(run.settings["model"], run.text) for run in runs] == [
        (name, text) for text in "xy" for name in ("own", "a", "b")
    ]
    assert events == ["load a", "load b"]
    assert [own.closed, loader.models["a"].closed, loader.models["b"].closed] == [False, True, True]


def test_a_model_that_cannot_be_had_costs_the_others_nothing(tmp_path: Path) -> None:
    """Its rows hold the error; a single model that is not there is an error of the call."""
    model = scripted_model(said, name="here")
    runs = lm.map(["x"], models=[model, str(tmp_path / "none.gguf")])
    assert [run.text for run in runs] == ["x", ""]
    assert isinstance(runs[1].error, lm.SourceError)
    with pytest.raises(lm.SourceError):
        lm.map(["x"], model=str(tmp_path / "none.gguf"))


# --- interrupts and records -------------------------------------------------------------------------


def _until(text: str) -> Callable[[Any], Script]:
    """Answer by what was said; press Ctrl-C in the middle of one answer, once."""
    pressed: list[bool] = []

    def answer(request: Any) -> Script:
        if said(request) == text and not pressed:
            pressed.append(True)
            return Script(json.dumps({"mood": said(request)}), at=3, interrupt=True)
        return Script(json.dumps({"mood": said(request)}))

    return answer


TEXTS = [f"{i:02}" for i in range(40)]


def test_an_interrupt_keeps_what_is_done_and_resume_goes_on() -> None:
    """The interrupt holds the runs; `resume` asks for the missing rows, and for none that was done."""
    model = scripted_model(_until("25"))
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
    first = scripted_model(_until("25"))
    with pytest.raises(lm.GenerationInterrupted) as caught:
        lm.map(TEXTS, schema=Mood, model=first, record=path, seed=3)
    done = [run.row for run in caught.value.completion]
    second = scripted_model(_until(""))
    runs = lm.map(TEXTS, schema=Mood, model=second, record=str(path), seed=3)
    assert sorted(asked(second)) == [text for i, text in enumerate(TEXTS) if i not in done]
    assert [run.parsed for run in runs] == [Mood(mood=text) for text in TEXTS]
    third = scripted_model(_until(""))
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
    model = scripted_model(_until(""))
    how: dict[str, Any] = {"prompt": "{{ text }}", "schema": Mood, "record": tmp_path / "r.sqlite", "seed": 3}
    lm.map(["a", "b"], model=model, **how)
    lm.map(["a", "b"], model=model, **{**how, **change})
    wanted = 2 * (change.get("n", 1) + 1)
    assert len(model.backend.requests) == (wanted if "n" not in change else 4)


def test_runs_are_copied_and_pickled(tmp_path: Path) -> None:
    """A copy says all that they say, what is missing too; it cannot be gone on with, and says what can."""
    model = scripted_model(_until("25"))
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
    model = scripted_model(_until(""))
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


# --- scores -------------------------------------------------------------------------------------


def test_scores_are_functions_or_columns() -> None:
    """A function has its own name, a column is "right", a dict its names; one that fails costs nothing."""
    frame = pd.DataFrame({"text": ["good", "bad", "bad "], "label": ["good", "good", "bad"]})
    model = scripted_model(lambda r: json.dumps({"mood": said(r).strip()}))
    runs = lm.map(frame, "{{ text }}", schema=Mood, model=model, score="label")
    assert [run.scores for run in runs] == [{"right": True}, {"right": False}, {"right": True}]

    def length(run: Any) -> int:
        return len(run.text)

    def broken(run: Any) -> bool:
        return bool(run.parsed.moot)

    def many(run: Any) -> Any:
        return [1, 2]

    runs = lm.map(
        frame, "{{ text }}", schema=Mood, model=model,
        score={"ok": "label", "length": length, "broken": broken, "many": many},
    )  # fmt: skip
    assert runs[0].scores["ok"] is True
    assert runs[0].scores["length"] == len('{"mood": "good"}')
    assert isinstance(runs[0].scores["broken"], AttributeError)
    assert isinstance(runs[0].scores["many"], lm.InputTypeError)
    assert runs[0].error is None
    arrays = {"one": lambda run: np.array([0.5]), "two": lambda run: np.array([1, 2])}
    assert (scored := lm.map(["a"], model=model, schema=Mood, score=arrays)[0]).scores["one"] == 0.5
    assert "'two' gave a ndarray" in str(scored.scores["two"])  # and costs no row
    huge = lm.map(["a"], model=model, schema=Mood, score=lambda run: 10**400)[0]
    assert "expected a bool or a number" in str(huge.scores["score"])
    one = lm.map(["a"], model=model, schema=Mood, score=lambda run: 0.5)[0]
    assert one.scores == {"score": 0.5}
    assert list(runs.to_pandas()["broken"].isna()) == [True] * 3


@pytest.mark.parametrize(
    ("answer", "wanted", "equal"),
    [("5", 5, True), ("yes ", "yes", True), ("Yes", "yes", False), ("4", 5, False), ("true", True, True),
     ("1", True, False), ("", None, None), ("nan", float("nan"), None), ("1.5", 1.5, True)],
)  # fmt: skip
def test_what_equals_a_column(answer: str, wanted: Any, equal: bool | None) -> None:
    """Values are compared as values, or as texts without blanks around them; a gap tells nothing."""
    rows = [{"text": "x", "label": wanted}]
    runs = lm.map(rows, "{{ text }}", model=scripted_model([answer]), score="label")
    assert runs[0].scores == ({} if equal is None else {"right": equal})


def test_a_score_that_failed_says_why() -> None:
    """How often, on which row first, and what it was: told with runs, with a summary, with a grid."""
    rows = [{"text": "a"}, {"text": "bb"}, {"text": "bb"}]
    runs = lm.map(rows, "{{ text }}", model=scripted_model(said), score=lambda run: 1 / (len(run.text) - 2))
    words = "The score 'score' failed on 2 results, first on row 1: ZeroDivisionError: division by zero"
    assert words in to_text(runs).replace("\n", " ")
    assert any(words in note for note in runs.summary().notes)
    grid = lm.map(
        rows, "{{ text }}", model=scripted_model(said), over={"top_k": [3]}, score=lambda run: run.x
    )
    assert "failed on 3 results, first on row 0: AttributeError" in to_text(grid).replace("\n", " ")


def test_a_score_that_takes_plain_data_for_an_instance_is_told() -> None:
    """`run.answer()` of a structured answer is a dict; the instance is `run.parsed`."""
    model = scripted_model(lambda _: '{"mood": "good", "stars": 3}')
    schema = "mood Literal['good', 'bad'], stars int"
    runs = lm.map(["a"], schema=schema, model=model, score=lambda run: run.answer().mood == "good")
    assert "Write run.parsed.mood: run.answer() is plain data" in runs.summary().notes[-1]


def test_a_column_is_not_equal_to_an_answer_of_several_fields() -> None:
    """Where none has the column's name the score fails, and says so: nothing could ever be right."""
    model = scripted_model(lambda _: '{"grade": 5, "why": "good"}')
    rows = [{"text": "a", "human": 5}]
    runs = lm.map(rows, "{{ text }}", schema="grade int, why", model=model, score="human")
    assert "the answer has fields grade, why, and none is 'human'" in runs.summary().notes[-1]
    with pytest.raises(lm.OptionError, match=r"no axis.\nconfusion\('human'\).kappa says"):
        runs.kappa("human")
    assert runs.confusion("human", field="grade").accuracy == 1


@pytest.mark.parametrize("odd", [float("nan"), np.float32("nan"), float("inf")])
def test_a_score_that_is_no_number_leaves_the_mean_alone(odd: Any) -> None:
    """NaN of one row, which pandas means as "no value", was the mean of all."""
    rows = [{"text": "a"}, {"text": "bb"}, {"text": "cccc"}]
    runs = lm.map(
        rows,
        "{{ text }}",
        model=scripted_model(said),
        score=lambda run: odd if run.text == "bb" else len(run.text) / 2,
    )
    assert [run.scores["score"] for run in runs][::2] == [0.5, 2.0]
    summary = runs.summary()
    assert "1.25" in to_text(summary)
    assert "failed on 1 result, first on row 1" in to_text(summary)


# --- out ----------------------------------------------------------------------------------------


def test_answers_go_back_to_the_rows_that_they_are_of() -> None:
    """A table has the index of the rows: labels of a DataFrame, else places; so a gap moves no answer."""
    texts = ["a", None, "c", "d"]
    frame = pd.DataFrame({"text": texts}, index=["w", "x", "y", "z"])
    model = scripted_model(lambda r: said(r).upper())
    runs = lm.map(frame, "{{ text }}", model=model)
    assert list(runs.to_pandas().index) == ["w", "x", "y", "z"]
    frame["answer"] = runs.to_pandas()["answer"]
    assert list(frame["answer"][["w", "y", "z"]]) == ["A", "C", "D"]
    assert list(runs.failures.to_pandas().index) == ["x"]
    assert [line.split()[:2] for line in to_text(runs[2:]).splitlines()[1:]] == [
        ["row", "index"], ["2", "y"], ["3", "z"],
    ]  # fmt: skip
    assert list(runs[2:].scored(lambda run: 1).to_pandas().index) == ["y", "z"]
    plain = lm.map([{"text": text} for text in texts], "{{ text }}", model=model)
    assert list(plain[2:].to_pandas().index) == [2, 3]
    series = frame["text"].dropna()
    assert list(lm.map(series, "{{ text }}", model=model).to_pandas().index) == ["w", "y", "z"]
    both = lm.map(frame[2:], "{{ text }}", model=model, over={"top_k": [1, 2]})
    assert list(both.to_pandas().index) == ["y", "y", "z", "z"]
    assert list(both.where(top_k=2).to_pandas().index) == ["y", "z"]
    numbered = lm.map(["a", "b"], model=model, n=2)
    assert list(numbered.to_pandas().index) == [0, 1, 2, 3]
    named = lm.map(frame[:2].rename_axis("key"), "{{ text }}", model=model, over={"top_k": [3, 4]})
    assert list(named.where(top_k=4).to_pandas().reset_index()["key"]) == ["w", "x"]
    levels = frame[:1].set_index(pd.MultiIndex.from_tuples([("w", 1)], names=["a", "b"]))
    assert lm.map(levels, "{{ text }}", model=model).to_pandas().index.names == ["a", "b"]
    pairs = frame[:1].set_index(pd.MultiIndex.from_tuples([("w", 1)]))
    assert list(lm.map(pairs, "{{ text }}", model=model).to_pandas().index) == [("w", 1)]


def test_a_prompt_that_names_no_column_is_told_of() -> None:
    """Single braces are a text like any other, so that all rows are asked the same: a note says so."""
    rows = [{"review": "a"}, {"review": "b"}]
    words = "names no column, so every row was asked the same. A column is written {{ review }}."
    assert lm.map(rows, "Mood of {review}", model=scripted_model(said)).notes == (f"The prompt {words}",)
    both = lm.map(rows, {"x": "{{ review }}", "y": "Mood?"}, model=scripted_model(said))
    assert both.notes == (f"The prompt 'y' {words}",)
    assert f"The prompt 'y' {words}" in to_text(both).replace("\n", " ")
    for how in ({"prompt": "{{ review }}"}, {"prompt": "Mood?", "system": "Of {{ review }}"}):
        assert lm.map(rows, model=scripted_model(said), **how).notes == ()
    assert lm.map(rows[:1], "Mood?", model=scripted_model(said)).notes == ()
    assert lm.map(["a", "b"], model=scripted_model(said)).notes == ()


def test_a_column_is_written_as_it_is_called() -> None:
    """`Review Text` and `answer.mood` alone are columns, not expressions; within one they are no names."""
    rows = [
        {"Review Text": f"text {n}", "answer.mood": "good", "answer": "whole", "a-b": None} for n in range(2)
    ]
    runs = lm.map(rows, "{{ Review Text }}, {{answer.mood}} of {{ answer }}", model=scripted_model(said))
    assert [run.completion.messages[0]["content"] for run in runs] == [
        "text 0, good of whole",
        "text 1, good of whole",
    ]
    assert (runs.notes, list(runs.columns)) == ((), ["Review Text", "answer.mood", "answer"])
    over = lm.sweep("In {{ two words }}", over={"two words": ["x", "y"]}, model=scripted_model(said))
    assert [run.completion.messages[0]["content"] for run in over] == ["In x", "In y"]
    failed = lm.map(rows, "{{ Review Text | upper }} {{ a-b }}", model=scripted_model(said))[0].error
    assert "write it alone, {{ Review Text }}, or rename it" in str(failed)
    assert "has no text: the value is None" in str(
        lm.map(rows, "{{ a-b }}", model=scripted_model(said))[0].error
    )
    with pytest.raises(lm.TemplateError, match=r"asks for \{\{ Mood \}\}"):
        lm.map(rows, "{{ Mood }}", model=scripted_model(said))


def test_statements_are_told_of() -> None:
    """`{% for %}` is sent as it stands: a note says so, and an error for a name that only it would give."""
    rows = [{"parts": ["a", "b"]}, {"parts": ["c"]}]
    runs = lm.map(rows, "{% if parts %}{{ parts | join('+') }}{% endif %}", model=scripted_model(said))
    assert runs[0].completion.messages[0]["content"] == "{% if parts %}a+b{% endif %}"
    assert [note[:60] for note in runs.notes] == [
        "In the prompt {% … %} is sent as it stands, only {{ }} is fi"
    ]
    with pytest.raises(lm.TemplateError, match=r"asks for \{\{ p \}\}.*\n.*write \{\{ names \| join"):
        lm.map(rows, "{% for p in parts %}{{ p }}{% endfor %}", model=scripted_model(said))
    assert lm.map(rows, "A share of {% 5 %} {{ parts }}", model=scripted_model(said)).notes == ()


def test_a_grid_shows_a_row_that_was_answered() -> None:
    """Errors are no answers that differ: another row tells more; where there is none they are short."""
    rows = [{"text": "word " * 600}, {"text": "b"}]
    model = scripted_model(lambda r: f"{said(r)} {r.sampling.top_k}")
    runs = lm.map(rows, {"p": "{{ text }}", "q": "So: {{ text }}"}, model=model, over={"top_k": [3, 4]})
    page = to_text(runs)
    assert "answer to row 1" in page
    assert page.partition("every answer")[0].count("error:") == 0
    alone = to_text(lm.map(rows[:1], {"p": "{{ text }}", "q": "So: {{ text }}"}, model=model))
    assert "[" not in alone
    assert "It is filled" not in alone


def test_a_table_of_all_that_is_known() -> None:
    """One row a run: the columns of its row keep their names, ours stand beside them; fields have columns."""
    rows = [{"answer": "gold", "text": "x", "seed": 1}, {"answer": "gold", "text": None, "seed": 2}]
    model = scripted_model(lambda r: json.dumps({"mood": said(r)}))
    frame = lm.map(rows, "{{ text }}", schema=Mood, model=model, over={"top_k": [3]}).to_pandas()
    assert list(frame["answer"]) == ["gold", "gold"]
    assert frame["answer.mood"][0] == "x"
    assert list(frame["top_k"]) == [3, 3]
    assert list(frame["seed"]) == [1, 2]
    assert frame["seed (run)"][0] > 0
    assert "no text" in frame["error"][1]
    assert frame["completion_tokens"][0] > 0
    assert len(lm.map([], model=model).to_pandas()) == 0


def test_a_table_keeps_a_row_s_columns_and_axes_of_the_same_name_apart() -> None:
    """Runs that are judged: the writer's columns keep their names, the judge's axes stand beside them."""
    model = scripted_model(lambda r: "ok")
    rows = [{"text": "a", "row": 7, "sample": 2, "top_k": 5}]
    runs = lm.map(rows, "{{ text }}", model=model, over={"top_k": [3, 4], "seed": [1, 2]})
    frame = runs.to_pandas()
    assert list(frame["top_k"]) == [5] * 4
    assert list(frame["top_k (run)"]) == [3, 3, 4, 4]
    assert list(frame["row"]) == [7] * 4
    assert list(frame["row (run)"]) == list(frame["sample (run)"]) == [0] * 4
    assert "column 'top_k', too" in to_text(runs)
    assert "column 'seed'" not in to_text(runs)


def test_an_axis_of_seeds_can_be_grouped_by() -> None:
    """The column `seed` is the axis, the same for every row; what was drawn with stands beside it."""
    model = scripted_model(lambda r: "ok")
    runs = lm.map(["a", "b"], "{{ text }}", model=model, over={"seed": [1, 2]})
    frame = runs.to_pandas()
    assert list(frame["seed"]) == [1, 2, 1, 2]
    assert list(frame["seed (run)"]) == [run.seed for run in runs]
    assert frame["seed (run)"].nunique() == 4


def test_labels_that_no_answer_ever_is_are_said() -> None:
    """Where the column holds "Yes" and answers are "yes", 0 % right is the table's fault; said only then."""
    model = scripted_model(said)
    rows = [{"text": "yes", "label": "Yes", "sound": "no"}, {"text": "no", "label": "No", "sound": "no"}]
    runs = lm.map(rows, "{{ text }}", model=model)
    assert "it holds 'No', 'Yes', and answered was 'no', 'yes'" in to_text(runs.confusion("label"))
    assert runs.confusion("sound").apart is None


def test_numbers_of_rows_and_answers_are_shown_as_they_are() -> None:
    """1913 is a year, and a latitude keeps its digits: in the table, in one run, in the answer alone."""
    model = scripted_model(lambda _: '{"opened": 1913, "at": 48.85661}')
    schema = {"type": "object", "properties": {"opened": {"type": "integer"}, "at": {"type": "number"}}}
    rows = [{"text": "a", "built": 1899}]
    runs = lm.map(rows, "{{ text }} {{ built }}", schema=schema, model=model, over={"temperature": [0.125]})
    for shown in (runs, runs[0], runs[0].completion):
        for page in (to_text(shown), to_html(shown), to_markdown(shown)):
            assert "1913" in page
            assert "48.85661" in page
            assert "1,9" not in page
    assert "1899" in to_text(runs)
    assert "0.125" in to_text(runs[0])


def _html_rows(page: str) -> int:
    return page.count("<tr") - page.count("<thead")


@pytest.mark.parametrize(("rows", "folds"), [(50, 0), (51, 1), (120, 2), (700, 5)])
def test_tables_are_paged_above_fifty_rows(rows: int, folds: int) -> None:
    """HTML has six pages, so that a notebook does not grow with them; text and Markdown have the first."""
    runs = lm.map([f"<{i}>" for i in range(rows)], model=scripted_model(said))
    page = to_html(runs)
    assert page.count("<details") == folds
    assert _html_rows(page) == min(rows, 300)
    assert "&lt;0&gt;" in page
    for text in (to_text(runs), to_markdown(runs)):
        assert (f"{rows} in all; .to_pandas() has every one." in text.replace("\\", "")) == (rows > 50)
        assert ("49" in text) == (rows >= 50)
        assert "51>" not in text


def test_a_row_is_said_once_beside_all_that_was_asked_of_it() -> None:
    """Its number and its columns stand at the first of its settings, also where rows have one text, and again
    on the next page; a line is drawn below the last."""
    runs = lm.map(["a", "a", "b"], model=scripted_model(said), over={"top_k": [1, 2], "seed": [3, 4]})
    rows = re.findall(r"<tr([^>]*)>(<td.*?)</tr>", to_html(runs).partition("every answer")[2])
    said_of = [re.findall(r"<td[^>]*>([^<]*)</td>", cells)[:2] for _, cells in rows]
    assert said_of == [
        cells for row in (["0", "a"], ["1", "a"], ["2", "b"]) for cells in (row, *[["", ""]] * 3)
    ]
    assert ["border" in mark for mark, _ in rows] == [False, False, False, True] * 3
    rows17 = [{"text": None if i == 16 else "a"} for i in range(17)]
    runs = lm.map(rows17, "{{ text }}", model=scripted_model(said), over={"top_k": [1, 2, 3]})
    assert len(re.findall("<td[^>]*>16</td>", to_html(runs))) == 2  # its third error stands on page 2


def test_below_a_grid_a_page_of_answers_is_kept() -> None:
    """What sums 300 answers up is a grid; of the answers 50 are saved, the number of all, and each error."""
    rows = [{"text": None if i == 99 else f"<{i}>"} for i in range(100)]
    runs = lm.map(rows, "{{ text }}", model=scripted_model(said), over={"top_k": [1, 2, 3]})
    odds = lm.decide(
        rows, {"a": "{{ text }}", "b": "{{ text }}!"}, options=["yes", "no"], model=scripted_model(said)
    )
    for result, word, whole in ((runs, "every answer", 300), (odds, "every decision", 200)):
        page = to_html(result).partition(word)[2]
        assert f"{whole} in all; .to_pandas() has every one." in page
        failed = whole // 100  # all settings of one row
        assert re.findall(r"<summary[^>]*>(.*?)</summary>", page) == [f"{failed} errors further on"]
        assert _html_rows(page) == 50 + failed


def test_errors_beyond_the_pages_have_one_of_their_own() -> None:
    """A row that failed is found in a saved notebook, however far down it is."""
    rows = [{"text": None if i in (3, 320, 333) else f"<{i}>"} for i in range(400)]
    page = to_html(lm.map(rows, "{{ text }}", model=scripted_model(said)))
    assert re.findall(r"<summary[^>]*>(.*?)</summary>", page)[-2:] == ["251 to 300", "2 errors further on"]
    failed = page.partition("further on")[2]
    assert re.findall(r"<tr[^>]*><td[^>]*>(\d+)</td>", failed) == ["320", "333"]
    assert page.count("no text: the value is None") == 3


def test_a_view_says_what_failed_and_what_is_missing() -> None:
    """Errors stand in their rows, in words that need no style; so does what is still to come."""
    model = scripted_model(_until("03"))
    with pytest.raises(lm.GenerationInterrupted) as caught:
        lm.map([*TEXTS[:5], {"text": None}], "{{ text }}", schema=Mood, model=model, score=lambda run: 1.0)
    runs = caught.value.completion
    for text in (to_text(runs), to_markdown(runs), to_html(runs)):
        assert f"{runs.missing} of 6 are missing; .resume() goes on." in text.replace("\\", "")
    runs.resume()
    assert "1 error" in to_text(runs)
    assert "no text: the value is None" in to_html(runs).replace("&#x27;", "'")
    assert "missing" not in to_text(runs)
    assert to_text(runs[1]).startswith("run: row 1\n")


# --- progress -----------------------------------------------------------------------------------


def test_progress_is_told_to_a_function() -> None:
    """Rows done, of how many, errors so far, speed and time left."""
    told: list[Standing] = []
    lm.map(["a", {"text": None}, "c"], "{{ text }}", model=scripted_model(said), progress=told.append)
    assert [s.done for s in told] == sorted(s.done for s in told)
    assert (told[-1].done, told[-1].total, told[-1].errors, told[-1].noun) == (3, 3, 1, "row")
    assert all(s.rate > 0 for s in told)
    assert told[-1].left_s == 0
    assert any(s.left_s and s.left_s > 0 for s in told[:-1])


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_one_line_that_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says rows done, speed, time left and errors; at the end it stands complete."""
    screen = _Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(watching, "_PERIOD", 0.0)
    lm.map(["a", {"text": None}, "c"], "{{ text }}", model=scripted_model(said))
    lines = screen.getvalue().split("\r")
    assert lines[-1].endswith(" \n")
    assert lines[-1].startswith("3 of 3 rows · ")
    assert " · 1 error " in lines[-1]
    assert any(" rows/s · " in line and " left" in line for line in lines)


def test_who_looks_sees_that_it_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first answer may take long: that none is there yet is said before it is."""
    answered = threading.Event()

    class Screen(_Screen):
        def write(self, text: str) -> int:
            if "0 of 2 rows" in text:
                answered.set()
            return super().write(text)

    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(watching, "_SILENT", 0.0)
    runs = lm.map(["a", "b"], model=scripted_model(lambda r: Script(said(r), at=0, hold=answered)))
    assert [run.text for run in runs] == ["a", "b"]
    assert screen.getvalue().split("\r")[1].startswith("0 of 2 rows")
    assert "0 of 3 rows" in _published(monkeypatch, Runs(None, {}), Standing(0, 3, 0, 0.0, None))
    assert "1,234 rows/s" in watching.words(Standing(1, 3, 0, 1234.5, 1.0))


def _published(monkeypatch: pytest.MonkeyPatch, results: Any, standing: Standing) -> str:
    sent: list[Any] = []
    monkeypatch.setattr(watching.hosts, "publish", lambda shell, bundle, **how: sent.append(bundle))
    watching._Cell(None).show(results, standing)
    return str(sent[0]["text/plain"])


def test_a_console_of_jupyter_is_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its kernel writes goes to no terminal of the kernel's own, and is seen all the same."""

    class Kernel:
        def get_parent(self, channel: str) -> dict[str, Any]:
            return {"metadata": {}, "content": {"allow_stdin": True}}

    class Shell:
        kernel, display_pub = Kernel(), None

    monkeypatch.setattr(watching.hosts, "current_shell", Shell)
    assert type(watching.host_now()).__name__ == "_Terminal"


def test_where_output_is_kept_short_experiments_say_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log, or a notebook run by a program, holds the results alone; `progress=False` is silent anywhere.

    How far a long one is goes to stderr: what a script writes into a pipe stays its own.
    """
    lm.map(["a"], model=scripted_model(said))
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(watching, "_SELDOM", 0.0)
    lm.map(["a"], model=scripted_model(said))
    out, err = capsys.readouterr()
    assert (out, err[:10]) == ("", "1 of 1 row")
    lm.map(["a"], model=scripted_model(said), progress=False)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("on_error", ["keep", "stop"])
def test_the_name_that_is_assigned_to_holds_what_is_done(on_error: str) -> None:
    """`runs = lm.map(…)` in a cell binds `runs` though it raises; what assigns nothing binds nothing."""
    how = f"TEXTS, schema=Mood, model=model, on_error={on_error!r}"
    for line, bound in (
        (f"runs = lm.map({how})", "runs"),
        (f"lm.map({how})", None),
        (f"x = [lm.map({how})]", None),
    ):
        space = {"lm": lm, "TEXTS": TEXTS, "Mood": Mood, "model": scripted_model(_until("25"))}
        if on_error == "stop":
            bad = Script("x", at=0, error=lm.BackendError("lost"))
            space["model"] = scripted_model(lambda r: bad if said(r) == "25" else json.dumps({"mood": "m"}))  # noqa: B023 - now
        before = set(space)
        with pytest.raises((lm.GenerationInterrupted, lm.BackendError)) as caught:
            exec(line, space)
        assert set(space) - before - {"__builtins__"} == ({bound} if bound else set())
        if bound:
            runs = space[bound]
            assert isinstance(runs, Runs)
            assert len(runs) > 0
            assert on_error == "stop" or "runs.resume() goes on" in str(caught.value)


@pytest.mark.parametrize("own", [True, False])
def test_an_error_beside_the_rows_keeps_what_is_done(
    own: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is told how far it is fails, or the record's disk is full: `runs` is bound all the same."""
    model = scripted_model(said)
    space: dict[str, Any] = {"lm": lm, "TEXTS": TEXTS[:4], "model": model}
    space["told"] = lambda standing: 1 / (not standing.done)  # as soon as one is there
    line = "runs = lm.map(TEXTS, model=model, progress=told)"
    if own:
        add, left = Record.add, [1, 1]

        def full(self: Record, *answers: Any, **how: Any) -> None:
            if not left:
                raise lm.SourceError("The disk is full.")
            left.pop()
            add(self, *answers, **how)

        monkeypatch.setattr(Record, "add", full)
        space["record"] = Record(tmp_path / "r.sqlite")
        line = "runs = lm.map(TEXTS, model=model, record=record, progress=False)"
    with pytest.raises((lm.SourceError, ZeroDivisionError)) as caught:
        exec(line, space)
    runs: Any = space["runs"]
    assert len(runs) == 2 if own else len(runs)
    assert caught.value.__notes__ == [
        f"{counted(len(runs), 'row')} {'is' if len(runs) == 1 else 'are'} kept."
    ]


def test_a_gap_in_a_column_can_be_said_in_the_prompt() -> None:
    """NaN is true to Jinja, and NA neither: in a prompt both are None, and in the inputs what they were."""
    table = pd.DataFrame({"text": [float("nan")], "n": pd.array([None], "Int64"), "t": [pd.NaT]})
    runs = lm.map(table, "{{ text or 'a' }} {{ n or 'b' }} {{ t or 'c' }}", model=scripted_model(said))
    assert "a b c" in runs[0].completion.prompt
    assert runs[0].inputs["n"] is pd.NA


@pytest.mark.parametrize("option", [{"temperature": [0, 1]}, {"seed": range(3)}, {"max_tokens": (8, 16)}])
def test_several_values_of_an_option_are_an_axis(option: dict[str, Any]) -> None:
    """A list where one value belongs is refused before anything is asked, with the axis to write."""
    (name,) = option
    with pytest.raises(lm.InputTypeError, match=rf"over={{'{name}': \["):
        lm.map(["a"], model=scripted_model(said), **option)


def test_runs_are_rows_themselves() -> None:
    """`lm.map(runs.failures, prompt)` asks those rows again, by the columns and labels that they had."""
    rows = [{"text": "a", "n": 1}, {"text": None, "n": 2}]
    model = scripted_model(said)
    for given, label in ((rows, 1), (pd.DataFrame(rows, index=["x", "y"], dtype=object), "y")):
        runs = lm.map(given, "Say {{ text }}", model=model)
        again = lm.map(runs.failures, "Say {{ text or 'nothing' }} {{ n }}", model=model)
        assert [(run.inputs["text"], run.inputs["n"]) for run in again] == [(None, 2)]
        assert "Say nothing 2" in again[0].completion.prompt
        assert list(again.to_pandas().index) == [label]
    judged = lm.map(runs, "Judge {{ answer }}", model=model)
    assert ["Judge" in run.completion.prompt for run in judged if run.completion] == [True]


def test_conversations_that_end_with_the_assistant_say_so() -> None:
    """Answers go on from it: told with the runs and, before anything is asked, in a dry run."""
    question = {"role": "user", "content": "Hello"}
    rows = [[question], [question, {"role": "assistant", "content": "Hi"}]]
    model = scripted_model(said)
    words = "1 of 2 conversations end with a turn of the assistant, and answers go on from it."
    assert words in to_text(lm.map(rows, model=model, dry_run=True)).replace("\n", " ")
    runs = lm.map(rows, model=model)
    assert words in " ".join(runs.notes)
    assert [run.completion.prompt.endswith("assistant\nHi") for run in runs] == [False, True]
    assert not lm.map(rows[:1], model=model).notes


def test_dates_and_gaps_in_a_table_of_runs() -> None:
    """A date has its own words, no quotes; NaT and NA are no values. The index is no column."""
    table = pd.DataFrame(
        {"day": pd.to_datetime(["2026-01-02 03:04", None]), "n": pd.array([1, None], "Int64")}
    )
    model = scripted_model(said)
    shown = to_text(lm.map(table, "{{ day if n == 1 else 'no' }}{{ n or 0 }}", model=model))
    assert " 2026-01-02 03:04:00 " in shown
    assert "NaT" not in shown
    with pytest.raises(lm.TemplateError, match=r"day is the rows' index: df\.reset_index\(\)"):
        lm.map(table.set_index("day"), "{{ day }}", model=model)
