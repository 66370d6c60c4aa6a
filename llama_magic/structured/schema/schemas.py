"""What lowering knows of schemas as data: the shape of each keyword, the branches of a union."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from llama_magic.errors import SchemaError
from llama_magic.structured.schema import regex as _regex
from llama_magic.structured.schema.bundle import Bundle
from llama_magic.structured.schema.negate import TYPES
from llama_magic.structured.schema.regex_least import MAX_LEAST, asks_for
from llama_magic.structured.schema.regex_runs import check_runs
from llama_magic.structured.schema.tree import (
    DEFINITIONS,
    MANY,
    NAMED,
    ONE,
    Path,
    children,
    pointer,
    ref_path,
)
from llama_magic.structured.schema.values import is_number
from llama_magic.structured.schema.written import SAID


class Keyword(NamedTuple):
    """A keyword of the schema at a JSON pointer, and how it is treated."""

    pointer: str
    keyword: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.keyword} at {self.pointer or 'the root'}" + (f" ({self.note})" if self.note else "")


def ways(node: Any, depth: int) -> int:
    """Count the branches that a schema has when its unions are multiplied out."""
    if not isinstance(node, dict) or depth > 10:
        return 1
    count = max(1, sum(ways(sub, depth + 1) for sub in node.get("anyOf", ())))
    for sub in node.get("allOf", ()):
        count = min(count * ways(sub, depth + 1), 10**9)
    return count


def simplified(out: dict[str, Any]) -> Any:
    """Say `false` where a branch that cannot hold makes the whole impossible."""
    if False in (parts := out.get("allOf", ())):
        return False
    if parts:
        out["allOf"] = [part for part in parts if part is not True]
    if "anyOf" in out:
        options = [option for option in out["anyOf"] if option is not False]
        if not options:
            return False
        out["anyOf"] = options
    return out


def schema_text(schema: Any) -> str:
    """Return a JSON schema as one line for a model to read: without titles, descriptions kept."""
    return json.dumps(_for_reading(schema), ensure_ascii=False)


def _for_reading(node: Any) -> Any:
    """Leave out what only repeats names, or is meant for the mask."""
    if not isinstance(node, dict):
        return node
    out = {key: value for key, value in node.items() if key not in ("title", SAID)}
    for keyword, value in out.items():
        if keyword in NAMED and isinstance(value, dict):
            out[keyword] = {name: _for_reading(part) for name, part in value.items()}
        elif keyword in ONE or (keyword == "items" and isinstance(value, dict)):
            out[keyword] = _for_reading(value)
        elif keyword in MANY or keyword == "items":
            out[keyword] = [_for_reading(part) for part in value] if isinstance(value, list) else value
    return out


def check_reachable(bundle: Bundle) -> None:
    """Refuse a schema in which a keyword has a value of another shape; definitions count if they are used."""
    stack: list[tuple[Path, Any]] = [((), bundle.root)]
    seen: set[int] = set()
    skipped = () if bundle.dynamic else DEFINITIONS
    while stack:
        path, node = stack.pop()
        if isinstance(node, bool) or id(node) in seen:
            continue
        if not isinstance(node, dict):
            raise SchemaError(
                f"The schema at {pointer(path) or 'the root'} is {node!r:.60}; expected an object, "
                "true or false.",
                pointer=pointer(path),
            )
        seen.add(id(node))
        _check(path, node)
        used = [(path + where, sub) for where, sub in children(node) if where[0] not in skipped]
        if "$ref" in node:
            used.append((ref_path(node["$ref"]), bundle.target(node["$ref"])))
        stack += reversed(used)


def _check(path: Path, node: Any) -> None:
    for keyword, value in node.items():
        expected = _SHAPES.get(keyword)
        if expected is not None and not expected[0](value):
            raise SchemaError(
                f"{keyword} at {pointer(path) or 'the root'} is {value!r:.100}; expected {expected[1]}.",
                pointer=pointer(path),
                keyword=keyword,
            )
    patterns = [("pattern", node["pattern"])] if "pattern" in node else []
    patterns += [("patternProperties", pattern) for pattern in node.get("patternProperties", ())]
    for keyword, pattern in patterns:
        check_runs(pattern, keyword, f" at {pointer(path) or 'the root'}", pointer(path))
        if asks_for(pattern) > MAX_LEAST:
            raise SchemaError(
                f"{keyword} at {pointer(path) or 'the root'} asks for more than {MAX_LEAST:,} characters.",
                pointer=pointer(path),
                keyword=keyword,
                remedy="Repeat less often.",
            )


def _is_finite(value: Any) -> bool:
    return is_number(value) and value - value == 0


def _is_count(value: Any) -> bool:
    return _is_finite(value) and value >= 0 and value == int(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, (dict, bool)) for item in value)


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, (dict, bool)) for item in value.values())


_MAX_PROPERTIES = 2_000  # llguidance takes 0.4 s for so many, growing with the square
_COUNT = (_is_count, "a whole number from 0")
_NUMBER = (_is_finite, "a number")
_BOUND = (lambda value: isinstance(value, bool) or _is_finite(value), "a number")
_SHAPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "type": (
        lambda v: bool(v) and (v in TYPES if isinstance(v, str) else _is_names(v) and set(v) <= set(TYPES)),
        f"one of {', '.join(TYPES)}, or a list of them",
    ),
    "enum": (lambda v: isinstance(v, list), "a list"),
    "required": (_is_names, "a list of property names"),
    "pattern": (
        lambda v: isinstance(v, str) and len(v) <= _regex.MAX_PATTERN,
        "a regular expression, 20,000 characters at most",
    ),
    "uniqueItems": (lambda v: isinstance(v, bool), "true or false"),
    "multipleOf": (lambda v: _is_finite(v) and v > 0, "a number above 0"),
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": _BOUND,
    "exclusiveMaximum": _BOUND,
    "items": (lambda v: isinstance(v, (dict, bool, list)), "a schema or a list of schemas"),
    "dependentRequired": (
        lambda v: isinstance(v, dict) and all(map(_is_names, v.values())),
        "lists of names",
    ),
    "dependencies": (
        lambda v: (
            isinstance(v, dict) and all(isinstance(i, (dict, bool)) or _is_names(i) for i in v.values())
        ),
        "lists of names or schemas",
    ),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains",
         "maxContains"), _COUNT,
    ),
    **dict.fromkeys(MANY, (_is_schemas, "a list of schemas, not empty")),
    **dict.fromkeys(ONE, (lambda v: isinstance(v, (dict, bool)), "a schema (an object, true or false)")),
    **dict.fromkeys(NAMED, (_is_named, "an object whose values are schemas")),
    "properties": (
        lambda v: _is_named(v) and len(v) <= _MAX_PROPERTIES,
        "an object whose values are schemas, 2,000 at most",
    ),
}  # fmt: skip
