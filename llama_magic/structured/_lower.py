"""Lower a bundled schema to what the mask's compiler (llguidance) can enforce.

A rewrite is exact or it allows more; it never allows less. What it allows more is named in
`checked` and left to the check after the answer. Nothing is dropped without being named.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from llama_magic.errors import SchemaError
from llama_magic.structured import _formats, _regex
from llama_magic.structured._bundle import NAMED, Bundle, Path, pointer, ref_path
from llama_magic.structured._disjoint import disjoint
from llama_magic.structured._negate import TYPES, InexactError, negate


class Keyword(NamedTuple):
    """A keyword of the schema at a JSON pointer, and how it is treated."""

    pointer: str
    keyword: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.keyword} at {self.pointer or 'the root'}" + (f" ({self.note})" if self.note else "")


@dataclass
class Loosening:
    """What the mask's compiler turned out not to take: leave it to the check after the answer."""

    patterns: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)  # the names in _grammar._LADDER


class TooWideError(Exception):
    """Rewriting made so many branches at once that compiling them would take too long."""


_MAX_WAYS = 24


class Lowered:
    """`schema` for the mask, and the lists of keywords that it enforces or leaves to be checked."""

    def __init__(self, bundle: Bundle, loosening: Loosening | None = None) -> None:
        self.bundle = bundle
        self.loosening = loosening or Loosening()
        self.enforced: list[Keyword] = []
        self.checked: list[Keyword] = []
        self.patterns: set[str] = set()
        self.any_order = False  # set where the grammar takes keys in any order
        self.names: dict[str, str] = {}
        self._defs: dict[str, Any] = {}
        self._depth = 0
        self._level = 0
        self.schema = self._lower((), bundle.root)
        if self._defs:
            root = self.schema if isinstance(self.schema, dict) else {}
            self.schema = {**root, "$defs": self._defs}

    def _lower(self, path: Path, node: Any) -> Any:
        """Lower one schema; every 20th level becomes a definition, as llguidance reads 128 levels."""
        self._level += 1
        try:
            lowered = self._lower_one(path, node)
            if self._level % 20 or not isinstance(lowered, dict):
                return lowered
            name = f"h{len(self._defs)}"
            self._defs[name] = lowered
            return {"$ref": f"#/$defs/{name}"}
        finally:
            self._level -= 1

    def _lower_one(self, path: Path, node: Any) -> Any:
        if isinstance(node, bool):
            return node
        if not isinstance(node, dict):
            raise SchemaError(
                f"The schema at {pointer(path) or 'the root'} is {node!r:.60}; expected an object, "
                "true or false.",
                pointer=pointer(path),
            )
        _check(path, node)
        out: dict[str, Any] = {}
        extra: list[Any] = []
        for keyword in sorted(node, key=_late):
            rule = _RULES.get(keyword)
            if rule is not None:
                rule(self, path, node, keyword, out, extra)
        if extra:
            out["allOf"] = [*out.get("allOf", ()), *extra]
        if (
            len(out.get("allOf", ())) > 1
            and "negation" not in self.loosening.kinds
            and _ways(out, 0) > _MAX_WAYS
        ):
            raise TooWideError
        if "unions" in self.loosening.kinds:
            self._fewer_ways(path, out)
        return _simplified(out)

    def _fewer_ways(self, path: Path, out: Any) -> None:
        """Leave unions to the check after the answer where they multiply to more than can be compiled."""
        kept: list[Any] = []
        for part in out.get("allOf", ()):
            if _ways({"allOf": [*kept, part]}, 0) <= _MAX_WAYS:
                kept.append(part)
            else:
                self._later(path, "allOf", "too many combinations")
        if kept:
            out["allOf"] = kept
        else:
            out.pop("allOf", None)

    def _mask(self, path: Path, keyword: str, note: str = "") -> None:
        self.enforced.append(Keyword(pointer(path), keyword, note))

    def _later(self, path: Path, keyword: str, note: str = "") -> None:
        self.checked.append(Keyword(pointer(path), keyword, note))

    # --- one method a group of keywords: (path, node, keyword, out, extra) -----------------

    def _copy(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        out[keyword] = node[keyword]
        self._mask(path, keyword)

    def _ref(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        ref = node["$ref"]
        if ref not in self.names:
            name = self.names[ref] = f"d{len(self.names)}"
            self._defs[name] = self._lower(ref_path(ref), self.bundle.target(ref))
        # Beside other keywords llguidance takes no circular reference, inside allOf it does.
        mine = {"$ref": f"#/$defs/{self.names[ref]}"}
        if any(key in _RULES and key != "$ref" for key in node):
            extra.append(mine)
        else:
            out.update(mine)
        self._mask(path, "$ref")

    def _one(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        out[keyword] = self._lower((*path, keyword), node[keyword])
        self._mask(path, keyword)

    def _many(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        lowered = [self._lower((*path, keyword, str(i)), sub) for i, sub in enumerate(node[keyword])]
        if keyword == "allOf":
            extra += lowered
        else:
            out[keyword] = lowered
        self._mask(path, keyword)

    def _properties(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        lowered = {name: self._lower((*path, keyword, name), sub) for name, sub in node[keyword].items()}
        for name, sub in out.get(keyword, {}).items():  # from a pattern that is one name
            lowered[name] = _simplified({"allOf": [lowered[name], sub]}) if name in lowered else sub
        out[keyword] = lowered
        self._mask(path, keyword)

    def _additional(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        lowered = self._lower((*path, keyword), node[keyword])
        if keyword in out:  # a rewrite of patternProperties or propertyNames was there first
            return
        out[keyword] = lowered
        self._mask(path, keyword)

    def _items(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        items = node["items"]
        if isinstance(items, list):
            out["prefixItems"] = [self._lower((*path, "items", str(i)), sub) for i, sub in enumerate(items)]
            if "additionalItems" in node:
                out["items"] = self._lower((*path, "additionalItems"), node["additionalItems"])
                self._mask(path, "additionalItems")
        else:
            out["items"] = self._lower((*path, "items"), items)
        self._mask(path, "items")

    def _bound(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        value = node[keyword]
        if isinstance(value, bool):  # draft 4: a switch on minimum or maximum
            plain = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}.get(keyword)
            if value and plain and plain in node:
                out[keyword] = node[plain]
            self._mask(path, keyword)
            return
        large = keyword == "multipleOf" and not 1e-6 <= value <= 10_000  # its automaton has that many states
        if (large or "numbers" in self.loosening.kinds) and keyword not in out:
            self._later(path, keyword, "out of the mask's range")
            return
        if keyword not in out:
            out[keyword] = value
        self._mask(path, keyword)

    def _size(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        if "lengths" in self.loosening.kinds and node[keyword] > 64:
            self._later(path, keyword, "too long for the mask")
            return
        out[keyword] = int(node[keyword])
        self._mask(path, keyword)

    def _pattern(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        masked, note = self._mask_pattern(path, node[keyword], keyword)
        if masked is not None:
            out["pattern"] = masked
        if note is None:
            self._mask(path, keyword)
        else:
            self._later(path, keyword, note)

    def _mask_pattern(self, path: Path, pattern: str, keyword: str) -> tuple[str | None, str | None]:
        """Return (pattern for the mask, or None; why it must be checked later, or None)."""
        masked = _regex.to_mask(pattern)
        readable = _regex.to_python(pattern) is not None
        if masked is None or masked[0] in self.loosening.patterns:
            if not readable:
                raise SchemaError(
                    f"{keyword} at {pointer(path) or 'the root'} is {pattern!r:.200}, which is not a "
                    "regular expression that can be enforced or checked.",
                    pointer=pointer(path),
                    keyword=keyword,
                    remedy="Write it without the part that is out of the common syntax.",
                )
            return None, "the mask has no such expression"
        self.patterns.add(masked[0])
        return masked[0], None if masked[1] else "look-around and word boundaries"

    def _format(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        name = node["format"]
        if name not in _formats.CHECKS:
            return
        if name in _formats.MASKED and "formats" not in self.loosening.kinds:
            out["format"] = name
            self._mask(path, "format", name)
            if name in ("date", "date-time"):
                self._later(path, "format", f"{name}: that the day exists")
        else:
            self._later(path, "format", name)

    def _enum(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        out["enum"] = [node["const"]] if keyword == "const" else list(node["enum"])
        if keyword == "enum" and "const" in node:
            out["enum"] = [item for item in node["enum"] if _same(item, node["const"])]
        self._mask(path, keyword)

    def _one_of(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        branches = node["oneOf"]
        lowered = [self._lower((*path, "oneOf", str(i)), sub) for i, sub in enumerate(branches)]
        surrounding = {key: node[key] for key in ("type", "properties", "required") if key in node}
        if disjoint(branches, self.bundle, surrounding):
            extra.append({"anyOf": lowered})
            self._mask(path, "oneOf", "branches that exclude each other")
            return
        exclusive = self._exclusive(path, branches)
        if exclusive is not None:
            extra.append({"anyOf": exclusive})
            self._mask(path, "oneOf")
            return
        extra.append({"anyOf": lowered})
        self._later(path, "oneOf", "that not two branches hold at once")

    def _exclusive(self, path: Path, branches: list[Any]) -> list[Any] | None:
        """Return "this one and none of the others" for each branch, or None where that cannot be said."""
        if not 1 < len(branches) <= 4 or "negation" in self.loosening.kinds:
            return None
        try:
            inverse = [negate(sub, self.bundle) for sub in branches]
        except InexactError:
            return None
        return [
            self._quiet(
                (*path, "oneOf"), {"allOf": [sub, *(inverse[j] for j in range(len(branches)) if j != i)]}
            )
            for i, sub in enumerate(branches)
        ]

    def _quiet(self, path: Path, node: Any) -> Any:
        """Lower a schema that we wrote ourselves: its keywords are not the user's."""
        enforced, checked = len(self.enforced), len(self.checked)
        result = self._lower(path, node)
        del self.enforced[enforced:]
        unsure = self.checked[checked:]
        del self.checked[checked:]
        self.checked += [keyword for keyword in unsure if keyword not in self.checked]
        return result

    def _not(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        self._rewritten(path, "not", extra, lambda: negate(node["not"], self.bundle))

    def _if(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        if "then" not in node and "else" not in node:
            return
        condition, then, other = node["if"], node.get("then", True), node.get("else", True)

        def rewrite() -> Any:
            no = negate(condition, self.bundle)
            return {"anyOf": [{"allOf": [condition, then]}, {"allOf": [no, other]}]}

        self._rewritten(path, "if", extra, rewrite)

    def _dependencies(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        for name, needs in node[keyword].items():
            then = {"required": needs} if isinstance(needs, list) else needs
            without = {"properties": {name: False}}
            present = {"allOf": [{"required": [name]}, then]}
            either = {"anyOf": [without, present]}
            self._rewritten((*path, keyword, name), keyword, extra, functools.partial(dict, either))

    def _rewritten(self, path: Path, keyword: str, extra: Any, rewrite: Callable[[], Any]) -> None:
        if "negation" in self.loosening.kinds or self._depth > 6:
            self._later(path, keyword)
            return
        self._depth += 1
        try:
            extra.append(self._quiet(path, rewrite()))
        except InexactError:
            self._later(path, keyword)
        else:
            self._mask(path, keyword, "rewritten")
        finally:
            self._depth -= 1

    def _counts(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        if keyword == "minProperties" and node[keyword] <= len(set(node.get("required", ()))):
            self._mask(path, keyword)
            return
        props = node.get("properties", {})
        optional = [name for name in props if name not in node.get("required", ())]
        if "counts" in self.loosening.kinds:
            self._later(path, keyword)
        elif not optional:
            out[keyword] = int(node[keyword])
            self._mask(path, keyword)
        elif keyword == "minProperties" and node[keyword] == 1 and _closed(node) and len(optional) <= 32:
            extra.append({"anyOf": [{"required": [name]} for name in optional]})
            self._mask(path, keyword, "rewritten")
        else:
            self._later(path, keyword)

    def _pattern_properties(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        lowered: dict[str, Any] = {}
        loose = []
        for pattern, sub in node[keyword].items():
            masked, note = self._mask_pattern((*path, keyword, pattern), pattern, keyword)
            schema = self._lower((*path, keyword, pattern), sub)
            one = _LITERAL_KEY.fullmatch(pattern)
            if one:
                out.setdefault("properties", {})[one.group(1)] = schema
                continue
            if note is None and masked is not None and "patternProperties" not in self.loosening.kinds:
                lowered[masked] = schema
            else:
                loose.append(pattern)
        if loose:  # which keys these are cannot be told: leave every undeclared key open
            self._later(path, keyword, f"keys like {loose[0]!r:.60}")
            out["additionalProperties"] = True
        elif "overlap" in self.loosening.kinds and len(lowered) > 1:
            together = "|".join(f"(?:{pattern})" for pattern in lowered)
            out[keyword] = {together: {"anyOf": list(lowered.values())}}
            self._later(path, keyword, "keys that several patterns fit")
        else:
            if lowered:
                out[keyword] = lowered
            self._mask(path, keyword)

    def _property_names(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        names = node[keyword]
        simple = isinstance(names, dict) and "patternProperties" not in node
        keys = set(names) - {"type", "title", "description", "$comment"} if isinstance(names, dict) else set()
        pattern = None
        if simple and keys == {"pattern"} and "properties" not in node:
            pattern = names["pattern"]
        elif simple and keys == {"enum"} and "properties" not in node:
            pattern = "^(?:" + "|".join(_regex.literal(n) for n in names["enum"] if isinstance(n, str)) + ")$"
        masked = self._mask_pattern(path, pattern, keyword) if pattern is not None else (None, "")
        if names is True:
            return
        if masked[0] is None or masked[1] is not None or "overlap" in self.loosening.kinds:
            self._later(path, keyword)
            return
        rest = node.get("additionalProperties", True)
        out["patternProperties"] = {masked[0]: self._quiet(path, rest)}
        out["additionalProperties"] = False
        self._mask(path, keyword, "rewritten")

    def _check_later(self, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
        trivial = {
            "uniqueItems": False,
            "contains": None,
            "unevaluatedProperties": True,
            "unevaluatedItems": True,
        }
        if keyword in trivial and node[keyword] is trivial[keyword]:
            return
        self._later(path, keyword)


def _ways(node: Any, depth: int) -> int:
    """Count the branches that a schema has when its unions are multiplied out."""
    if not isinstance(node, dict) or depth > 10:
        return 1
    ways = max(1, sum(_ways(sub, depth + 1) for sub in node.get("anyOf", ())))
    for sub in node.get("allOf", ()):
        ways = min(ways * _ways(sub, depth + 1), 10**9)
    return ways


def _simplified(out: dict[str, Any]) -> Any:
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


_LITERAL_KEY = re.compile(r"\^([A-Za-z0-9_ -]+)\$")


def _late(keyword: str) -> int:
    """Order: patterns of keys first, other keys last; each looks at what came before."""
    return {"patternProperties": 0, "additionalProperties": 2}.get(keyword, 1)


def _same(left: Any, right: Any) -> bool:
    return (type(left) is type(right) and left == right) or json.dumps(left) == json.dumps(right)


def _closed(node: Any) -> bool:
    return node.get("additionalProperties") is False and not node.get("patternProperties")


Rule = Callable[[Lowered, Path, Any, str, Any, Any], None]
_RULES: dict[str, Rule] = {}


def _check(path: Path, node: Any) -> None:
    for keyword, value in node.items():
        expected = _SHAPES.get(keyword)
        if expected is not None and not expected[0](value):
            raise SchemaError(
                f"{keyword} at {pointer(path) or 'the root'} is {value!r:.100}; expected {expected[1]}.",
                pointer=pointer(path),
                keyword=keyword,
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value - value == 0


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, (dict, bool)) for item in value)


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, (dict, bool)) for item in value.values())


_MAX_PROPERTIES = 2_000  # llguidance takes 0.4 s for so many, growing with the square
_COUNT = (_is_count, "a whole number from 0")
_NUMBER = (_is_number, "a number")
_BOUND = (lambda value: isinstance(value, bool) or _is_number(value), "a number")
_SCHEMA = (lambda value: isinstance(value, (dict, bool)), "a schema (an object, true or false)")
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
    "multipleOf": (lambda v: _is_number(v) and v > 0, "a number above 0"),
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
        (
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "minContains",
            "maxContains",
        ),
        _COUNT,
    ),
    **dict.fromkeys(
        ("allOf", "anyOf", "oneOf", "prefixItems"), (_is_schemas, "a list of schemas, not empty")
    ),
    **dict.fromkeys(NAMED, (_is_named, "an object whose values are schemas")),
    "properties": (
        lambda v: _is_named(v) and len(v) <= _MAX_PROPERTIES,
        "an object whose values are schemas, 2,000 at most",
    ),
    **dict.fromkeys(
        (
            "not",
            "if",
            "then",
            "else",
            "contains",
            "propertyNames",
            "additionalProperties",
            "additionalItems",
            "unevaluatedItems",
            "unevaluatedProperties",
        ),
        _SCHEMA,
    ),
}

_RULES.update(
    {
        "$ref": Lowered._ref,
        "type": Lowered._copy,
        "enum": Lowered._enum,
        "const": Lowered._enum,
        "properties": Lowered._properties,
        "patternProperties": Lowered._pattern_properties,
        "additionalProperties": Lowered._additional,
        "required": Lowered._copy,
        "items": Lowered._items,
        "prefixItems": Lowered._many,
        "allOf": Lowered._many,
        "anyOf": Lowered._many,
        "oneOf": Lowered._one_of,
        "not": Lowered._not,
        "if": Lowered._if,
        "dependencies": Lowered._dependencies,
        "dependentRequired": Lowered._dependencies,
        "dependentSchemas": Lowered._dependencies,
        "minProperties": Lowered._counts,
        "maxProperties": Lowered._counts,
        "propertyNames": Lowered._property_names,
        "pattern": Lowered._pattern,
        "format": Lowered._format,
        **dict.fromkeys(
            ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), Lowered._bound
        ),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), Lowered._size),
        **dict.fromkeys(
            (
                "uniqueItems",
                "contains",
                "minContains",
                "maxContains",
                "unevaluatedProperties",
                "unevaluatedItems",
            ),
            Lowered._check_later,
        ),
    }
)
