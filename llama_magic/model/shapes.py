"""What a receipt looks like: files are written by others too, edited, merged, cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from llama_magic.errors import InputTypeError
from llama_magic.request.sampling import Sampling

Receipt = Mapping[str, Any]
Is = Callable[[Any], bool]
_DEEPEST = 100  # what is nested deeper can be neither shown nor compared
_SAMPLING = frozenset(f.name for f in fields(Sampling))
_CONSTRAINT = frozenset(("kind", "schema", "regex", "choices", "grammar", "lark"))


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _count(value: Any) -> bool:
    return _number(value) and value >= 0


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_number, value))


def _mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _messages(value: Any) -> bool:
    return isinstance(value, list) and all(map(_mapping, value))


def _sampling(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() <= _SAMPLING


def _constraint(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() <= _CONSTRAINT


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


# A field, by the way to it; what it is to be, in words; what says whether it is; whether it may be missing.
Fields = tuple[tuple[tuple[str, ...], str, Is, bool], ...]
_FIELDS: Fields = (
    (("mode",), "a text", _text, False),
    (("model",), "a text", _text, False),
    (("seed",), "a whole number", _number, False),
    (("sample",), "a count", _count, True),
    (("begun",), "a count", _count, True),
    (("request",), "a text", _text, True),
    (("finish_reason",), "a text", _text, False),
    (("prompt",), "a text", _text, True),
    (("text",), "a text", _text, False),
    (("token_ids",), "a list of whole numbers", _numbers, False),
    (("messages",), "a list of messages", _messages, False),
    (("sampling",), "parameters of sampling, known here", _sampling, False),
    (("budget",), "an object", _mapping, False),
    (("budget", "max_tokens"), "a count", _count, False),
    (("file",), "an object", _mapping, True),
    (("file", "name"), "a text", _text, False),
    (("file", "fingerprint"), "a text", _text, False),
    (("engine",), "an object", _mapping, True),
    (("asked",), "an object", _mapping, True),
    (("asked", "messages"), "a list of messages", _messages, True),
    (("asked", "constraint"), "a constraint", _constraint, True),
)
# What one must have that refers to others: what it lacks they have.
_OF_A_TURN: Fields = (
    (("text",), "a text", _text, False),
    (("messages",), "a list of messages", _messages, False),
    (("earlier",), "an object", _mapping, True),
    (("earlier", "sha256"), "a text", _text, False),
    (("earlier", "same"), "a list of texts", _texts, False),
    (("earlier", "left_out"), "a count", _count, True),
)


def flaw(receipt: Receipt, *, of_a_turn: bool = False) -> str | None:
    """Say what of a receipt is not as ours are: which field, what it is, what was expected."""
    for path, expected, holds, may_miss in _OF_A_TURN if of_a_turn else _FIELDS:
        *way, name = path
        place: Any = receipt
        for step in way:
            place = place.get(step)  # looked at before, so it is an object where it is there
            if place is None:
                break
        if place is None:
            continue
        called = ".".join(path)
        if name not in place:
            if may_miss:
                continue
            return f"its {called} is missing"
        if not holds(place[name]):
            return f"its {called} is {_brief(place[name])}; expected {expected}"
    return f"it is nested deeper than {_DEEPEST}" if _deep(receipt) else None


def check(receipt: Receipt) -> Receipt:
    """Return a receipt. Raises `InputTypeError` where it is not as ours are."""
    found = flaw(receipt)
    if found is not None:
        raise InputTypeError(f"The receipt is damaged: {found}.")
    return receipt


def _brief(value: Any) -> str:
    return f"of type {type(value).__name__}" if isinstance(value, (Mapping, list)) else f"{value!r:.60}"


def _deep(value: Any) -> bool:
    """Say whether lists and objects are nested deeper than any of ours."""
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _inner(outer)]
        if not level:
            return False
    return True


def _inner(value: Any) -> Iterable[Any]:
    inside: Sequence[Any] = list(value.values()) if isinstance(value, Mapping) else value
    return [item for item in inside if isinstance(item, (Mapping, list))]
