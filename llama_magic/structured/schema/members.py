"""Which members of an Enum or a Literal come back from JSON. Imports pydantic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic_core import SchemaValidator, ValidationError, to_jsonable_python

from llama_magic.errors import SchemaError


def check_members(schema: Any, members: Sequence[Any], name: str) -> None:
    """Raise `SchemaError` if some member cannot be read from an answer: no answer could ever be it."""
    if not members:  # an empty Enum: refused as what no value fits
        return
    reader = SchemaValidator({key: value for key, value in schema.items() if key != "ref"})
    lost = [member for member in members if not _comes_back(reader, member)]
    if not lost:
        return
    said = ", ".join(f"{member!r:.60}" for member in lost[:3])
    raise SchemaError(
        f"{name} has members that pydantic does not read from JSON: {said}{', …' if len(lost) > 3 else ''}. "
        "Expected members whose value is a text, a whole number, a float, True, False or None.",
        remedy="Give them such values (class Name(str, Enum)), or ask for their names: "
        "Literal['red', 'blue'].",
    )


def _comes_back(reader: SchemaValidator, member: Any) -> bool:
    try:
        text = json.dumps(to_jsonable_python(member))
        read = reader.validate_json(text)
    except (ValidationError, ValueError, TypeError):
        return False
    return bool(read == member)
