"""`{expression}` and `$name` on a magic line: where they stand, and what they are worth.

In braces stands what IPython's own magics fill there: a Python expression of variables of the notebook,
`{n}`, `{cfg["tone"]}`, `{len(rows)}`. All its names must be variables, or Python's own, and at least one a
variable; else the braces are text, as in JSON, in `\\d{3}` or `{2,5}`, and so are several values with commas.
"""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from llama_magic.errors import OptionError

NAME = r"[^\W\d]\w*"
_NAMES = re.compile(NAME)
_OPEN = rf"(?<!\{{)\{{(?!\{{)|\$({NAME})"
_CLOSES = 8  # braces that are tried as the closing one
_LONGEST = 1000  # characters of an expression
_NO_TEXT = (ast.Tuple, ast.Constant, ast.JoinedStr)


@dataclass(frozen=True)
class Place:
    """A place on a line, from `start` to `end`; `source` is the expression, "" where it is another text."""

    start: int
    end: int
    text: str
    source: str = ""
    code: CodeType | None = None

    def value(self, namespace: Mapping[str, Any]) -> Any:
        """Return the variable's value, or what the expression gives. Raises `OptionError`."""
        if self.source in namespace:
            return namespace[self.source]
        assert self.code is not None
        try:
            return eval(self.code, dict(namespace))  # noqa: S307 - the user's own line, in their own kernel
        except Exception as error:
            raise OptionError(
                f"{self.text} gives {type(error).__name__}: {error}",
                remedy="To mean that text itself, put it into a variable.",
            ) from None


def find(text: str, at: int, namespace: Mapping[str, Any], other: str = "") -> Place | None:
    """Return the next place of an expression or variable of the namespace, or of an `other` text."""
    pattern = re.compile(f"(?P<other>{re.escape(other)})|{_OPEN}" if other else _OPEN)
    for found in pattern.finditer(text, at):
        if other and found["other"]:
            return Place(found.start(), found.end(), found[0])
        name = found[found.re.groups]
        if name is None:
            place = expression_at(text, found.start(), namespace)
        else:
            place = Place(found.start(), found.end(), found[0], name) if name in namespace else None
        if place is not None:
            return place
    return None


def expression_at(text: str, at: int, namespace: Mapping[str, Any]) -> Place | None:
    """Return the place of the expression whose `{` stands here, None where it is no such."""
    if text[at : at + 1] != "{" or text[at + 1 : at + 2] == "{" or text[max(0, at - 1) : at] == "{":
        return None
    close = at
    for _ in range(_CLOSES):
        close = text.find("}", close + 1, at + _LONGEST)
        if close < 0:
            return None
        source = text[at + 1 : close].strip()
        code = None if source in namespace else _code(source, namespace)  # a name alone needs no compiler
        if code is not None or source in namespace:
            if text.startswith("}", close + 1):
                return None
            return Place(at, close + 1, text[at : close + 1], source, code)
    return None


def _code(source: str, namespace: Mapping[str, Any]) -> CodeType | None:
    if not any(name in namespace for name in _NAMES.findall(source)):
        return None  # the usual case, without the compiler
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a regular expression's backslashes
            tree = ast.parse(source, mode="eval")
            code = compile(tree, "<line>", "eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    if isinstance(tree.body, _NO_TEXT):
        return None
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    free = {node.id for node in names} - own
    known = all(name in namespace or hasattr(builtins, name) for name in free)
    return code if known and any(name in namespace for name in free) else None
