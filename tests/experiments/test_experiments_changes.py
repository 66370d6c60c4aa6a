"""Two runs side by side, parts of one, and summaries by what the rows hold."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from moods import said

import llama_magic as lm
from llama_magic.display import to_text
from llama_magic.experiments.changes import Changes
from llama_magic.testing import scripted_model

ROWS = [
    {"id": 1, "text": "a", "mood": "good"},
    {"id": 2, "text": "b", "mood": "bad"},
    {"id": 3, "text": "b", "mood": "bad"},
    {"id": 4, "text": None, "mood": float("nan")},
]


def asked(rows: Any, answers: dict[str, str], **how: Any) -> Any:
    """Answer a row by its text."""
    model = scripted_model(lambda request: answers[said(request)])
    return lm.map(rows, "{{ text }}", model=model, score="mood", **how)


def test_two_runs_are_compared_row_by_row() -> None:
    """Wherever a row stands now it is the same; answers that are others, and how the score moved."""
    yesterday = pickle.loads(pickle.dumps(asked(ROWS, {"a": "bad", "b": "bad"}, temperature=0)))
    rows = [{"id": 9, "text": "c", "mood": "good"}, *reversed(ROWS)]
    today = asked(rows, {"a": "good", "b": "bad", "c": "good"}, temperature=0)
    found = lm.diff(yesterday, today, names=("yesterday", "today"))
    assert isinstance(found, Changes)
    assert [(one.text, other.text, other.row) for one, other in found.changed] == [("bad", "good", 4)]
    assert (len(found.both), found.only) == (4, (0, 1))
    (moved,) = found.scores[0].pairs
    assert (moved.first, moved.second, moved.rows, moved.better, moved.worse) == (
        "yesterday",
        "today",
        3,
        1,
        0,
    )
    frame = found.to_pandas()
    assert list(frame.index) == list(frame["row"]) == [1, 2, 3, 4]
    assert list(frame["changed"]) == [False, False, False, True]
    assert list(frame["answer today"][1:]) == ["bad", "bad", "good"]
    assert list(frame["right yesterday"][1:]) == [True, True, False]
    text = to_text(found)
    assert "yesterday and today: 1 of 4 answers changed" in text
    assert "today has 1 answer that yesterday has not" in text
    assert "no → yes" in text


def test_rows_that_are_the_same_by_a_column() -> None:
    """A text that was edited makes another row, unless a column names it; equal rows count in their order."""
    edited = [{**row, "text": "b"} for row in ROWS]
    one, other = asked(ROWS, {"a": "x", "b": "y"}), asked(edited, {"b": "y"})
    assert lm.diff(one, other).only == (2, 2)
    assert len(lm.diff(one, other, on="id").both) == 4
    by_mood = lm.diff(one, other, on=["mood"])
    assert [(a.row, b.row) for a, b in by_mood.both] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    with pytest.raises(lm.OptionError, match=r"rows of A have no column 'ix'. Known: id, mood, text"):
        lm.diff(one, other, on="ix")
    with pytest.raises(lm.OptionError, match=r"No row of A is one of B.*by id, text, mood"):
        lm.diff(one[:1], other[1:2])
    with pytest.raises(lm.InputTypeError, match=r"One is Runs of many rows, the other is"):
        lm.diff(one, one[0].completion)
    with pytest.raises(lm.OptionError, match=r"on= says by which columns"):
        lm.diff(one[0], one[1], on="id")


def test_settings_stand_against_their_like() -> None:
    """Axes that both have pair alike; one that only one side varies is refused, and what to write is said."""
    answers = {"a": "x", "b": "y"}
    both = asked(ROWS, answers, over={"top_k": [1, 2]})
    assert [(one.settings, other.settings) for one, other in lm.diff(both, both[::2]).both] == [
        ({"top_k": 1}, {"top_k": 1})
    ] * 4
    with pytest.raises(lm.OptionError, match=r"A has 2 values of top_k.*\n.*A.where\(top_k=1\)"):
        lm.diff(both, asked(ROWS, answers))
    found = lm.diff(both.where(top_k=1), asked(ROWS, answers, over={"top_k": [3]}))
    assert ("sampling top_k", 1, 3) in found.settings
    model = scripted_model(odds=lambda request, text: 0.6 if text == "good" else 0.3)
    odds = lm.decide(ROWS, "{{ text }}", options=["good", "bad"], model=model)
    stricter = lm.diff(odds, odds.abstain_below(0.9)).to_pandas()
    assert list(stricter["changed"]) == [True, True, True, False]


def test_a_cell_compares_runs_that_are_variables(ip: Any) -> None:
    """`%llama diff yesterday today` names them so."""
    ip.user_ns |= {"old": asked(ROWS, {"a": "x", "b": "y"}), "new": asked(ROWS, {"a": "x", "b": "z"})}
    assert ip.run_line_magic("llama", "diff old new").names == ("old", "new")


def test_parts_by_column_and_by_function() -> None:
    """An axis before a column of its name; a value that no row has is likely another that is meant."""
    runs = asked(ROWS, {"a": "bad", "b": "bad"}, over={"top_k": [1, 2]})
    assert [run.row for run in runs.where(mood="bad", top_k=2)] == [1, 2]
    assert [run.row for run in runs.where(mood=None)] == [3, 3]
    wrong = runs.where(lambda run: run.scores.get("right") is False, top_k=1)
    assert ([run.row for run in wrong], repr(wrong)) == ([0], "<Runs: 1 answer>")
    for how, words in (
        ({"mood": "goo"}, r"The column 'mood' has no value 'goo'. Did you mean good"),
        ({"id": 7}, r"The column 'id' has no value 7. It has \[1, 2, 3, 4\]"),
        ({"top_k": 3}, r"The axis 'top_k' has no value 3. It has \[1, 2\]"),
        ({"moot": 3}, r"no axis 'moot', and no column. Did you mean mood"),
    ):
        with pytest.raises(lm.OptionError, match=words):
            runs.where(**how)
    assert [len(part.where(mood="bad")) for part in (wrong, wrong[:0])] == [0, 0]
    assert wrong[:0].summary(by="mood").groups == ()
    with pytest.raises(lm.InputTypeError, match="Give a function"):
        runs.where([True, False])
    named = asked([{"text": "a", "top_k": "mine", "mood": "x"}], {"a": "x"}, over={"top_k": [1]})
    assert (len(named.where(top_k=1)), named.summary(by="top_k").groups[0].settings) == (1, {"top_k": 1})


def test_a_summary_by_what_the_rows_hold() -> None:
    """Gaps are one group; tokens that were read and written, and seconds, are means of a result."""
    summary = asked(ROWS, {"a": "good", "b": "bad one"}).summary(by="mood")
    frame = summary.to_pandas().set_index("mood")
    assert list(frame.index[:2]) == ["good", "bad"]
    assert list(frame["results"]) == [1, 2, 1]
    assert list(frame["tokens"][:2]) == [1, 2]
    assert list(frame["errors"]) == [0, 0, 1]
    assert frame["prompt_tokens"]["good"] > 1
    heads = to_text(summary).splitlines()[1]
    assert heads.endswith("seconds")
    assert "prompt tokens  written" in heads
    with pytest.raises(lm.OptionError, match=r"no axis 'mod', and no column. Did you mean mood"):
        asked(ROWS, {"a": "x", "b": "x"}).summary(by="mod")
