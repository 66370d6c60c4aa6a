"""A schema as a tree: which keywords hold schemas, the path to each, and its JSON pointer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ONE = (
    "additionalItems", "additionalProperties", "contains", "else", "if", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
DEFINITIONS = ("$defs", "definitions")

Path = tuple[str, ...]


def pointer(path: Path) -> str:
    """Return the JSON pointer of a path."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


def ref_path(ref: str) -> Path:
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in ref.split("/")[1:])


def children(node: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield the subschemas of a schema with their relative paths."""
    for keyword, value in node.items():
        shape = _HOLDS.get(keyword)
        if shape is None:
            continue
        if isinstance(value, list) and shape in ("many", "items"):
            yield from (((keyword, str(i)), sub) for i, sub in enumerate(value))
        elif shape in ("one", "items"):
            yield (keyword,), value
        elif isinstance(value, dict) and shape in ("named", "either"):
            yield from (
                ((keyword, name), sub)
                for name, sub in value.items()
                if shape == "named" or not isinstance(sub, list)
            )


_HOLDS = {
    **dict.fromkeys(ONE, "one"),
    **dict.fromkeys(MANY, "many"),
    **dict.fromkeys(NAMED, "named"),
    "items": "items",
    "dependencies": "either",
}


IN_PLACE = frozenset(
    ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
)


def walk(root: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every subschema with its path, the root first."""
    stack = [(path, root)]
    while stack:
        here, node = stack.pop()
        yield here, node
        if isinstance(node, dict):
            stack += [(here + relative, sub) for relative, sub in children(node)]


def values_in(root: Any) -> Iterator[Any]:
    """Yield every JSON value inside a value, itself first."""
    stack = [root]
    while stack:
        value = stack.pop()
        yield value
        if isinstance(value, dict):
            stack += value.values()
        elif isinstance(value, (list, tuple)):
            stack += value
