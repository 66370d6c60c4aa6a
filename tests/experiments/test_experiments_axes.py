"""What is compared where nobody says by what, and functions of a row that are objects."""

from __future__ import annotations

import operator
from typing import Any

import pytest

import llama_magic as lm
from llama_magic.testing import scripted_model

ROWS = [{"text": "a", "label": "x", "words": ["x", "y"]}, {"text": "b", "label": "y", "words": ["y", "z"]}]
PROMPTS = {"one": "Q {{ text }}", "two": "R {{ text }}"}


def _runs(**options: Any) -> Any:
    return lm.map(ROWS, PROMPTS, model=scripted_model(), score=bool, progress=False, **options)


def test_the_only_axis_of_several_values_is_meant() -> None:
    """`pairs()` and `kappa()` compare its values; a second axis, or none, is an error that names them all."""
    runs = _runs()
    assert runs.pairs() == runs.pairs("prompt")
    assert runs.kappa() == runs.kappa("prompt")
    both = "'prompt' \\(2 values\\), 'temperature' \\(2 values\\)"
    with pytest.raises(lm.OptionError, match=f"^No axis is named, and there are {both}\\.\nName the one"):
        _runs(over={"temperature": [0, 1]}).pairs()
    with pytest.raises(lm.OptionError, match=r"^No axis is named, and there are none\.\nVary something"):
        lm.map(ROWS, PROMPTS["one"], model=scripted_model(), progress=False).kappa()


def test_a_column_that_is_not_named_is_asked_for() -> None:
    """`confusion()` says which there are, and an option that is not there is called by its name."""
    with pytest.raises(lm.OptionError, match=r"No column is named, and the rows have label, text, words\."):
        _runs().confusion()
    with pytest.raises(lm.InputTypeError, match=r"^Runs\.pairs has no option 'by'"):
        _runs().pairs(by="prompt")


def test_an_object_that_can_be_called_is_a_function_of_the_row() -> None:
    """`operator.itemgetter`, and objects of one's own, give the options of each row; classes do not."""

    class Words:
        def __call__(self, row: dict[str, Any]) -> Any:
            return row["words"]

    for given in (Words(), operator.itemgetter("words")):
        odds = lm.decide(ROWS, PROMPTS["one"], options=given, model=scripted_model())
        assert [list(one.logprobs) for one in odds] == [["x", "y"], ["y", "z"]]
        model = scripted_model({"Q a": "y", "Q b": "z"})
        runs = lm.map(ROWS, PROMPTS["one"], choices=given, model=model, progress=False)
        assert [run.answer() for run in runs] == ["y", "z"]
    with pytest.raises(lm.InputTypeError, match="expected a list of texts"):
        lm.decide(ROWS, PROMPTS["one"], options=Words, model=scripted_model())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "words"),
    [("temp", r"Did you mean temperature\?"), ("style", r"prompt\.\nA variable stands in the prompt as")],
)
def test_an_axis_that_is_nothing_here_says_what_it_may_be(name: str, words: str) -> None:
    """Another library's name of an option leads to ours; a variable is to stand in the prompt."""
    with pytest.raises(lm.OptionError, match=words):
        lm.sweep("Mood?", over={name: [0, 1]}, model=scripted_model())


def test_a_list_for_a_name_is_no_axis() -> None:
    """A sweep where nothing varies is refused; beside an axis, or asked several times, a list is a value."""
    model = scripted_model(lambda _: "ok")
    with pytest.raises(lm.OptionError, match=r"(?s)no axis, and words is one value.*over=\{'words': \[…\]\}"):
        lm.sweep("Use {{ words }}", words=["sea", "sun"], model=model)
    assert model.backend.requests == []
    for more in ({"n": 2}, {"over": {"temperature": [0, 1]}}):
        runs = lm.sweep("Use {{ words }}", words=["sea", "sun"], model=model, progress=False, **more)
        assert len(runs) == 2


@pytest.mark.parametrize("asked", ["df.text", "row['text']", 'row["text"]'])
def test_a_column_asked_for_as_a_part_of_its_row_is_named(asked: str) -> None:
    """`{{ df.text }}`, as a cell would have it: in a prompt for rows a column stands alone."""
    with pytest.raises(lm.TemplateError, match=r"Columns are named alone: \{\{ text \}\}\."):
        lm.map(ROWS, f"Q {{{{ {asked} }}}}", model=scripted_model())
