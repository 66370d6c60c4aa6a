"""Lower what looks at several items of an array at once: `uniqueItems` and `contains`.

No JSON schema of llguidance says these, a Lark rule can: over items of a finite set it keeps which of
them were written, and `contains` is an item among the others. What the rule is to do is left in the
lowered schema under `RULE`; `grammar.lark_arrays` writes it.
"""

from __future__ import annotations

from typing import Any

from llama_magic.structured.answer.postcheck import Checker
from llama_magic.structured.lower.lowered import Lowered, Site
from llama_magic.structured.lower.marks import RULE
from llama_magic.structured.schema.bundle import Bundle
from llama_magic.structured.schema.tree import pointer
from llama_magic.structured.schema.values import is_number, same_value

MOST_VALUES = 60  # the parameter of a rule has 64 bits
_MAX_STATES = 300
_AFTER = ("uniqueItems", "contains", "minContains", "maxContains")


def _sets(lowered: Lowered, site: Site) -> None:
    """Say it for all four keywords at the first of them."""
    unique, contains = site.node.get("uniqueItems") is True, site.node.get("contains")
    asked = ["uniqueItems"] if unique else []
    if contains is not None:
        asked += [name for name in _AFTER[1:] if name in site.node]
    if not asked or site.keyword != asked[0]:
        return
    rule = _rule(lowered, site, unique, contains)
    if rule is False:
        site.extra.append(False)
        where = pointer(site.path) or "the root"
        lowered.impossible.append(f"the array at {where} asks for more different items than there are values")
    if not rule:
        for name in asked:
            lowered.leave(site.path, name)
        return
    site.out[RULE] = rule
    for name in asked:
        lowered.ruled(site.path, name)


def _rule(lowered: Lowered, site: Site, unique: bool, contains: Any) -> Any:
    """Return what a rule is to do, None where none can, False where no array can be valid."""
    node = site.node
    items = node.get("items", True)
    plain = not isinstance(items, list) and "prefixItems" not in node
    named = node.get("type") == "array" and not lowered.bundle.dynamic
    if not named or not plain or items is False or "sets" in lowered.loosening.kinds:
        return None
    least = int(node.get("minContains", 1)) if contains is not None else 0
    most = node.get("maxContains") if contains is not None else None
    low, high = int(node.get("minItems", 0)), node.get("maxItems")
    values = finite_values(lowered.bundle, items)
    fitting = [] if contains is None or values is None else _fitting(lowered.bundle, contains, values)
    rule: dict[str, Any] = {"unique": unique, "low": max(low, least), "least": least, "most": most}
    if values is not None and len(values) <= MOST_VALUES:
        rest = [value for value in values if not any(same_value(value, other) for other in fitting)]
        rule["fitting"], rule["others"] = fitting, rest
        possible = len(values) if unique else (10**9 if values else 0)
        if unique:
            high = possible if high is None else min(int(high), possible)
            site.out["maxItems"] = high
        if rule["low"] > possible or least > (len(fitting) if unique or not fitting else 10**9):
            return False
    elif unique or most is not None:
        return None
    else:
        rule["item"] = site.out.get("items", True)
        rule["wanted"] = lowered.quiet((*site.path, "contains"), {"allOf": [items, contains]})
    rule["high"] = None if high is None else int(high)
    states = (max(rule["low"], rule["high"] or 0) + 2) * (max(least, int(most or 0)) + 2)
    return rule if unique or states <= _MAX_STATES else None


def finite_values(bundle: Bundle, node: Any) -> list[Any] | None:
    """Return all values of a schema, None where they are not few or cannot be listed."""
    found = _candidates(bundle, node, 0)
    if found is None or len(found) > 4 * MOST_VALUES:
        return None
    distinct: list[Any] = []
    for value in found:
        if not any(same_value(value, other) for other in distinct):
            distinct.append(value)
    return _fitting(bundle, node, distinct)


def _candidates(bundle: Bundle, node: Any, depth: int) -> list[Any] | None:
    """Return values that hold all values of a schema."""
    if not isinstance(node, dict) or depth > 8 or not bundle.spend():
        return [] if node is False else None
    if "const" in node:
        return [node["const"]]
    if "enum" in node:
        return list(node["enum"])
    parts = [bundle.target(node["$ref"])] if "$ref" in node else []
    for part in [*parts, *node.get("allOf", ())]:
        values = _candidates(bundle, part, depth + 1)
        if values is not None:
            return values
    for union in (node.get("anyOf"), node.get("oneOf")):
        options = [_candidates(bundle, part, depth + 1) for part in union or ()]
        if options and all(option is not None for option in options):
            return [value for option in options for value in option or ()]
    types = node.get("type")
    named = [types] if isinstance(types, str) else types or [""]
    kinds = [
        _of_parts(bundle, node, name, depth) if name in ("object", "array") else _of_type(node, name)
        for name in named
    ]
    return None if None in kinds else [value for values in kinds for value in values or ()]


def _of_parts(bundle: Bundle, node: Any, name: str, depth: int) -> list[Any] | None:
    """Return the objects of named members, or the tuples, of few values each; None where there are others."""
    if name == "object":
        parts = node.get("properties", {})
        if node.get("additionalProperties") is not False or "patternProperties" in node:
            return None
    else:
        parts = dict(enumerate(node.get("prefixItems", ())))
        most = len(parts) if node.get("items", node.get("additionalItems")) is False else node.get("maxItems")
        if not parts or most is None or most > len(parts):
            return None
    needed = node.get("required", ()) if name == "object" else range(int(node.get("minItems", 0)))
    made: list[dict[Any, Any]] = [{}]
    for key, part in parts.items():
        values = _candidates(bundle, part, depth + 1)
        if values is None or len(made) * (len(values) + 1) > 4 * MOST_VALUES:
            return None
        without = [] if key in needed else made
        if name == "array":  # what is left out is left out to the end
            made = without + [{**one, key: value} for one in made if len(one) == key for value in values]
        else:
            made = without + [{**one, key: value} for one in made for value in values]
    return list(made) if name == "object" else [list(one.values()) for one in made]


def _of_type(node: Any, name: str) -> list[Any] | None:
    if name == "boolean":
        return [False, True]
    if name == "null":
        return [None]
    low = node.get("minimum", node.get("exclusiveMinimum"))
    high = node.get("maximum", node.get("exclusiveMaximum"))
    if name == "integer" and all(map(is_number, (low, high))) and abs(low) + abs(high) < 2**53:
        first, last = -int(-low // 1), int(high // 1)
        return list(range(first, last + 1)) if last - first < MOST_VALUES else None
    return None


def _fitting(bundle: Bundle, node: Any, values: list[Any]) -> list[Any]:
    checker = Checker(bundle, node)
    return [value for value in values if checker.why(value) is None]


RULES = dict.fromkeys(_AFTER, _sets)
