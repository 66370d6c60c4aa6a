"""Keep the digits of a Decimal: pydantic reads a JSON number as a double first (pydantic-core#1688).

A text is exact, so a number that stands where the type has a Decimal is handed over as one.
"""

from __future__ import annotations

import json
from typing import Any

from llama_magic.structured.answer.spelling import Members, Number
from llama_magic.structured.schema.tree import values_in

_MAX_DEPTH = 12  # references and unions that lead to one another


def has_decimals(schema: Any) -> bool:
    """Say whether a schema of a type describes a Decimal somewhere."""
    return any(isinstance(value, dict) and value.get("format") == "decimal" for value in values_in(schema))


class Decimals:
    """Rewrites answers for one schema."""

    def __init__(self, schema: Any) -> None:
        self._root = schema

    def exact(self, text: str) -> str:
        """Return a strict JSON text with its Decimals in quotes, digit by digit as they were."""
        value = json.loads(text, object_pairs_hook=Members, parse_int=Number, parse_float=Number)
        return self._dump(value, [self._root])

    def _dump(self, value: Any, schemas: list[Any]) -> str:
        branches = [branch for schema in schemas for branch in self._branches(schema, 0)]
        if isinstance(value, Number):
            return f'"{value.text}"' if _is_decimal(branches) else value.text
        if isinstance(value, Members):
            members = (
                f"{json.dumps(name)}: {self._dump(item, _of_property(branches, name))}"
                for name, item in value
            )
            return "{" + ", ".join(members) + "}"
        if isinstance(value, list):
            items = (self._dump(item, _of_item(branches, index)) for index, item in enumerate(value))
            return "[" + ", ".join(items) + "]"
        return json.dumps(value)

    def _branches(self, schema: Any, depth: int) -> list[Any]:
        """Return what a value may be held against: through references and unions."""
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return []
        found = [schema]
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref.startswith("#/$defs/"):
            found += self._branches(self._root.get("$defs", {}).get(ref.rsplit("/", 1)[-1]), depth + 1)
        for keyword in ("anyOf", "oneOf", "allOf"):
            for part in schema.get(keyword, ()):
                found += self._branches(part, depth + 1)
        return found


def _is_decimal(branches: list[Any]) -> bool:
    """Say whether a number here is a Decimal, and a text would not be taken for something else."""
    formats = [part.get("format") for part in branches if part.get("type") == "string"]
    return "decimal" in formats and set(formats) == {"decimal"}


def _of_property(branches: list[Any], name: str) -> list[Any]:
    return [
        part["properties"][name] if name in part.get("properties", {}) else part.get("additionalProperties")
        for part in branches
    ]


def _of_item(branches: list[Any], index: int) -> list[Any]:
    return [
        part["prefixItems"][index] if index < len(part.get("prefixItems", ())) else part.get("items")
        for part in branches
    ]
