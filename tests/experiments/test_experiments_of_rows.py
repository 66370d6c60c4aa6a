"""What an answer must be, from row to row: options of its own question, ids of its own sources."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pydantic
import pytest

import llama_magic as lm
from llama_magic.errors import OptionError
from llama_magic.testing import scripted_model

QUESTIONS = [
    {"q": "Which fruit?", "options": ["apple", "pear"]},
    {"q": "Which fish?", "options": np.array(["cod", "eel"])},
]


def test_choices_of_each_row_are_what_its_answer_can_be(short: Any) -> None:
    """Each answer is one of its own row's, an array of a table's cell too; a bad row costs no other."""
    rows = [*QUESTIONS, {"q": "Which?"}, {"q": "Which?", "options": None}]
    runs = lm.map(rows, "{{ q }}", choices=lambda row: row["options"], model=short, seed=1, max_tokens=8)
    assert runs[0].answer() in ("apple", "pear")
    assert runs[1].answer() in ("cod", "eel")
    assert "choices= failed on this row: KeyError: 'options'" in str(runs[2].error)
    assert "choices= gave None for this row" in str(runs[3].error)
    assert all(isinstance(runs[i].error, OptionError) for i in (2, 3))


def _cited(row: dict[str, Any], most: int) -> type[pydantic.BaseModel]:
    source = Literal[tuple(row["ids"])]  # type: ignore[valid-type]
    sources: Any = (list[source], pydantic.Field(min_length=1, max_length=most))
    return pydantic.create_model("Cited", sources=sources)


def test_a_schema_of_each_row_cites_its_own_sources(short: Any) -> None:
    """A function of any kind that is no type: here a partial; a class is the schema of all rows."""
    rows = [{"q": "a", "ids": ["P1", "P2"]}, {"q": "b", "ids": ["P8", "P9"]}]
    cited = functools.partial(_cited, most=1)
    runs = lm.map(rows, "{{ q }}", schema=cited, model=short, seed=1, max_tokens=40)
    assert [run.parsed.sources[0] in row["ids"] for run, row in zip(runs, rows, strict=True)] == [True, True]
    asked = lm.map(rows, "{{ q }}", schema=cited, model=short, seed=1, max_tokens=40, dry_run=True)
    assert "2 answers" in str(asked)


def test_a_record_finds_answers_of_functions_by_what_they_gave(tmp_path: Path) -> None:
    """The function may be written anew; other options are another question."""
    counted: list[Any] = []

    def said(request: Any) -> str:
        counted.append(request)
        return "apple"

    def ask(choices: Callable[[dict[str, Any]], Any]) -> Any:
        model = scripted_model(said)
        record = tmp_path / "r.sqlite"
        return lm.map(QUESTIONS[:1], "{{ q }}", choices=choices, model=model, seed=1, record=record)

    assert ask(lambda row: row["options"])[0].text == "apple"
    assert ask(lambda row: list(row["options"]))[0].text == "apple"
    assert len(counted) == 1
    ask(lambda row: [*row["options"], "plum"])
    assert len(counted) == 2


def test_a_function_with_a_wrong_result_is_the_error_of_its_row() -> None:
    """What cannot be a schema is refused as for a call."""
    runs = lm.map(["a"], schema=lambda row: 3, model=scripted_model(lambda _: "x"))
    assert isinstance(runs[0].error, lm.LlamaMagicError)
    with pytest.raises(lm.LlamaMagicError):
        lm.map(["a"], schema=lambda row: 3, model=scripted_model(lambda _: "x"), on_error="stop")
