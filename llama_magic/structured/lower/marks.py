"""`RULE`: what a lowered schema says in our own words, for which no JSON Schema of llguidance has any."""

from __future__ import annotations

from typing import Any

from llama_magic.structured.schema.tree import values_in

RULE = "\0rule"


def says(schema: Any, key: str) -> bool:
    """Say whether a lowered schema holds one of our own keys, RULE or KEY."""
    return any(isinstance(value, dict) and key in value for value in values_in(schema))


def loses(schema: Any) -> bool:
    """Say whether llguidance's own compiler would take more of a lowered schema than it says.

    A rule with "also" is said by keywords beside it as well, if more narrowly.
    """
    if isinstance(schema, dict):
        return not schema.get(RULE, {"also": True}).get("also") or any(map(loses, schema.values()))
    return isinstance(schema, list) and any(map(loses, schema))


def without_rules(node: Any) -> Any:
    """Return a lowered schema as llguidance's own compiler takes it."""
    if isinstance(node, dict):
        return {key: without_rules(value) for key, value in node.items() if key != RULE}
    return [without_rules(value) for value in node] if isinstance(node, list) else node
