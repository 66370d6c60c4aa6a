"""What a pattern asks for at least: how many characters, and a shortest text that it takes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import _parser  # type: ignore[attr-defined]  # as sre_parse was, before 3.11
from typing import Any

from llama_magic.structured.schema.regex import to_python

# Characters that a pattern may ask for: forced text of this length takes the mask's engine 0.2 s a step.
MAX_LEAST = 100_000


def asks_for(pattern: str) -> int:
    """Return how many characters the longest of the ways through a pattern asks for at least."""
    compiled = to_python(pattern)
    return 0 if compiled is None else _asks_for(_parser.parse(compiled.pattern))


def _asks_for(parsed: Iterable[tuple[object, Any]]) -> int:
    total = 0
    for op, argument in parsed:
        match str(op), argument:
            case "BRANCH", (_, branches):
                total += max(map(_asks_for, branches))
            case "SUBPATTERN", (_, _, _, body):
                total += _asks_for(body)
            case "ATOMIC_GROUP", body:
                total += _asks_for(body)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT", (low, high, body):
                total += _asks_for(body) * max(int(low), min(int(high), 1))
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN", _:
                total += 1
    return total


def shortest_text(pattern: str) -> str | None:
    """Return what is likely a shortest text of the pattern, or None where that is not clear."""
    compiled = to_python(pattern)
    if compiled is None or asks_for(pattern) > MAX_LEAST:
        return None
    try:
        text = _shortest(_parser.parse(compiled.pattern))
    except (re.error, RecursionError, OverflowError, _UnclearError):
        return None
    return text


class _UnclearError(Exception):
    pass


def _shortest(parsed: Iterable[tuple[object, object]]) -> str:
    return "".join(_shortest_item(str(op), argument) for op, argument in parsed)


def _shortest_item(op: str, argument: Any) -> str:
    match op, argument:
        case "LITERAL", int(code):
            return chr(code)
        case "NOT_LITERAL", int(code):
            return "a" if code != ord("a") else "b"
        case "ANY", _:
            return "a"
        case "IN", list(items):
            return _from_class(items)
        case "BRANCH", (_, list(branches)):
            return min((_shortest(branch) for branch in branches), key=len)
        case "SUBPATTERN", (_, _, _, body):
            return _shortest(body)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT", (int(low), _, body):
            return _shortest(body) * int(low) if low else ""
        case "ATOMIC_GROUP", body:
            return _shortest(body)
        case "AT" | "ASSERT" | "ASSERT_NOT", _:
            return ""
    raise _UnclearError(op)


_CATEGORY = {
    "CATEGORY_DIGIT": "0",
    "CATEGORY_WORD": "a",
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_DIGIT": "a",
    "CATEGORY_NOT_WORD": " ",
    "CATEGORY_NOT_SPACE": "a",
}


def _from_class(items: list[tuple[object, Any]]) -> str:
    if str(items[0][0]) == "NEGATE":
        compiled = list(items[1:])
        for char in "a0 _-A~é\n":
            if not any(_in_item(char, str(op), argument) for op, argument in compiled):
                return char
        raise _UnclearError("class")
    op, argument = str(items[0][0]), items[0][1]
    if op == "LITERAL":
        return chr(argument)
    if op == "RANGE":
        return chr(argument[0])
    return _CATEGORY[str(argument)]


def _in_item(char: str, op: str, argument: Any) -> bool:
    if op == "LITERAL":
        return ord(char) == argument
    if op == "RANGE":
        return bool(argument[0] <= ord(char) <= argument[1])
    sample = {"DIGIT": r"\d", "WORD": r"\w", "SPACE": r"\s"}[str(argument).rsplit("_", 1)[-1]]
    return (re.match(sample, char) is not None) != ("NOT" in str(argument))
