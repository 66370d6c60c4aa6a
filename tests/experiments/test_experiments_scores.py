"""Scores: functions and columns, what equals what, and what says why it failed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from moods import Mood, said

import llama_magic as lm
from llama_magic.display import to_text
from llama_magic.testing import scripted_model


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
     ("1", True, False), ("", None, None), ("nan", float("nan"), None), ("1.5", 1.5, True),
     ("cafe\u0301", "caf\u00e9", True)],
)  # fmt: skip
def test_what_equals_a_column(answer: str, wanted: Any, equal: bool | None) -> None:
    """Values are compared as values, or as texts that read alike; a gap tells nothing.

    Blanks around and the two forms of an accent are no difference, in the confusion of answers neither.
    """
    rows = [{"text": "x", "label": wanted}]
    runs = lm.map(rows, "{{ text }}", model=scripted_model([answer]), score="label")
    assert runs[0].scores == ({} if equal is None else {"right": equal})
    if isinstance(wanted, str):
        assert runs.confusion("label").accuracy == equal


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
