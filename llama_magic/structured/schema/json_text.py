"""A regular expression for JSON inside a string (pydantic's `Json[...]`), where it can be said by one."""

from __future__ import annotations

import json
from typing import Any

from llama_magic.structured.schema.regex import literal

_TEXT = r'"[A-Za-z0-9 _.,:;!?()\'/+-]{0,80}"'
_WHOLE = "-?(?:0|[1-9][0-9]{0,17})"
_PLAIN = {
    "integer": _WHOLE,
    "number": rf"{_WHOLE}(?:\.[0-9]{{1,15}})?",
    "string": _TEXT,
    "boolean": "(?:true|false)",
    "null": "null",
}
_SCALAR = f"(?:{'|'.join(_PLAIN.values())})"
_ANY = rf"(?:{_SCALAR}|\[(?:{_SCALAR}(?:, {_SCALAR}){{0,20}})?\]|\{{(?:{_TEXT}: {_SCALAR})?\}})"


def pattern_of_json(schema: Any, depth: int = 0) -> str:
    """Return a pattern of JSON texts for a simple schema: scalars, lists and closed objects of them.

    What it cannot say it takes for any small value; the type's own check comes after.
    """
    if not isinstance(schema, dict) or depth > 4:
        return _ANY
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values:
        return "(?:" + "|".join(literal(json.dumps(value)) for value in values) + ")"
    if "anyOf" in schema:
        return "(?:" + "|".join(pattern_of_json(part, depth + 1) for part in schema["anyOf"]) + ")"
    kind = schema.get("type")
    if kind == "array":
        item = pattern_of_json(schema.get("items", {}), depth + 1)
        return rf"\[(?:{item}(?:, {item}){{0,20}})?\]"
    if kind == "object" and schema.get("properties"):
        members = [
            f"{literal(json.dumps(name))}: {pattern_of_json(part, depth + 1)}"
            for name, part in schema["properties"].items()
        ]
        return r"\{" + ", ".join(members) + r"\}"
    return _PLAIN.get(str(kind), _ANY)
