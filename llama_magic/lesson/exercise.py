"""`check`: an exercise that says what is wrong in a sentence, and stops nobody."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from llama_magic.errors import LlamaMagicError
from llama_magic.words import plain
from llama_magic.words.shown import Printed

LONGEST = 200  # of an answer that is said again, in characters
AGAIN = "Look again at the cells above."
Hints = Mapping[Any, str] | Callable[[Any], str | None]


@dataclass(frozen=True)
class Checked(Printed):
    """Whether an exercise is solved (None: not answered yet), and a sentence on it. True only when solved."""

    solved: bool | None
    words: str

    def __bool__(self) -> bool:
        return self.solved is True


def check(
    answer: Any,
    expected: Any,
    *,
    hints: Hints | None = None,
    within: float = 1e-6,
    why: str = "",
) -> Checked:
    """Compare an answer with what is expected: a value, or a function that says True, False or what is wrong.

    `answer` is `...` until the reader has put something in its place. Numbers may differ by `within`,
    relative to what is expected. `hints` maps wrong answers (numbers to within a hundredth) to sentences, or
    makes a sentence of one; `why` is said of the right one. A wrong answer raises nothing: what the functions
    raise of it is said.
    """
    if answer is ...:
        return Checked(
            None, "Not answered yet: put your answer in place of the three dots, and run it again."
        )
    answer = _plain(answer)
    right, said = _judged(answer, expected, within)
    if right:
        said = "" if why and inspect.isroutine(answer) else f"{_said(answer)}. "
        return Checked(True, f"Right: {said}{why}".strip())
    hint = _hint(answer, hints) or said or _difference(answer, expected)
    return Checked(False, f"Not yet: you have {_said(answer)}. {hint}".strip())


def _plain(answer: Any) -> Any:
    """Return the number in an array that holds just one, as `a @ b.T` gives it; all else as it is."""
    return answer.item() if getattr(answer, "size", None) == 1 and hasattr(answer, "item") else answer


def _judged(answer: Any, expected: Any, within: float) -> tuple[bool, str]:
    if callable(expected):
        try:
            found = expected(answer)
        except LlamaMagicError as error:
            return False, f"Tried, it is refused: {error.message}"
        except Exception as error:  # a learner's mistake, of whatever kind
            return False, f"Tried, it ends in an error: {type(error).__name__}: {error}"
        return (False, found) if isinstance(found, str) else (bool(found), "")
    if _is_number(expected) and _is_number(answer):
        off = 0.0 if expected else within  # of nothing there is no share
        return _near(answer, expected, within, off), ""
    if isinstance(expected, str) and isinstance(answer, str):
        return answer.strip().casefold() == expected.strip().casefold(), ""
    return bool(type(answer) is type(expected) and answer == expected), ""


def _near(answer: Any, expected: Any, share: float, off: float = 0.0) -> bool:
    try:
        return math.isclose(answer, expected, rel_tol=share, abs_tol=off)
    except OverflowError:  # a whole number of hundreds of digits
        return bool(answer == expected)


def _hint(answer: Any, hints: Hints | None) -> str:
    try:
        if callable(hints):
            return hints(answer) or ""
        return next((said for wrong, said in (hints or {}).items() if _alike(wrong, answer)), "")
    except Exception:  # it is no mistake that was foreseen
        return ""


def _alike(wrong: Any, answer: Any) -> bool:
    """Return whether an answer is a foreseen mistake: 1.4142 is 1.41, and True is not 1."""
    if _is_number(wrong) and _is_number(answer):
        return _near(answer, wrong, 0.01)
    return type(answer) is type(wrong) and bool(answer == wrong)


def _difference(answer: Any, expected: Any) -> str:
    """Return what kind of difference there is, without the solution."""
    if callable(expected):
        return AGAIN
    if _is_number(expected) and not _is_number(answer):
        return f"A number is expected, and this is {_kind(answer)}{_way_to_a_number(answer)}."
    if _is_number(expected):
        if not isinstance(answer, int) and math.isnan(answer):
            return "That is nan, which is no number: a value that it was made of is missing."
        return "That is too much." if answer > expected else "That is too little."
    if type(answer) is not type(expected):
        return f"Expected is {_kind(expected)}, and this is {_kind(answer)}."
    return AGAIN


def _way_to_a_number(answer: Any) -> str:
    if inspect.isroutine(answer):
        return ": call it, with round brackets behind it"
    if isinstance(answer, str) and re.match(r"\s*[-+]?\.?\d", answer):
        bare = re.fullmatch(r"[-+]?(\d+(\.\d*)?|\.\d+)", answer.strip())
        return ": leave out the quotes" if bare else ": write the number alone, as 1234.5, without quotes"
    if isinstance(answer, tuple) and len(answer) == 2 and all(type(part) is int for part in answer):
        return f": with a point it would be {answer[0]}.{answer[1]}"
    return ""


def _said(answer: Any) -> str:
    """Return what the answer is; of what has no words of its own, its kind, and no address that changes."""
    if isinstance(answer, type):
        return f"the class {answer.__name__}"
    if inspect.isroutine(answer):
        return "a function"
    try:
        words = plain.said(answer) if _is_number(answer) else repr(answer)
    except Exception:  # of the learner's own class
        return _kind(answer)
    if len(words) > LONGEST and isinstance(answer, str):
        return f"{words[: LONGEST - 2]} …"
    return _kind(answer) if len(words) > LONGEST or re.search(r"\bat 0x", words) else words


def _kind(value: Any) -> str:
    if inspect.isroutine(value):
        return "a function"
    if isinstance(value, type):
        return "a class"
    names = {str: "a text", list: "a list", tuple: "a tuple", dict: "a dict", bool: "True or False"}
    names |= {int: "a number", float: "a number", type(None): "None", bytes: "bytes"}
    name = type(value).__name__.removeprefix("nd")  # NumPy's ndarray
    return names.get(type(value), f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)  # numpy's are among them
