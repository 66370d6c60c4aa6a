"""Answers of a type that their schema speaks nothing of: `{"properties": …}` alone allows a number, too."""

from __future__ import annotations

from typing import Any

from llama_magic.structured.answer.strictjson import is_json, loads
from llama_magic.structured.schema.keywords import TYPE_OF

# With one of these a schema says by itself, or by another one, which values it means.
_DECIDES = frozenset(
    ("type", "enum", "const", "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "format")
)


def untyped_text(text: str, schema: Any) -> str | None:
    """Return the same of an answer as it is written; nothing of one that is not whole."""
    if not is_json(text):
        return None
    return untyped(loads(text), schema)


def untyped(value: Any, schema: Any, at: str = "") -> str | None:
    """Return what is to be said of the first value that is none of what its schema speaks of."""
    if not isinstance(schema, dict):
        return None
    kinds = {TYPE_OF[keyword]: keyword for keyword in schema if keyword in TYPE_OF}
    found = _kind(value)
    if kinds and found not in kinds and schema.keys().isdisjoint(_DECIDES):
        kind, keyword = next(iter(kinds.items()))
        return (
            f"{keyword!r} at {at or 'the root'} speaks of {kind}s and allows all else, as this {found}: "
            f'"type": "{kind}" beside it allows no other'
        )
    below = [
        (value[key], sub, key)
        for key, sub in _parts(schema, "properties")
        if found == "object" and key in value
    ]
    if found == "array":
        below = [(item, schema.get("items"), str(place)) for place, item in enumerate(value)]
    said = (untyped(one, sub, f"{at}/{key}") for one, sub, key in below)
    return next((note for note in said if note), None)


def _parts(schema: dict[str, Any], keyword: str) -> list[tuple[str, Any]]:
    held = schema.get(keyword)
    return list(held.items()) if isinstance(held, dict) else []


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    names = {str: "string", dict: "object", list: "array"}
    return next((name for kind, name in names.items() if isinstance(value, kind)), "number")
