"""Values whose keys have an order that matters, so kept that files which sort keys do not lose it.

A schema's properties are written in their order, and a template writes tools and variables in theirs. A
notebook is saved with its keys sorted (nbformat does it, and so do many other writers of JSON).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from llama_magic.errors import InputTypeError
from llama_magic.words.plain import said

_PLAIN = frozenset((str, int, float, bool, type(None)))


def as_json(value: Any) -> Any:
    """Return a value as JSON can hold it; what JSON has not is written as `str` writes it."""
    if type(value) in _PLAIN:  # nearly all; to ask whether it is a Mapping takes ten times as long
        return value
    if type(value) is dict or isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        # A prompt of thousands of tokens is looked at once, and not token by token.
        return list(value) if _PLAIN.issuperset(map(type, value)) else [as_json(item) for item in value]
    return value if isinstance(value, (str, int, float, type(None))) else said(value)


def as_text(value: Any) -> str:
    """Return a value as JSON text, its keys in their order."""
    return json.dumps(as_json(value))


def from_text(value: Any) -> Any:
    """Return what `as_text` was given; receipts of before hold the value itself."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        raise InputTypeError(
            f"The receipt is damaged: {value!r:.60} is not the JSON text of a value."
        ) from None


def told_apart(value: Any) -> Any:
    """Return what is equal, in JSON with sorted keys, only for values whose keys have the same order.

    That is the value itself where its keys are sorted, and its text where they are not.
    """
    text = as_text(value)
    return value if text == json.dumps(as_json(value), sort_keys=True) else text
