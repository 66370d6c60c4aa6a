"""Variables on a magic line: one rule for every option and every word.

`{expression}` and `$name` stand for a variable of the namespace, or what Python makes of some, anywhere in a
word, as in IPython's own magics (`_braces.py`). Where they are the whole word, the value is taken as it is: a
number, a list, a class.
A bare `name` is the variable where nothing else can be meant: for a number, a schema, a grammar, a bias, a
choice among given words, and for `--regex` and `--choices`, since an answer that can only be one word is
none. What is no variable stays as it stands, so that JSON and regular expressions need no care; only
`{name}` alone must be one. In a text `{{ }}` is filled as in a body. A value is never read again.
"""

from __future__ import annotations

import enum
import numbers
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.magics._braces import NAME, Place, expression_at, find
from llama_magic.magics._readers import READERS
from llama_magic.magics._rows import Option
from llama_magic.request.stages import STAGES, stage_name
from llama_magic.words.given import is_function
from llama_magic.words.names import hint

_WHOLE = re.compile(rf"\{{({NAME})\}}|\$({NAME})")
_NUMBERS = ("int", "float", "count", "positive", "seed")
_TEXTS = ("text", "escaped", "choices", "bias")  # a regular expression and a grammar have braces of their own
_NONE = object()


class LineVariables:
    """The namespace that a line is read in; `braces` fills the `{{ }}` of a flag's text, None leaves them."""

    def __init__(self, namespace: Mapping[str, Any], braces: Callable[[str, str], str] | None = None) -> None:
        self._namespace = namespace
        self._braces = braces

    def word(self, text: str) -> str:
        """Return a free word with its variables filled in."""
        value = self._whole(text)
        return self.fill(text) if value is _NONE else _as_text(text, value)

    def fill(self, text: str) -> str:
        """Return a text with the texts, numbers and paths that are named in it."""
        pieces, at = [], 0
        while found := self.find(text, at):
            pieces += [text[at : found.start], self.text_of(found)]
            at = found.end
        return "".join([*pieces, text[at:]])

    def find(self, text: str, at: int, other: str = "") -> Place | None:
        """Return the next place of an expression or variable of the namespace, or of an `other` text."""
        return find(text, at, self._namespace, other)

    def text_of(self, place: Place) -> str:
        """Return the text of what stands at a place that `find` gave."""
        return _as_text(place.text, self.value_of(place))

    def value_of(self, place: Place) -> Any:
        """Return the value of what stands at a place that `find` gave."""
        return place.value(self._namespace)

    def end_of(self, text: str, at: int) -> int:
        """Return where the expression that begins here ends, `at` where none does: its quotes are its own."""
        place = expression_at(text, at, self._namespace)
        return at if place is None else place.end

    def read(self, flag: str, text: str, option: Option) -> tuple[Any, ...]:
        """Return what an option's word means; several values where the variable lists them."""
        if option.kind == "template":  # filled later, together with its {{ }}
            return (READERS[option.kind](flag, text, option),)
        value = self._whole(text)
        if value is _NONE:
            value = self._bare(text, option)
        if value is _NONE:
            is_json = option.kind == "schema" and text.startswith("{") and not self.end_of(text, 0)
            if self._braces is not None and "{{" in text and option.kind in _TEXTS:
                filled = self._braces(flag, text)
            else:
                filled = text if option.kind == "axes" or is_json else self.fill(text)
            return (READERS[option.kind](flag, filled, option),)
        if option.repeat and isinstance(value, (list, tuple, Mapping)) and option.kind != "bias":
            return tuple(_of(flag, text, item, option) for item in value)
        made = _of(flag, text, value, option)
        return tuple(made) if option.kind == "bias" and isinstance(made, list) else (made,)

    def hint(self, name: str) -> str:
        """Return ` Did you mean …?` with the variable that is probably meant, "" where none is near."""
        return hint(name, self._namespace)

    def _whole(self, text: str) -> Any:
        found = _WHOLE.fullmatch(text)
        if found is None:
            place = expression_at(text, 0, self._namespace)
            if place is not None and place.end == len(text):
                return self.value_of(place)
            return _NONE
        name = found[1] or found[2]
        if name in self._namespace:
            return self._namespace[name]
        if found[2]:
            return _NONE  # the environment may have it
        raise OptionError(
            f"There is no variable {name!r} in your namespace.{self.hint(name)}",
            remedy=f"Define it in an earlier cell. To mean the text {text} itself, put it into a variable.",
        )

    def _bare(self, text: str, option: Option) -> Any:
        """Return the variable of that name where the name itself cannot be meant."""
        if not text.isidentifier() or text not in self._namespace:
            return _NONE
        value = self._namespace[text]
        if option.kind in (*_NUMBERS, "bias", "grammar"):
            return value
        if option.kind == "choice":
            return value if text not in option.choices else _NONE
        if option.kind == "stages":
            return value if stage_name(text) not in STAGES else _NONE
        if option.kind == "layers":
            return value if text != "all" else _NONE
        if option.kind == "regex":
            return value if isinstance(value, (str, re.Pattern)) else _NONE
        if option.kind == "choices":
            several = isinstance(value, str) and ("|" in value or "," in value)
            return value if several or is_function(value) or (_listed(value) is not None) else _NONE
        return _NONE  # a schema's names, and those of tools, are looked up by `_lookup`


def _of(flag: str, text: str, value: Any, option: Option) -> Any:
    """Return a variable's value as what the option takes."""
    of_row = option.kind == "choices" and is_function(value)
    if option.kind in ("schema", "tools") or (option.kind == "score" and callable(value)) or of_row:
        return value
    if option.kind in ("axes", "score") and isinstance(value, Mapping):
        return value
    if option.kind == "model" and _is_model(value):
        return value
    if option.kind == "models" and (isinstance(value, (list, tuple)) or _is_model(value)):
        given = value if isinstance(value, (list, tuple)) else [value]
        return tuple(one if _is_model(one) else str(one) for one in given)
    if option.kind == "choices" and (listed := _listed(value)) is not None:
        return listed
    if option.kind == "bias" and isinstance(value, (Mapping, list, tuple)):
        pairs = list(value.items() if isinstance(value, Mapping) else value)
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            raise InputTypeError(f"{flag} {text} is a variable that holds {value!r:.60}; expected a dict.")
        return pairs
    if option.kind == "stages" and isinstance(value, (list, tuple)):
        return ";".join(map(str, value))
    if isinstance(value, re.Pattern) and option.kind == "regex":
        return value.pattern
    if option.kind in ("text", "escaped", "regex", "grammar", "template", "stages"):
        found = _as_text(text, value)
        if not found:
            raise OptionError(f"{flag} {text} is a variable that is empty; expected {option.metavar}.")
        return found
    if option.kind in _NUMBERS and (isinstance(value, bool) or not isinstance(value, (numbers.Real, str))):
        raise InputTypeError(
            f"{flag} {text} is a variable that holds a {type(value).__name__}; expected a number."
        )
    return READERS[option.kind](flag, _as_text(text, value), option)


def _is_model(value: Any) -> bool:
    return hasattr(value, "backend") and hasattr(value, "structured")


def _listed(value: Any) -> tuple[Any, ...] | None:
    """Return the members of what lists choices: a list, a set, an Enum, a column; None of anything else."""
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return tuple(member.value for member in value)
    if isinstance(value, (set, frozenset)):
        return tuple(sorted(value, key=str))  # the order of a set differs from one process to the next
    if isinstance(value, (str, bytes, Mapping, type)) or not isinstance(value, Iterable):
        return None
    return tuple(item.item() if hasattr(item, "item") else item for item in value)


def _as_text(text: str, value: Any) -> str:
    """Return a variable's value as a part of a line."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return repr(float(value))
    if isinstance(value, (str, Path)):
        return str(value)
    raise InputTypeError(
        f"{text} is a variable that holds a {type(value).__name__}; expected a text, a number or a Path."
    )
