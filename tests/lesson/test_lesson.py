"""Predictions and exercises: what a reader sees, chooses and is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

import llama_magic as lm
from llama_magic.display import hosts, to_html, to_text
from llama_magic.display.boards.question import QuestionBoard
from llama_magic.lesson.question import Question


def test_a_question_stands_as_text_where_there_are_no_widgets() -> None:
    """The options are there, none is chosen, and the answer is not given away."""
    asked = lm.lesson.predict("What comes next?", ["sea", "broccoli"], answer="sea", why="It is likelier.")
    assert isinstance(asked, Question)
    assert to_text(asked) == "predict: What comes next?\n○ sea\n○ broccoli"
    assert "likelier" not in to_html(asked)


@pytest.mark.parametrize(
    ("chosen", "answer", "said"),
    [
        ("sea", "sea", "You predict: sea. So it is. It is likelier."),
        ("broccoli", "sea", "You predict: broccoli. It is: sea. It is likelier."),
        ("sea", None, "You predict: sea. Run the next cell and compare."),
    ],
)
def test_a_choice_stays_in_what_is_saved(
    chosen: str, answer: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A click says what is right, aloud too, and the stand-in holds the choice."""
    saved: list[str] = []
    monkeypatch.setattr(hosts, "no_widgets", lambda _shell: "")
    monkeypatch.setattr(hosts, "current_shell", object)
    monkeypatch.setattr(hosts, "publish", lambda _shell, data, **_: saved.append(data.get("text/plain", "")))
    board = lm.lesson.predict("What?", ["sea", "broccoli"], answer=answer, why="It is likelier.")
    assert isinstance(board, QuestionBoard)
    board._ipython_display_()
    board.buttons.value = chosen
    assert board.voice.text == said
    assert said in board.said.value
    assert f"◉ {chosen}" in saved[-1]
    assert saved[-1].endswith(said)
    board.keep()


@pytest.mark.parametrize(
    ("options", "answer"),
    [(["a"], None), (["a", "a"], None), ([], None), (["a", "b"], "c"), ("ab", None), ([1, 2], None)],
)
def test_a_question_that_cannot_be_meant(options: Any, answer: str | None) -> None:
    """It is refused by name, as its author's mistake."""
    with pytest.raises((lm.OptionError, lm.InputTypeError)):
        lm.lesson.predict("What?", options, answer=answer)


def _even(value: Any) -> bool | str:
    return value % 2 == 0 if isinstance(value, int) else "It is no whole number."


CASES: list[tuple[Any, Any, bool | None, str]] = [
    (..., 3, None, "in place of the three dots"),
    (3, 3, True, "Right: 3."),
    (3.0000001, 3, True, "Right"),
    (np.int64(3), 3, True, "Right: 3."),
    (np.float32(2.5), 3, False, "you have 2.5. That is too little."),
    (4, 3, False, "too much"),
    (2, 3, False, "too little"),
    ("3", 3, False, "A number is expected, and this is a text."),
    (True, 1, False, "A number is expected, and this is True or False."),
    (" Sea ", "sea", True, "Right"),
    ("lake", "sea", False, "Look again"),
    (3, "sea", False, "Expected is a text, and this is a number."),
    (None, "sea", False, "and this is None."),
    ([1], (1,), False, "Expected is a tuple, and this is a list."),
    (4, _even, True, "Right"),
    (3, _even, False, "you have 3. Look again at the cells above."),
    (None, lambda n: n > 2, False, "Tried, it ends in an error: TypeError: "),
    (str.upper, lambda kind: kind("a") == "b", False, "you have a function. Look again"),
    (int, lambda kind: kind("3") == 3, True, "Right: the class int."),
    (Literal["a", "b"], lambda kind: False, False, "you have typing.Literal['a', 'b']. Look again"),
    (iter(()), lambda kind: False, False, "you have a tuple_iterator. Look again"),
    ("x", _even, False, "It is no whole number."),
]


@pytest.mark.parametrize(("answer", "expected", "solved", "words"), CASES)
def test_an_exercise_says_what_is_wrong(answer: Any, expected: Any, solved: bool | None, words: str) -> None:
    """In a sentence, without the solution, and without stopping a run."""
    found = lm.lesson.check(answer, expected)
    assert (found.solved, bool(found)) == (solved, solved is True)
    assert words in found.words
    assert ("✓" in to_text(found)) == (solved is True)


@pytest.mark.parametrize(
    "hints", [{2: "You forgot BOS."}, lambda value: "You forgot BOS." if value == 2 else None]
)
def test_a_hint_is_for_its_mistake(hints: dict[int, str] | Callable[[Any], str | None]) -> None:
    """A foreseen wrong answer has its own sentence; others keep theirs, unhashable ones too."""
    assert "You forgot BOS." in lm.lesson.check(2, 3, hints=hints).words
    assert "too much" in lm.lesson.check(4, 3, hints=hints).words
    assert "a list" in lm.lesson.check([2], 3, hints=hints).words
    assert "too much" in lm.lesson.check(4, 3, hints=lambda found: str(found[0])).words


def test_within_is_relative() -> None:
    """An estimate may be off by the share that is allowed."""
    assert lm.lesson.check(95, 100, within=0.1)
    assert not lm.lesson.check(85, 100, within=0.1)
    assert not lm.lesson.check(0.5**6, 2 * 0.5**6, within=0.05)  # half of it, if only by 0.016
    assert lm.lesson.check(1e-7, 0)
    assert not lm.lesson.check(0.2, 0, within=0.1)
