"""A call in words: `weather(city="Paris", days=3)`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from llama_magic.words.harmless import one_line


def call_words(name: str, arguments: Any) -> str:
    """Return a call on one line, in Python's form."""
    if isinstance(arguments, Mapping):
        inner = ", ".join(f"{key}={_value(value)}" for key, value in arguments.items())
    else:
        inner = "" if arguments is None else _value(arguments)
    return f"{one_line(name) or '?'}({inner})"


def _value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value)
    return one_line(json.dumps(value, ensure_ascii=False, default=str))
