"""The vote over several answers: what each field's winner is, and whether the winners are an instance."""

from __future__ import annotations

import json
from typing import Any, Literal

import pandas
import pydantic
import pytest

import llama_magic as lm
from llama_magic import display, structured
from llama_magic.errors import InputTypeError, OptionError
from llama_magic.experiments.ballot import Shape, Vote, count
from llama_magic.testing import scripted_model


def _count(values: list[Any], schema: Any = True) -> Vote:
    return count([json.dumps(value) for value in values], structured.compile(schema))


def _winners(vote: Vote) -> dict[str, Any]:
    return {one.pointer: (one.winner, one.votes, one.ballots) for one in vote.fields}


def test_each_field_is_voted_on_by_itself() -> None:
    """The winners of the fields may come from different answers, and are put together to an instance."""

    class Place(pydantic.BaseModel):
        city: str
        at: dict[str, float]
        big: bool | None

    answers = [
        Place(city="Bern", at={"x": 1.0, "y": 2}, big=None),
        Place(city="Bern", at={"x": 1, "y": 3}, big=True),
        Place(city="Basel", at={"x": 4, "y": 3}, big=None),
    ]
    vote = count([one.model_dump_json() for one in answers], structured.compile(Place))
    assert _winners(vote) == {
        "/city": ("Bern", 2, 3),
        "/at/x": (1.0, 2, 3),
        "/at/y": (3.0, 2, 3),
        "/big": (None, 2, 3),
    }
    assert vote.parsed == Place(city="Bern", at={"x": 1, "y": 3}, big=None)
    assert vote.combined
    assert vote["/city"].agreement == pytest.approx(2 / 3)
    assert vote["/city"].counts == (("Bern", 2), ("Basel", 1))
    assert vote.agreement == pytest.approx(2 / 3)


def test_values_are_compared_as_json() -> None:
    """1 is 1.0; true, "1" and null are other values; of equal counts the first given wins."""
    vote = _count([1, True, "1", 1.0, None])
    assert vote.fields[0].counts == ((1, 2), (True, 1), ("1", 1), (None, 1))
    assert _count(["b", "a", "a", "b"]).parsed == "b"


def test_a_missing_key_is_a_value() -> None:
    """Where most answers leave a key out, the winner leaves it out; a key may be called a~b/c."""
    vote = _count([{"a~b/c": 1}, {"x": 2, "a~b/c": 1}, {"a~b/c": 3}])
    assert _winners(vote) == {"/a~0b~1c": (1, 2, 3), "/x": (Shape.MISSING, 2, 3)}
    assert vote.parsed == {"a~b/c": 1}
    assert str(vote["/x"].winner) == "missing"


def test_lists_by_item_or_as_a_whole() -> None:
    """Lists of one length are compared item by item, others as a whole."""
    vote = _count([[1, {"a": 2}], [1, {"a": 3}], [4, {"a": 3}]])
    assert _winners(vote) == {"/0": (1, 2, 3), "/1/a": (3, 2, 3)}
    assert vote.parsed == [1, {"a": 3}]
    vote = _count([{"t": ["x"]}, {"t": ["x", "y"]}, {"t": ["x", "y"]}, {"t": []}])
    assert _winners(vote) == {"/t": (["x", "y"], 2, 4)}


def test_kinds_are_voted_on_before_what_is_inside() -> None:
    """Three different objects outvote two nulls, and then vote among themselves."""
    vote = _count([{"a": {"b": 1}}, {"a": None}, {"a": {"b": 2}}, {"a": None}, {"a": {"b": 2}}])
    assert _winners(vote) == {"/a": (Shape.OBJECT, 3, 5), "/a/b": (2, 2, 3)}
    assert vote.parsed == {"a": {"b": 2}}
    assert _winners(_count([{"a": {"b": 1}}, {"a": None}, {"a": None}])) == {"/a": (None, 2, 3)}


def test_winners_that_are_no_instance_together() -> None:
    """Then the most frequent whole answer is taken, and the reason is said."""
    schema = {
        "type": "object",
        "oneOf": [
            {"properties": {"kind": {"const": kind}, "n": {"const": n}}, "required": ["kind", "n"]}
            for kind, n in (("a", 1), ("a", 2), ("b", 3))
        ],
    }
    answers = [{"kind": "a", "n": 1}, {"kind": "a", "n": 2}, {"kind": "b", "n": 3}, {"kind": "b", "n": 3}]
    vote = _count([*answers, {"kind": "a", "n": 1}], schema)
    assert vote.combined
    vote = _count([{"kind": "a", "n": 1}, {"kind": "a", "n": 2}, *[{"kind": "b", "n": 3}] * 2], schema)
    assert (vote["/kind"].winner, vote["/n"].winner) == ("a", 3)
    assert not vote.combined
    assert vote.parsed == {"kind": "b", "n": 3}
    assert vote.whole_votes == 2
    assert "'b' was expected" in vote.why_not
    assert "no instance" in display.to_text(vote)


def test_what_is_no_instance_does_not_vote() -> None:
    """Cut and wrong answers are counted as left out; without any instance there is no vote."""
    constraint = structured.compile({"type": "integer"})
    vote = count(["1", "x", "1", '"2"'], constraint)
    assert (vote.ballots, vote.left_out, vote.parsed) == (2, 2, 1)
    with pytest.raises(OptionError, match="None of the 1 answers"):
        count(["x"], constraint)
    with pytest.raises(OptionError, match="no answer"):
        lm.vote([])
    with pytest.raises(InputTypeError, match="structured answers"):
        lm.vote(["text"])  # type: ignore[list-item]


def test_enums_and_choices_vote() -> None:
    """A value without fields is one field at the root; choices are compared as texts."""
    vote = count(["no", "yes", "no"], structured.compile(choices=["yes", "no"]))
    assert (_winners(vote), vote.parsed) == ({"": ("no", 2, 3)}, "no")
    vote = count(['"a"', '"b"', '"b"'], structured.compile(Literal["a", "b"]))
    assert (_winners(vote), vote.parsed) == ({"": ("b", 2, 3)}, "b")


def test_a_vote_as_a_table() -> None:
    """pandas gets one row a field; the view names winner, agreement and the others, and who wins a tie."""
    vote = _count([{"a": 1, "b": [1]}, {"a": 1, "b": [2]}, {"a": "x|y", "b": [2]}])
    frame = vote.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["field"]) == ["/a", "/b/0"]
    assert list(frame["winner"]) == [1, 2]
    assert list(frame["votes"]) == [2, 2]
    assert list(frame["others"]) == [{'"x|y"': 1}, {"1": 1}]
    text = display.to_text(vote)
    assert "2 of 3" in text
    assert "b[0]" in text
    assert "equal votes" not in text
    assert "Of equal votes the value that was given first wins." in display.to_text(
        _count([{"a": 1}, {"a": 2}])
    )
    assert "<table" in display.to_html(vote)


def test_samples_carry_their_vote(loaded: Any) -> None:
    """`structured(n=4)` gives a plain list; `lm.vote` counts it, and a saved seed gives the same vote."""
    model = loaded("short", ctx=1024)
    options = {"n": 4, "seed": 5, "max_tokens": 40}
    answers = model.structured("Heads or tails?", {"enum": ["heads", "tails"]}, **options)
    assert type(answers) is list
    vote = lm.vote(answers)
    assert sum(number for _, number in vote.fields[0].counts) == vote.ballots == 4
    assert vote.parsed in ("heads", "tails")
    assert vote.fields[0].votes == [one.parsed for one in answers].count(vote.parsed) >= 2
    again = model.structured("Heads or tails?", {"enum": ["heads", "tails"]}, **options)
    assert lm.vote(again) == vote
    assert "vote" in display.to_text(answers)
    other = model.structured("A number?", {"type": "integer"}, max_tokens=40)
    with pytest.raises(OptionError, match="different schemas"):
        lm.vote([*answers, other])


def test_runs_of_a_map_vote() -> None:
    """What a map gave is answers as well: a row with an error has no vote."""
    said = iter(['"red"', '"blue"', '"red"'])
    model = scripted_model(lambda request: next(said))
    rows = [{"text": "a"}, {"text": None}, {"text": "b"}, {"text": "c"}]
    runs = lm.map(rows, "{{ text }}", schema={"enum": ["red", "blue"]}, model=model)
    vote = lm.vote(runs)
    assert (vote.parsed, vote.ballots, vote.fields[0].votes) == ("red", 3, 2)
