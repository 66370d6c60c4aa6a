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
from llama_magic.structured.grammar.lark_objects import MAX_KEYS, OBJECT, object_rule, shapes_of
from llama_magic.structured.lower.marks import RULE, loses, says, without_rules
from llama_magic.structured.schema.bundle import Bundle
from llama_magic.structured.schema.negate import TYPES, type_list
from llama_magic.structured.schema.regex import literal
from llama_magic.structured.schema.tree import walk

_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_RULED = frozenset((RULE, "type", "items", "minItems", "maxItems", *_BOUNDS))  # what a rule says as a whole
_MORE = frozenset(("allOf", "anyOf", "enum", "$ref", "multipleOf"))  # what a number must be besides
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
        self._same: dict[tuple[str, ...], str] = {}
        self._refs: dict[str, str] = {}
        self._leaves: dict[str, str] = {}
        self.lost = False
        blank = options.get("whitespace_pattern", "").replace("/", r"\/")
        # A blank where one may stand, and what stands between items, and between key and value.
        self.blank, self.comma, self.colon = (
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

    def once(self, *lines: str) -> str:
        """Return the rule that says this, which may have been written before."""
        if lines not in self._same:
            self._same[lines] = self.rule(*lines)
        return self._same[lines]

    def terminal(self, name: str, text: str) -> None:
        self._rules.append(f"{name}: {text}")

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
            if RULE in node and (rule := self._rule_of(node)):
                return rule
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
            plain = node.get("type") == "object" and keys <= OBJECT
            shapes = shapes_of(node, self._defs) if plain else None
            if shapes and all(len(shape.properties) <= MAX_KEYS for shape in shapes):
                return self.rule(*(object_rule(self, shape, any_order=self._any_order) for shape in shapes))
        return self.leaf(node)

    def _rule_of(self, node: dict[str, Any]) -> str | None:
        """Write what stands in our own words, and values of other types; None where a schema says more."""
        rule = node[RULE]
        if "regex" in rule and _MORE.isdisjoint(node):
            kinds = [kind for kind in type_list(node.get("type", TYPES)) if kind not in ("integer", "number")]
            others = {key: value for key, value in node.items() if key not in (RULE, *_BOUNDS)}
            return self.once(f"/{rule['regex']}/", *([self.emit({**others, "type": kinds})] if kinds else []))
        if not set(node) <= _RULED:
            return None
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
            self.lost = self.lost or loses(whole)
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


def _whole(value: Any) -> bool:
    return isinstance(value, float) and value == int(value) and 0 < abs(value) < 1e15
