"""The complement of a schema, where JSON schema can say it without `not`.

`not`, `if` and `oneOf` become unions of branches by this, which the mask can enforce.
"""

from __future__ import annotations

from typing import Any

from llama_magic.structured.schema import regex as _regex
from llama_magic.structured.schema.bundle import Bundle
from llama_magic.structured.schema.keywords import ASSERTIONS

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_MAX_BRANCHES = 24


class InexactError(Exception):
    """No exact complement can be written."""


def negate(node: Any, bundle: Bundle, depth: int = 0) -> Any:
    """Return a schema for exactly the values that `node` refuses; raises `InexactError`."""
    if isinstance(node, bool):
        return not node
    if depth > 12 or not bundle.spend():
        raise InexactError
    branches: list[Any] = []
    for keyword, value in node.items():
        if keyword in _PARTNERS:
            continue
        branch = _RULES.get(keyword)
        if branch is None:
            if keyword in ASSERTIONS:
                raise InexactError
            continue
        branches += branch(value, node, bundle, depth + 1)
    if len(branches) > _MAX_BRANCHES:
        raise InexactError
    if not branches:
        return False
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


_PARTNERS = frozenset(("then", "else", "additionalItems"))


def type_list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def other_types(types: list[str]) -> list[str]:
    """Return the types that are none of these; an integer is a number."""
    left = [name for name in TYPES if name not in types and name != "integer"]
    if "integer" in types and "number" not in types:
        raise InexactError  # "a number that is not whole" has no type of its own
    return left


def _type(value: Any, *_: Any) -> list[Any]:
    left = other_types(type_list(value))
    return [{"type": left}] if left else []


def _enum(value: Any, *_: Any) -> list[Any]:
    texts = [item for item in value if isinstance(item, str)]
    rest = [item for item in value if not isinstance(item, str)]
    types = list(TYPES)
    branches: list[Any] = []
    for item in rest:
        if item is None:
            types.remove("null") if "null" in types else None
        elif not isinstance(item, bool):
            raise InexactError
    booleans = {item for item in rest if isinstance(item, bool)}
    if booleans:
        types.remove("boolean")
        branches += [{"const": not item} for item in booleans] if len(booleans) == 1 else []
    if texts:
        types.remove("string")
        if sum(map(len, texts)) > 2000:
            raise InexactError
        branches.append({"type": "string", "pattern": _regex.none_of(texts)})
    types.remove("integer")
    return [*branches, {"type": types}]


def _required(value: Any, *_: Any) -> list[Any]:
    return [{"type": "object", "properties": {name: False}} for name in value]


def _properties(value: Any, node: Any, bundle: Bundle, depth: int) -> list[Any]:
    branches = []
    for name, sub in value.items():
        inverse = negate(sub, bundle, depth)
        if inverse is not False:
            branches.append({"type": "object", "properties": {name: inverse}, "required": [name]})
    return branches


def _ref(value: Any, node: Any, bundle: Bundle, depth: int) -> list[Any]:
    return [negate(bundle.target(value), bundle, depth)]


def _not(value: Any, *_: Any) -> list[Any]:
    return [value]


def _all_of(value: Any, node: Any, bundle: Bundle, depth: int) -> list[Any]:
    return [negate(sub, bundle, depth) for sub in value]


def _any_of(value: Any, node: Any, bundle: Bundle, depth: int) -> list[Any]:
    return [{"allOf": [negate(sub, bundle, depth) for sub in value]}]


def _number(low: str, exclusive: str, other: str) -> Any:
    def rule(value: Any, node: Any, *_: Any) -> list[Any]:
        if isinstance(node.get(exclusive), bool) or isinstance(value, bool):
            raise InexactError
        return [{"type": "number", other: value}]

    return rule


def _size(kind: str, opposite: str, step: int) -> Any:
    def rule(value: Any, *_: Any) -> list[Any]:
        bound = int(value) + step
        return [] if bound < 0 else [{"type": kind, opposite: bound}]

    return rule


_RULES: dict[str, Any] = {
    "type": _type,
    "enum": _enum,
    "const": lambda value, *_: _enum([value]),
    "required": _required,
    "properties": _properties,
    "$ref": _ref,
    "not": _not,
    "allOf": _all_of,
    "anyOf": _any_of,
    "minimum": _number("minimum", "exclusiveMinimum", "exclusiveMaximum"),
    "maximum": _number("maximum", "exclusiveMaximum", "exclusiveMinimum"),
    "exclusiveMinimum": _number("", "", "maximum"),
    "exclusiveMaximum": _number("", "", "minimum"),
    "minLength": _size("string", "maxLength", -1),
    "maxLength": _size("string", "minLength", 1),
    "minItems": _size("array", "maxItems", -1),
    "maxItems": _size("array", "minItems", 1),
    "minProperties": _size("object", "maxProperties", -1),
    "maxProperties": _size("object", "minProperties", 1),
}
