"""Write a lowered schema as a Lark grammar, for what llguidance's schema compiler does not do.

Two things: keys spelled with `\\uXXXX`, and objects whose keys may come in any order. For the
latter a rule carries the set of keys that were written as bits, so that every required key
comes and none comes twice (llguidance `docs/parametric.md`). All other parts of the schema
stay `%json`.
"""

from __future__ import annotations

import json
import math
from typing import Any

from llama_magic.structured.grammar.lark_arrays import array_rule
from llama_magic.structured.lower.marks import RULE, says, without_rules
from llama_magic.structured.schema.bundle import Bundle, walk
from llama_magic.structured.schema.regex import literal
from llama_magic.structured.schema.schemas import same

_MAX_KEYS = 60  # a rule's parameter has 64 bits
_MAX_BRANCHES = 24
_OBJECT = frozenset(("type", "properties", "required", "additionalProperties", "allOf", "anyOf"))
_CONDITIONAL = frozenset(("if", "then", "else", "not"))
_SORTED_BY_CHANCE = 100  # one in so many


def sorted_by_a_tool(bundle: Bundle) -> bool:
    """Say whether the keys of all objects stand in alphabetical order, and not by chance.

    Then the order is a tool's and says nothing: the schema declares none.
    """
    orders = 1
    for path, node in walk(bundle.root):
        if not _CONDITIONAL.isdisjoint(path):
            continue  # sorting tools often stop at these
        names = list(node.get("properties", ())) if isinstance(node, dict) else []
        if names != sorted(names):
            return False
        orders = min(orders * math.factorial(min(len(names), 20)), 10**9)
    return orders >= _SORTED_BY_CHANCE


def escaped_names(schema: Any) -> bool:
    """Say whether some property name may be spelled with an escape."""
    return any(
        isinstance(node, dict) and any(not name.isascii() for name in node.get("properties", ()))
        for _, node in walk(schema)
    )


class LarkWriter:
    """Writes the grammar; `text` is the result.

    `options` is the `x-guidance` of every `%json` part: its blanks and separators hold here, too.
    `lost` says that a rule about items stood where only `%json` could be written, without it.
    """

    def __init__(self, schema: Any, any_order: bool, options: dict[str, Any]) -> None:
        self._defs = schema.get("$defs", {})
        self._any_order = any_order
        self._options = options
        self._rules: list[str] = []
        self._refs: dict[str, str] = {}
        self._leaves: dict[str, str] = {}
        self.lost = False
        blank = options.get("whitespace_pattern", "").replace("/", r"\/")
        # A blank where one may stand, and what stands between items, and between key and value.
        self.blank, self.comma, self._colon = (
            ("w", 'w "," w', 'w ":" w')
            if blank
            else ("", json.dumps(options["item_separator"]), json.dumps(options["key_separator"]))
        )
        head = [f"start: {self.emit(schema)}", *([f"w: /{blank}/?"] if blank else [])]
        self.text = "\n".join(head + self._rules)

    def rule(self, *lines: str) -> str:
        name = f"x{len(self._rules)}"
        self._rules.append(f"{name}: " + "\n   | ".join(lines))
        return name

    def later_rule(self) -> str:
        """Return the name of a rule that others refer to before `write_later` writes it."""
        name = f"m{len(self._rules)}"
        self._rules.append("")
        return name

    def write_later(self, name: str, lines: list[str], head: str = "") -> None:
        self._rules[int(name[1:])] = f"{head or name}: " + "\n   | ".join(lines)

    def emit(self, node: Any) -> str:
        """Return the name of a rule for a schema."""
        if isinstance(node, dict):
            node = {key: value for key, value in node.items() if key != "$defs"}
            keys = set(node)
            if RULE in node and keys <= {"type", "items", "minItems", "maxItems", RULE}:
                return self._rule_of(node[RULE])
            if keys == {"$ref"}:
                return self._ref(node["$ref"])
            if keys == {"allOf"} and len(node["allOf"]) == 1:
                return self.emit(node["allOf"][0])
            if keys == {"anyOf"}:
                return self.rule(*(self.emit(sub) for sub in node["anyOf"]))
            if (
                keys <= {"type", "items", "minItems", "maxItems"}
                and node.get("type") == "array"
                and "items" in node
            ):
                return self._array(node)
            if keys <= {"enum", "type"} and any(_whole(value) for value in node.get("enum", ())):
                return self._whole_numbers(node)
            if "properties" in node and keys <= {"properties", "required", "additionalProperties"}:
                others = {"type": ["null", "boolean", "number", "string", "array"]}
                return self.rule(self.emit({**node, "type": "object"}), self.leaf(others))
            shapes = self._shapes(node) if node.get("type") == "object" and keys <= _OBJECT else None
            if shapes and all(len(shape.properties) <= _MAX_KEYS for shape in shapes):
                return self.rule(*(self._object(shape) for shape in shapes))
        return self.leaf(node)

    def _rule_of(self, rule: dict[str, Any]) -> str:
        if "numbers" in rule:
            return self.rule(*(f"/{literal(json.dumps(number))}/" for number in rule["numbers"]))
        return array_rule(self, rule)

    def _ref(self, ref: str) -> str:
        name = ref.rsplit("/", 1)[-1]
        if name not in self._refs:
            self._refs[name] = f"d_{name}"
            self._rules.append(f"d_{name}: {self.emit(self._defs[name])}")
        return self._refs[name]

    def leaf(self, node: Any) -> str:
        node = {} if node is True else {"type": []} if node is False else node
        needed = self._needed(node)
        whole = {**node, "$defs": needed}
        if says(whole, RULE):
            self.lost = True
            whole = without_rules(whole)
        text = json.dumps({**whole, "x-guidance": self._options})
        if text not in self._leaves:
            self._leaves[text] = self.rule(f"%json {text}")
        return self._leaves[text]

    def _needed(self, node: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        stack = [node]
        while stack:
            value = stack.pop()
            if isinstance(value, dict):
                ref = value.get("$ref")
                name = ref.rsplit("/", 1)[-1] if isinstance(ref, str) else ""
                if name in self._defs and name not in found:
                    found[name] = self._defs[name]
                    stack.append(found[name])
                stack += value.values()
            elif isinstance(value, list):
                stack += value
        return found

    def _whole_numbers(self, node: Any) -> str:
        """A constant such as 2.0 may be written 2 or 2.0; llguidance knows the first only."""
        whole = [f"/{int(value)}(?:\\.0+)?/" for value in node["enum"] if _whole(value)]
        return self.rule(*whole, self.leaf(node))

    def _array(self, node: Any) -> str:
        low, high = node.get("minItems", 0), node.get("maxItems")
        if high == 0 or node["items"] is False:
            return self.leaf(node)
        item, w = self.emit(node["items"]), self.blank
        more = f"({self.comma} {item}){{{max(low - 1, 0)},{'' if high is None else high - 1}}}"
        lines = [f'"[" {w} {item} {more} {w} "]"'] + ([f'"[" {w} "]"'] if low == 0 else [])
        return self.rule(*lines)

    # --- objects: the parameter of a rule is the set of keys that were written ---

    def _shapes(self, node: Any) -> list[_Shape] | None:
        """Return the plain objects whose union a schema is, None where it is no such union."""
        base = _Shape.of(node)
        shapes = [base] if base else None
        for sub in [*node.get("allOf", ()), *([{"anyOf": node["anyOf"]}] if "anyOf" in node else ())]:
            options = self._options_of(sub)
            if shapes is None or options is None or len(shapes) * len(options) > _MAX_BRANCHES:
                return None
            merged = [mine.merge(other) for mine in shapes for other in options]
            shapes = [shape for shape in merged if shape is not None]
        return shapes

    def _options_of(self, node: Any, depth: int = 0) -> list[_Shape] | None:
        if not isinstance(node, dict) or depth > 8:
            return None
        if set(node) == {"$ref"}:
            return self._options_of(self._defs.get(node["$ref"].rsplit("/", 1)[-1]), depth + 1)
        if set(node) == {"anyOf"}:
            found: list[_Shape] = []
            for sub in node["anyOf"]:
                options = self._options_of(sub, depth + 1)
                if options is None:
                    return None
                found += options
            return found
        return self._shapes(node) if set(node) <= _OBJECT and node.get("type", "object") == "object" else None

    def _object(self, shape: _Shape) -> str:
        names = list(shape.properties)
        required = [name for name in names if name in shape.required]
        if not self._any_order:
            return self._members(shape, names, self._in_order(names, set(required)))
        names = required + [name for name in names if name not in shape.required]
        return self._members(shape, names, self._in_any_order(names, len(required)))

    def _in_order(self, names: list[str], required: set[str]) -> _Conditions:
        """A key may come when no later one was written, and the last required one before it was."""
        pairs: list[tuple[str, str]] = []
        before = "true"
        for index, name in enumerate(names):
            later = f"is_zeros([{index}:{len(names)}])"
            pairs.append((f"set_bit({index})", f"%if and({later}, {before})"))
            before = f"bit_set({index})" if name in required else before
        return pairs, f"%if {before}", before == "true"

    def _in_any_order(self, names: list[str], required: int) -> _Conditions:
        """A key may come once; the required ones are the low bits."""
        pairs = [(f"set_bit({index})", f"%if bit_clear({index})") for index in range(len(names))]
        return pairs, f"%if is_ones([0:{required}])" if required else "", required == 0

    def _members(self, shape: _Shape, names: list[str], conditions: _Conditions) -> str:
        pairs, end, may_be_empty = conditions
        rest = self.later_rule()
        written: list[tuple[str, str, str]] = []
        for index, (name, (step, condition)) in enumerate(zip(names, pairs, strict=True)):
            if shape.properties[name] is False:
                continue
            pair = f"{_key(name)} {self._colon} {self.emit(shape.properties[name])}"
            written.append((pair, f"{rest}::{step} {condition}", f"{rest}::{1 << index}"))
        if shape.rest is not False:
            known = "|".join(literal(json.dumps(name, ensure_ascii=False)[1:-1]) for name in shape.properties)
            key = f'/"{_CHARS}*"/' + (f' & ~/"(?:{known.replace("/", chr(92) + "/")})"/' if known else "")
            terminal = f"K{rest[1:]}"
            self._rules.append(f"{terminal}: {key}")
            pair = f"{terminal} {self._colon} {self.emit(shape.rest)}"
            written.append((pair, f"{rest}::_ {'' if self._any_order else end}", f"{rest}::0"))
        lines = [f"{self.comma} {pair} {then}" for pair, then, _ in written]
        self.write_later(rest, [f'{self.blank} "}}" {end}', *lines], head=f"{rest}::_ ")
        first = [f"{pair} {start}" for pair, _, start in self._startable(written, names, pairs, shape)]
        body = [f'"{{" {self.blank} "}}"'] if may_be_empty else []
        if first:
            body.append(f'"{{" {self.blank} (' + " | ".join(first) + ")")
        return self.rule(*body)

    def _startable(self, written: Any, names: list[str], pairs: Any, shape: _Shape) -> Any:
        if self._any_order:
            return written
        required = [index for index, name in enumerate(names) if name in shape.required]
        last = required[0] if required else len(written)
        kept = [index for index, name in enumerate(names) if shape.properties[name] is not False]
        extra = written[len(kept) :] if not required else []
        return [entry for index, entry in zip(kept, written, strict=False) if index <= last] + extra


def _whole(value: Any) -> bool:
    return isinstance(value, float) and value == int(value) and 0 < abs(value) < 1e15


_Conditions = tuple[list[tuple[str, str]], str, bool]  # (step, condition) of each key, end, may be empty
_CHARS = r'(?:\\(?:["\\bfnrt]|u[0-9a-fA-F]{4})|[^"\\\x00-\x1f\x7f])'


class _Shape:
    """A plain object: properties (False: forbidden), required names, the schema of other keys."""

    def __init__(self, properties: dict[str, Any], required: frozenset[str], rest: Any) -> None:
        self.properties = properties
        self.required = required
        self.rest = rest

    @classmethod
    def of(cls, node: Any) -> _Shape | None:
        rest = node.get("additionalProperties", True)
        properties = dict(node.get("properties", {}))
        required = frozenset(node.get("required", ()))
        for name in node.get("required", ()):
            properties.setdefault(name, rest)
        shape = cls(properties, required, rest)
        return shape if shape.possible else None

    @property
    def possible(self) -> bool:
        return all(self.properties[name] is not False for name in self.required)

    def merge(self, other: _Shape | None) -> _Shape | None:
        """Return the object that both describe, None if there is none."""
        if other is None:
            return None
        names = [*self.properties, *(name for name in other.properties if name not in self.properties)]
        properties = {
            name: _both(self.properties.get(name, self.rest), other.properties.get(name, other.rest))
            for name in names
        }
        shape = _Shape(properties, self.required | other.required, _both(self.rest, other.rest))
        return shape if shape.possible else None


def _both(left: Any, right: Any) -> Any:
    if left is False or right is False:
        return False
    if left in (True, {}) or left == right:
        return right
    if right in (True, {}):
        return left
    if "enum" in left and set(left) | set(right) <= {"enum", "type"} and "enum" in right:
        values = [value for value in left["enum"] if any(same(value, other) for other in right["enum"])]
        return {**left, "enum": values} if values else False
    return {"allOf": [left, right]}


def _key(name: str) -> str:
    """Return the terminal of a key, each character outside ASCII also as an escape."""
    parts = ['"']
    for char in json.dumps(name, ensure_ascii=False)[1:-1]:
        if char.isascii():
            parts.append(literal(char))
        else:
            units = char.encode("utf-16-be")
            codes = [units[i : i + 2].hex() for i in range(0, len(units), 2)]
            spelled = "".join(
                r"\\u" + "".join(f"[{d}{d.upper()}]" if d.isalpha() else d for d in code) for code in codes
            )
            parts.append(f"(?:{char}|{spelled})")
    return "/" + "".join(parts).replace("/", r"\/") + '"/'
