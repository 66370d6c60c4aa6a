"""`predict`: a question with a few answers, asked before a cell is run; the choice is saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.words import shown
from llama_magic.words.given import quoted
from llama_magic.words.shown import Printed


@dataclass
class Question(Printed):
    """A question, its options, which is right (None: nobody says), why, which was chosen, and whether that
    was judged: it is not before a cell has shown it.
    """

    question: str
    options: tuple[str, ...]
    answer: str | None = None
    why: str = ""
    chosen: str | None = None
    told: bool = False

    @property
    def verdict(self) -> str:
        """Return what is to be said of the choice, "" before there is one."""
        if self.chosen is None:
            return ""
        if self.answer is None or not self.told:
            return f"You predict: {_ended(self.chosen)} Run the next cell and compare."
        it_is = "So it is." if self.chosen == self.answer else f"It is: {_ended(self.answer)}"
        return f"You predicted: {_ended(self.chosen)} {it_is} {self.why}".strip()


def _ended(option: str) -> str:
    """Return an option as the end of a sentence, which it may be already."""
    return option if option.endswith((".", "!", "?")) else f"{option}."


def predict(question: str, options: Sequence[str], answer: str | None = None, why: str = "") -> Any:
    """Ask for a prediction: radio buttons in a notebook with widgets, the question as text elsewhere.

    `answer` is the right option. It is told with `why`, of the choice as it then stands, once a cell has run
    after the choice, or when the reader asks for it. Without it the next cell shows what is right.
    Raises `OptionError` for an answer that is not among the options.
    """
    texts = not isinstance(options, str) and all(isinstance(option, str) for option in options)
    if not isinstance(question, str) or not texts:
        found = quoted(options if isinstance(question, str) else question)
        raise InputTypeError(
            f"A question is a text, and its options are a list of texts; got {found}.",
            remedy='For example lm.lesson.predict("How many?", ["1", "2", "3"], answer="3").',
        )
    if len(options) < 2 or len(set(options)) != len(options):
        raise OptionError(f"The options are {list(options)}; expected two or more, each another one.")
    if answer is not None and answer not in options:
        raise OptionError(f"The answer {answer!r} is not among the options: {', '.join(options)}.")
    return shown.board(Question(question, tuple(options), answer, why))
