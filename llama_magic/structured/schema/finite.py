"""Leave out of a lowered schema what no finite value can fill.

`{"properties": {"next": {"$ref": "#"}}, "required": ["next"]}` has no end. In a union such a branch
would be a trap: the mask lets a model in, and then forces it to write for ever.
"""

from __future__ import annotations

from typing import Any

from llama_magic.structured.schema.negate import TYPES


def finite(schema: Any, defs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the schema and its definitions with `False` for what has no finite value.

    Both come back as they are where there is nothing of the kind, which is the usual case.
    """
    ending: set[str] = set()
    order = list(reversed(defs.items()))  # definitions mostly use later ones
    while True:
        more = {name for name, node in order if name not in ending and _ends(node, ending)}
        if not more:
            break
        ending |= more
    if len(ending) == len(defs):
        return schema, defs
    return _pruned(schema, ending), {
        name: _pruned(node, ending) for name, node in defs.items() if name in ending
    }


def _ends(node: Any, ending: set[str]) -> bool:
    """Say whether a schema has a finite value, as far as is known; True where it cannot be told."""
    if not isinstance(node, dict):
        return node is not False
    if "$ref" in node and node["$ref"].rsplit("/", 1)[-1] not in ending:
        return False
    if not all(_ends(part, ending) for part in node.get("allOf", ())):
        return False
    if "anyOf" in node and not any(_ends(option, ending) for option in node["anyOf"]):
        return False
    return "enum" in node or bool(_types(node, ending))


def _types(node: dict[str, Any], ending: set[str]) -> list[str]:
    """Return the types that a schema leaves, without objects and lists whose parts have no end."""
    named = node.get("type", list(TYPES))
    types = [named] if isinstance(named, str) else named
    return [kind for kind in types if all(_ends(part, ending) for part in _needed(node, kind))]


def _needed(node: dict[str, Any], kind: str) -> list[Any]:
    """Return the schemas of the parts that every value of a type has."""
    if kind == "object":
        properties = node.get("properties", {})
        rest = True if node.get("patternProperties") else node.get("additionalProperties", True)
        return [properties.get(name, rest) for name in node.get("required", ())]
    if kind == "array":
        first, rest = node.get("prefixItems", []), node.get("items", True)
        count = node.get("minItems", 0)
        return [*first[:count], *([rest] if count > len(first) else [])]
    return []


def _pruned(node: Any, ending: set[str]) -> Any:
    if not _ends(node, ending):
        return False
    if not isinstance(node, dict):
        return node
    out = dict(node)
    if "enum" not in node and not isinstance(node.get("type"), str):
        types = _types(node, ending)
        if types != node.get("type", list(TYPES)):
            out["type"] = types
    if "anyOf" in node:
        out["anyOf"] = [_pruned(option, ending) for option in node["anyOf"] if _ends(option, ending)]
    for keyword in ("allOf", "prefixItems"):
        if keyword in node:
            out[keyword] = [_pruned(part, ending) for part in node[keyword]]
    for keyword in ("additionalProperties", "items"):
        if keyword in node:
            out[keyword] = _pruned(node[keyword], ending)
    for keyword in ("properties", "patternProperties"):
        if keyword in node:
            out[keyword] = {name: _pruned(part, ending) for name, part in node[keyword].items()}
    return out
