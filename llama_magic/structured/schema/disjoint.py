"""Prove that two schemas share no value: then `oneOf` is `anyOf`, which the mask enforces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from llama_magic.structured.schema import regex as _regex
from llama_magic.structured.schema.bundle import Bundle
from llama_magic.structured.schema.values import is_number, kind, same_value

_MAX_DEPTH = 8
_MAX_PAIRS = 2000
_ALL = frozenset(("null", "boolean", "number", "string", "array", "object"))


def disjoint(branches: list[Any], bundle: Bundle, around: dict[str, Any] | None = None) -> bool:
    """Say whether no value fits two of the branches. `around` holds for all of them.

    False means "not proved": the proof looks at types, constants, required keys, closed
    objects, lengths and ranges, not at everything.
    """
    if len(branches) * (len(branches) - 1) // 2 > _MAX_PAIRS:
        return False
    parts = [list(_parts({"allOf": [branch, around or True]}, bundle, 0)) for branch in branches]
    return all(
        _apart(parts[i], parts[j], bundle, 0) for i in range(len(parts)) for j in range(i + 1, len(parts))
    )


def _parts(node: Any, bundle: Bundle, depth: int) -> Iterator[Any]:
    """Yield schemas that all hold for a value of `node` (through $ref and allOf)."""
    if not isinstance(node, dict) or depth > _MAX_DEPTH:
        if node is False:
            yield False
        return
    yield node
    if "$ref" in node:
        yield from _parts(bundle.target(node["$ref"]), bundle, depth + 1)
    for sub in node.get("allOf", ()):
        yield from _parts(sub, bundle, depth + 1)


def _apart(left: list[Any], right: list[Any], bundle: Bundle, depth: int) -> bool:
    if False in left or False in right:
        return True
    if depth > _MAX_DEPTH or not bundle.spend():
        return False
    for one, other in ((left, right), (right, left)):
        for part in one:  # a union is apart from B when each of its branches is
            for keyword in ("anyOf", "oneOf"):
                subs = part.get(keyword)
                if subs and all(_apart([*_parts(s, bundle, 0)], other, bundle, depth + 1) for s in subs):
                    return True
    types = types_of(left) & types_of(right)
    values = _values(left), _values(right)
    if values[0] is not None and values[1] is not None:
        return not any(same_value(a, b) for a in values[0] for b in values[1])
    for known, parts in ((values[0], right), (values[1], left)):
        if known is not None:
            return all(refused(value, parts) for value in known)
    return all(_APART.get(name, _never)(left, right, bundle, depth) for name in types)


def _never(*_: Any) -> bool:
    return False


def types_of(parts: list[Any]) -> frozenset[str]:
    """Return the types that all of some schemas leave, "number" for whole ones too."""
    types = _ALL
    for part in parts:
        if "type" in part:
            names = [part["type"]] if isinstance(part["type"], str) else part["type"]
            types &= {"number" if name == "integer" else name for name in names}
        for keyword in ("anyOf", "oneOf"):
            subs = part.get(keyword)
            if subs and all(isinstance(sub, dict) and "type" in sub for sub in subs):
                types &= frozenset().union(*(types_of([sub]) for sub in subs))
    return types


def _values(parts: list[Any]) -> list[Any] | None:
    for part in parts:
        if "const" in part:
            return [part["const"]]
        if "enum" in part:
            return list(part["enum"])
    return None


def refused(value: Any, parts: list[Any]) -> bool:
    """Say whether one of some schemas surely refuses a value."""
    if kind(value) not in types_of(parts):
        return True
    for part in parts:
        if isinstance(value, str):
            if len(value) < part.get("minLength", 0) or len(value) > part.get("maxLength", len(value)):
                return True
            pattern = _regex.to_python(part["pattern"]) if "pattern" in part else None
            if pattern is not None and not pattern.search(value):
                return True
        if isinstance(value, dict) and not set(part.get("required", ())) <= set(value):
            return True
        if isinstance(value, float) and part.get("type") == "integer" and value != int(value):
            return True
        if kind(value) == "number" and any(
            _compare(value, part[key]) for key, _compare in _BOUNDS.items() if is_number(part.get(key))
        ):
            return True
    return False


_BOUNDS: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda value, bound: value < bound,
    "maximum": lambda value, bound: value > bound,
    "exclusiveMinimum": lambda value, bound: value <= bound,
    "exclusiveMaximum": lambda value, bound: value >= bound,
}


def _objects(left: list[Any], right: list[Any], bundle: Bundle, depth: int) -> bool:
    needs = _required(left), _required(right)
    if any(_forbids(right, name) for name in needs[0]) or any(_forbids(left, name) for name in needs[1]):
        return True
    for name in needs[0] | needs[1]:  # one side must have it; where it stands, both must fit it
        mine, theirs = _property(left, name, bundle), _property(right, name, bundle)
        if mine and theirs and _apart(mine, theirs, bundle, depth + 1):
            return True
    return _sizes("minProperties", "maxProperties", left, right)


def _required(parts: list[Any]) -> set[str]:
    return {name for part in parts for name in part.get("required", ())}


def _forbids(parts: list[Any], name: str) -> bool:
    for part in parts:
        known = part.get("properties", {})
        if known.get(name) is False:
            return True
        if (
            part.get("additionalProperties") is False
            and name not in known
            and not part.get("patternProperties")
        ):
            return True
    return False


def _property(parts: list[Any], name: str, bundle: Bundle) -> list[Any]:
    found: list[Any] = []
    for part in parts:
        if name in part.get("properties", {}):
            found += _parts(part["properties"][name], bundle, 0)
    return found


def _arrays(left: list[Any], right: list[Any], bundle: Bundle, depth: int) -> bool:
    if _sizes("minItems", "maxItems", left, right):
        return True
    least = max([0, *(part.get("minItems", 0) for part in left + right)])
    if least < 1:
        return False
    first = [_first(parts, bundle) for parts in (left, right)]
    return bool(first[0] and first[1]) and _apart(first[0], first[1], bundle, depth + 1)


def _first(parts: list[Any], bundle: Bundle) -> list[Any]:
    found: list[Any] = []
    for part in parts:
        items = part.get("prefixItems") or part.get("items")
        items = items[0] if isinstance(items, list) and items else items
        if isinstance(items, dict):
            found += _parts(items, bundle, 0)
    return found


def _strings(left: list[Any], right: list[Any], bundle: Bundle, depth: int) -> bool:
    return _sizes("minLength", "maxLength", left, right)


def _sizes(low: str, high: str, left: list[Any], right: list[Any]) -> bool:
    least = max([0, *(part.get(low, 0) for part in left + right)])
    most = min([float("inf"), *(part[high] for part in left + right if high in part)])
    return bool(least > most)


def bounds(parts: list[Any], *keywords: str) -> list[Any]:
    """Return the numbers under some keywords; draft 4 has switches in places of them."""
    return [part[key] for part in parts for key in keywords if is_number(part.get(key))]


def _numbers(left: list[Any], right: list[Any], bundle: Bundle, depth: int) -> bool:
    parts = left + right
    low = max([float("-inf"), *bounds(parts, "minimum", "exclusiveMinimum")])
    high = min([float("inf"), *bounds(parts, "maximum", "exclusiveMaximum")])
    open_end = any(p.get("exclusiveMinimum") == low or p.get("exclusiveMaximum") == high for p in parts)
    return bool(low > high or (low == high and open_end))


_APART = {"object": _objects, "array": _arrays, "string": _strings, "number": _numbers}
