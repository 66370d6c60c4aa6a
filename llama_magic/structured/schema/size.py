"""What is too large for a schema, and what is no JSON in it."""

from __future__ import annotations

import re
from typing import Any

from llama_magic.errors import SchemaError
from llama_magic.structured.schema.tree import Path, pointer

MAX_NODES = 50_000  # values in the schema; the biggest of the JSONSchemaBench sample has 11,000
MAX_CHARACTERS = 2_000_000
MAX_DEPTH = 220  # values inside values: about 100 objects inside each other

_HALF = re.compile("[\ud800-\udfff]")


def check_size(schema: Any) -> None:
    count = characters = 0
    stack: list[tuple[Any, Place, int]] = [(schema, None, 0)]
    while stack:
        value, place, depth = stack.pop()
        count += 1
        if isinstance(value, dict):
            stack += [(item, (place, key), depth + 1) for key, item in value.items()]
            for key in value:
                if not isinstance(key, str):
                    raise SchemaError(f"The schema holds the key {key!r}; JSON keys are texts.")
                characters += len(key)
        elif isinstance(value, (list, tuple)):
            stack += [(item, (place, str(at)), depth + 1) for at, item in enumerate(value)]
        elif isinstance(value, float) and value - value != 0:
            raise SchemaError(f"The schema holds the number {value}, which JSON does not have.")
        elif isinstance(value, str):
            characters += len(value)
            if _HALF.search(value):
                raise SchemaError(f"The schema holds half of a surrogate pair: {value!r:.60}.")
        elif value is not None and not isinstance(value, (bool, int, float)):
            raise SchemaError(f"The schema holds a {type(value).__name__}, which is not JSON: {value!r:.60}.")
        for found, most, what in (
            (count + len(stack), MAX_NODES, "more than {:,} values"),
            (characters, MAX_CHARACTERS, "more than {:,} characters of text"),
            (depth, MAX_DEPTH, "nested deeper than {:,} levels"),
        ):
            if found > most:
                raise SchemaError(
                    f"The schema is too large: {what.format(most)}.",
                    pointer=pointer(_path(place)),
                    remedy="Ask for a part of it at a time.",
                )


Place = tuple[Any, str] | None  # where a value stands: (the place of what holds it, its key)


def _path(place: Place) -> Path:
    parts: list[str] = []
    while place is not None:
        place, key = place
        parts.append(key)
    return tuple(reversed(parts))
