"""Predictions and exercises: what a reader sees, chooses and is told."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
from as_ipython import show
from IPython.core.events import EventManager

import llama_magic as lm
from llama_magic.display import hosts, to_html, to_text
from llama_magic.display.boards.question import QuestionBoard
from llama_magic.lesson.question import Question


def test_a_question_stands_as_text_where_there_are_no_widgets() -> None:
    """The options are there, none is chosen, it says how to choose, and the answer is not given away."""
    asked = lm.lesson.predict("What comes next?", ["sea", "broccoli"], answer="sea", why="It is likelier.")
    assert isinstance(asked, Question)
    lines = ["predict: What comes next?", "○ sea", "○ broccoli", OPEN]
    assert to_text(asked).splitlines() == lines
    assert "likelier" not in to_html(asked)


def test_an_option_that_is_a_sentence_has_one_full_stop() -> None:
    """What is said of a choice goes on behind it."""
    asked = Question("Which?", ("It rains.", "it snows"), "it snows", "So cold.", chosen="It rains.")
    assert asked.verdict == "You predict: It rains. Run the next cell and compare."
    asked.told = True
    assert asked.verdict == "You predicted: It rains. It is: it snows. So cold."


OPEN = "Not answered yet: run this cell in a notebook, and choose."
PREDICTED = "You predict: {}. Run the next cell and compare."


class Asked:
    """A question on a page, and the shell whose cells run below it."""

    def __init__(self, answer: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
        self.saved: list[str] = []
        self.events = EventManager(self, {"post_run_cell": lambda result: None})
        self.cell = "first"
        monkeypatch.setattr(hosts, "no_widgets", lambda _shell: "")
        monkeypatch.setattr(hosts, "current_shell", lambda: self)
        monkeypatch.setattr(hosts, "cell", lambda _shell: self.cell)
        monkeypatch.setattr(hosts, "publish", self._publish)
        self.board = lm.lesson.predict("What?", ["sea", "broccoli"], answer=answer, why="It is likelier.")
        assert isinstance(self.board, QuestionBoard)
        show(self.board)

    def _publish(self, _shell: Any, data: dict[str, str], **_: Any) -> None:
        self.saved.append(data.get("text/plain", ""))

    def run(self, cell: str, success: bool = True) -> None:
        """Run a cell to its end."""
        self.cell = cell
        self.events.trigger("post_run_cell", SimpleNamespace(success=success))

    def says(self, words: str) -> bool:
        """Return whether page, voice and file say this."""
        found = {
            words in self.board.said.value,
            self.board.voice.text == words,
            self.saved[-1].endswith(words),
        }
        assert len(found) == 1
        return found.pop()


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str | None], Asked]]:
    """Ask the question of this file, with an answer or without."""
    made: list[Asked] = []

    def asked(answer: str | None) -> Asked:
        made.append(Asked(answer, monkeypatch))
        return made[-1]

    yield asked
    for one in made:
        one.board.keep()


@pytest.mark.parametrize(
    ("chosen", "answer", "said"),
    [
        ("sea", "sea", "You predicted: sea. So it is. It is likelier."),
        ("broccoli", "sea", "You predicted: broccoli. It is: sea. It is likelier."),
        ("sea", None, PREDICTED.format("sea")),
    ],
)
def test_a_prediction_is_judged_when_the_next_cell_has_run(
    ask: Any, chosen: str, answer: str | None, said: str
) -> None:
    """Until then it can be changed, and neither page nor file says what is right; then it stays."""
    asked = ask(answer)
    asked.run("first")  # the end of its own cell
    for choice in ("broccoli", "sea", chosen):
        asked.board.buttons.value = choice
        assert asked.says(PREDICTED.format(choice))
        assert f"◉ {choice}" in asked.saved[-1]
        assert "likelier" not in asked.saved[-1]
    asked.run("second", success=False)  # it showed nothing
    assert asked.says(PREDICTED.format(chosen))
    asked.run("second")
    assert asked.says(said)
    assert asked.board.buttons.disabled == (answer is not None)
    assert f"◉ {chosen}" in asked.saved[-1]
    asked.run("third")
    assert asked.says(said)


def test_who_asks_is_told_at_once(ask: Any) -> None:
    """A button below the choice says the answer, and is gone then."""
    asked = ask("sea")
    assert asked.board.ask not in asked.board.children
    asked.board.buttons.value = "broccoli"
    assert asked.board.children[-2:] == (asked.board.ask, asked.board.voice)
    asked.board.ask.click()
    assert asked.says("You predicted: broccoli. It is: sea. It is likelier.")
    assert asked.board.ask not in asked.board.children


def test_a_question_that_is_asked_anew_or_kept_is_not_judged(ask: Any) -> None:
    """Its cell run again makes another; a kept one stays as it was. Nothing waits for cells any more."""
    asked = ask("sea")
    asked.board.buttons.value = "sea"
    asked.run("first")
    asked.run("second")
    assert asked.says(PREDICTED.format("sea"))
    kept = ask("sea")
    kept.board.buttons.value = "sea"
    kept.board.keep()
    kept.run("third")
    assert PREDICTED.format("sea") in kept.saved[-2]
    assert not kept.board.asked.told


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


class Unsaid:
    """An object of a learner, whose repr fails."""

    def __repr__(self) -> str:
        raise ValueError("No words.")


CASES: list[tuple[Any, Any, bool | None, str]] = [
    (..., 3, None, "in place of the three dots"),
    (3, 3, True, "Right: 3."),
    (3.0000001, 3, True, "Right"),
    (np.int64(3), 3, True, "Right: 3."),
    (np.float32(2.5), 3, False, "you have 2.5. That is too little."),
    (4, 3, False, "too much"),
    (2, 3, False, "too little"),
    (math.nan, 3, False, "That is nan, which is no number"),
    ("3", 3, False, "A number is expected, and this is a text: leave out the quotes."),
    ("3 m", 3, False, "and this is a text: write the number alone, as 1234.5, without quotes."),
    ("m", 3, False, "A number is expected, and this is a text."),
    (10**400, 3, False, "you have a number. That is too much."),
    (int, 3, False, "you have the class int. A number is expected, and this is a class."),
    (Unsaid(), 3, False, "you have an Unsaid. A number is expected, and this is an Unsaid."),
    (np.array([[3.0]]), 3, True, "Right: 3.0."),
    (np.array([3, 3]), 3, False, "and this is an array."),
    ((2, 5), 2.5, False, "this is a tuple: with a point it would be 2.5."),
    (len, 3, False, "and this is a function: call it, with round brackets behind it."),
    ("a" * 300, 3, False, f"you have '{'a' * 197} …. A number"),
    ([10**300], 3, False, "you have a list. A number"),
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


def test_a_function_that_is_right_is_not_said_again() -> None:
    """It has no words of its own; the reason stands alone."""
    found = lm.lesson.check(str.upper, lambda kind: kind("a") == "A", why="It raises letters.")
    assert found.words == "Right: It raises letters."


@pytest.mark.parametrize(
    "hints", [{2: "You forgot BOS."}, lambda value: "You forgot BOS." if value == 2 else None]
)
def test_a_hint_is_for_its_mistake(hints: dict[int, str] | Callable[[Any], str | None]) -> None:
    """A foreseen wrong answer has its own sentence; others keep theirs, unhashable ones too."""
    assert "You forgot BOS." in lm.lesson.check(2, 3, hints=hints).words
    assert "too much" in lm.lesson.check(4, 3, hints=hints).words
    assert "a list" in lm.lesson.check([2], 3, hints=hints).words
    assert "too much" in lm.lesson.check(4, 3, hints=lambda found: str(found[0])).words
    assert "You forgot BOS." in lm.lesson.check(np.float32(2), 3, hints=hints).words


def test_a_foreseen_number_need_not_be_exact() -> None:
    """The root of two is foreseen as 1.41, to a hundredth; True is not foreseen as 1, a text as itself."""
    hints = {1.41: "That is the root.", 1: "One.", "two": "As a word."}
    assert "the root" in lm.lesson.check(2**0.5, 4, hints=hints).words
    assert "too little" in lm.lesson.check(1.43, 4, hints=hints).words
    assert "True or False" in lm.lesson.check(True, 4, hints=hints).words
    assert "As a word." in lm.lesson.check("two", 4, hints=hints).words


def test_within_is_relative() -> None:
    """An estimate may be off by the share that is allowed."""
    assert lm.lesson.check(95, 100, within=0.1)
    assert not lm.lesson.check(85, 100, within=0.1)
    assert not lm.lesson.check(0.5**6, 2 * 0.5**6, within=0.05)  # half of it, if only by 0.016
    assert lm.lesson.check(1e-7, 0)
    assert not lm.lesson.check(0.2, 0, within=0.1)
