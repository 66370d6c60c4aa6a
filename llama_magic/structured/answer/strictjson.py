"""Strict JSON: reading it, reading an unfinished piece of it, and writing it for a grammar.

`json.loads` takes more than JSON (NaN, doubled keys, lone surrogates). An answer that another
program is to read must not hold any of these.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 200  # deeper values meet recursion limits in json, jsonschema and pydantic


class NotJSONError(ValueError):
    """A text is not strict JSON; the message says why in words a model understands."""


def loads(text: str) -> Any:
    """Return the value of a strict JSON text.

    Raises `NotJSONError` for what RFC 8259 does not have or warns of: NaN and Infinity, a key
    that stands twice in one object, half a surrogate pair, a number beyond a double, nesting deeper than 200.
    """
    if _depth_exceeds(text, MAX_DEPTH):
        raise NotJSONError(f"the JSON is nested deeper than {MAX_DEPTH} levels")
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise NotJSONError(f"not JSON: {error.msg} at character {error.pos}") from None
    except NotJSONError:
        raise
    except ValueError as error:  # an integer of more digits than Python converts
        raise NotJSONError(f"not JSON that can be read: {error}") from None
    if "\\u" in text and _LONE_SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise NotJSONError("a string holds half of a surrogate pair (\\ud800 to \\udfff)")
    return value


def is_json(text: str) -> bool:
    """Say whether a text is strict JSON."""
    try:
        loads(text)
    except NotJSONError:
        return False
    return True


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise NotJSONError(f"the key {twice!r} stands twice in one object")
    return result


def _no_constant(name: str) -> Any:
    raise NotJSONError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise NotJSONError(f"the number {digits[:40]} is larger than a double can hold")
    return number


_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)


def _depth_exceeds(text: str, limit: int) -> bool:
    if text.count("[") + text.count("{") <= limit:
        return False
    depth = 0
    for match in _STRUCTURE.finditer(text):
        mark = match.group()
        if mark in "[{":
            depth += 1
            if depth > limit:
                return True
        elif mark in "]}":
            depth -= 1
    return False


# --- the readable part of an unfinished text -----------------------------------------------

_MISSING = object()
_BLANK = re.compile(r"[ \t\r\n]*")
_CHARS = re.compile(r'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_UNICODE = re.compile(r"\\u([0-9a-fA-F]{4})")
_LITERALS = {"true": True, "false": False, "null": None}


def partial(text: str, empty: Any = None) -> Any:
    """Return what can already be read of a JSON text that is still being written.

    Objects hold the keys whose value is complete or is itself growing (a string, list or
    object); a number or literal counts once something follows it. As the text grows, the value
    only grows. `empty` is what to give back while nothing can be read.
    """
    value, _, _ = _value(text, 0, 0)
    return empty if value is _MISSING else value


_Read = tuple[Any, int, bool]  # value or _MISSING, index after it, whether it is complete


def _value(text: str, at: int, depth: int) -> _Read:
    at = skip(text, at)
    if at >= len(text) or depth > MAX_DEPTH:
        return _MISSING, at, False
    mark = text[at]
    reader = _READERS.get(mark)
    if reader is not None:
        return reader(text, at, depth)
    for word, value in _LITERALS.items():
        if text.startswith(word, at):
            return value, at + len(word), True
    match = _NUMBER.match(text, at)
    if match is None or match.end() == len(text) or text[match.end()] not in ",]} \t\r\n":
        return _MISSING, at, False
    try:
        return json.loads(match.group()), match.end(), True
    except ValueError:
        return _MISSING, at, False


def string_at(text: str, at: int, depth: int = 0) -> _Read:
    """Return the text that begins with the quote at a place, the place after it, and whether it is whole."""
    parts: list[str] = []
    at += 1
    while True:
        match = _CHARS.match(text, at)
        assert match is not None  # the pattern matches the empty text too
        parts.append(match.group())
        at = match.end()
        if at >= len(text):
            return "".join(parts), at, False
        if text[at] == '"':
            return "".join(parts), at + 1, True
        if text[at] != "\\":
            return "".join(parts), at, False
        piece, at = _escape(text, at)
        if piece is None:
            return "".join(parts), at, False
        parts.append(piece)


def _escape(text: str, at: int) -> tuple[str | None, int]:
    kind = text[at + 1 : at + 2]
    if kind in _ESCAPES and kind:
        return _ESCAPES[kind], at + 2
    code = _hex(text, at)
    if code is None:
        return None, at
    if not 0xD800 <= code < 0xE000:
        return chr(code), at + 6
    low = _hex(text, at + 6)  # half of a pair waits for the other half
    if code < 0xDC00 and low is not None and 0xDC00 <= low < 0xE000:
        return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), at + 12
    return None, at


def _hex(text: str, at: int) -> int | None:
    match = _UNICODE.match(text, at)
    return int(match.group(1), 16) if match else None


def _array(text: str, at: int, depth: int) -> _Read:
    items: list[Any] = []
    at = skip(text, at + 1)
    if text[at : at + 1] == "]":
        return items, at + 1, True
    while True:
        value, at, complete = _value(text, at, depth + 1)
        if value is not _MISSING:
            items.append(value)
        at = skip(text, at)
        if not complete or text[at : at + 1] not in (",", "]"):
            return items, at, False
        if text[at] == "]":
            return items, at + 1, True
        at += 1


def _object(text: str, at: int, depth: int) -> _Read:
    result: dict[str, Any] = {}
    at = skip(text, at + 1)
    if text[at : at + 1] == "}":
        return result, at + 1, True
    while True:
        at = skip(text, at)
        if text[at : at + 1] != '"':
            return result, at, False
        key, at, complete = string_at(text, at)
        at = skip(text, at)
        if not complete or text[at : at + 1] != ":":
            return result, at, False
        value, at, complete = _value(text, at + 1, depth + 1)
        if value is not _MISSING and key not in result:
            result[key] = value
        at = skip(text, at)
        if not complete or text[at : at + 1] not in (",", "}"):
            return result, at, False
        if text[at] == "}":
            return result, at + 1, True
        at += 1


_READERS: dict[str, Callable[[str, int, int], _Read]] = {'"': string_at, "[": _array, "{": _object}


def skip(text: str, at: int) -> int:
    """Return the place behind the blanks at a place."""
    match = _BLANK.match(text, at)
    return match.end() if match else at
