"""Lark rules for objects: a rule's parameter is the set of keys that were written, as bits."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from llama_magic.structured.grammar.lark_writer import RuleWriter
from llama_magic.structured.schema.regex import literal
from llama_magic.structured.schema.values import same_value

MAX_KEYS = 60  # a rule's parameter has 64 bits
_MAX_BRANCHES = 24
OBJECT = frozenset(("type", "properties", "required", "additionalProperties", "allOf", "anyOf"))
_CHARS = r'(?:\\(?:["\\bfnrt]|u[0-9a-fA-F]{4})|[^"\\\x00-\x1f\x7f])'


class _Conditions(NamedTuple):
    """(step, condition) of each key, the condition of the end, whether the object may be empty."""

    pairs: list[tuple[str, str]]
    end: str
    may_be_empty: bool


class _Member(NamedTuple):
    """A key and its value in a rule: the pair, what follows it, and what follows it where it is the first."""

    pair: str
    then: str
    start: str


class PlainShape:
    """A plain object: properties (False: forbidden), required names, the schema of other keys."""

    def __init__(self, properties: dict[str, Any], required: frozenset[str], rest: Any) -> None:
        self.properties = properties
        self.required = required
        self.rest = rest

    @classmethod
    def of(cls, node: Any) -> PlainShape | None:
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

    def merge(self, other: PlainShape | None) -> PlainShape | None:
        """Return the object that both describe, None if there is none."""
        if other is None:
            return None
        names = [*self.properties, *(name for name in other.properties if name not in self.properties)]
        properties = {
            name: _both(self.properties.get(name, self.rest), other.properties.get(name, other.rest))
            for name in names
        }
        shape = PlainShape(properties, self.required | other.required, _both(self.rest, other.rest))
        return shape if shape.possible else None


def _both(left: Any, right: Any) -> Any:
    if left is False or right is False:
        return False
    if left in (True, {}) or left == right:
        return right
    if right in (True, {}):
        return left
    if "enum" in left and set(left) | set(right) <= {"enum", "type"} and "enum" in right:
        values = [value for value in left["enum"] if any(same_value(value, other) for other in right["enum"])]
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


def shapes_of(node: Any, defs: dict[str, Any]) -> list[PlainShape] | None:
    """Return the plain objects whose union a schema is, None where it is no such union."""
    base = PlainShape.of(node)
    shapes = [base] if base else None
    for sub in [*node.get("allOf", ()), *([{"anyOf": node["anyOf"]}] if "anyOf" in node else ())]:
        options = _options_of(sub, defs)
        if shapes is None or options is None or len(shapes) * len(options) > _MAX_BRANCHES:
            return None
        merged = [mine.merge(other) for mine in shapes for other in options]
        shapes = [shape for shape in merged if shape is not None]
    return shapes


def _options_of(node: Any, defs: dict[str, Any], depth: int = 0) -> list[PlainShape] | None:
    if not isinstance(node, dict) or depth > 8:
        return None
    if set(node) == {"$ref"}:
        return _options_of(defs.get(node["$ref"].rsplit("/", 1)[-1]), defs, depth + 1)
    if set(node) == {"anyOf"}:
        found: list[PlainShape] = []
        for sub in node["anyOf"]:
            options = _options_of(sub, defs, depth + 1)
            if options is None:
                return None
            found += options
        return found
    return shapes_of(node, defs) if set(node) <= OBJECT and node.get("type", "object") == "object" else None


def object_rule(writer: RuleWriter, shape: PlainShape, *, any_order: bool) -> str:
    """Write the rule of a plain object; return its name."""
    names = list(shape.properties)
    required = [name for name in names if name in shape.required]
    if not any_order:
        return _members(writer, shape, names, _in_order(names, set(required)), any_order)
    names = required + [name for name in names if name not in shape.required]
    return _members(writer, shape, names, _in_any_order(names, len(required)), any_order)


def _in_order(names: list[str], required: set[str]) -> _Conditions:
    """A key may come when no later one was written, and the last required one before it was."""
    pairs: list[tuple[str, str]] = []
    before = "true"
    for index, name in enumerate(names):
        later = f"is_zeros([{index}:{len(names)}])"
        pairs.append((f"set_bit({index})", f"%if and({later}, {before})"))
        before = f"bit_set({index})" if name in required else before
    return _Conditions(pairs, f"%if {before}", before == "true")


def _in_any_order(names: list[str], required: int) -> _Conditions:
    """A key may come once; the required ones are the low bits."""
    pairs = [(f"set_bit({index})", f"%if bit_clear({index})") for index in range(len(names))]
    return _Conditions(pairs, f"%if is_ones([0:{required}])" if required else "", required == 0)


def _members(
    writer: RuleWriter, shape: PlainShape, names: list[str], when: _Conditions, any_order: bool
) -> str:
    rest = writer.later_rule()
    written: list[_Member] = []
    for index, (name, (step, condition)) in enumerate(zip(names, when.pairs, strict=True)):
        if shape.properties[name] is False:
            continue
        pair = f"{_key(name)} {writer.colon} {writer.emit(shape.properties[name])}"
        written.append(_Member(pair, f"{rest}::{step} {condition}", f"{rest}::{1 << index}"))
    if shape.rest is not False:
        terminal = f"K{rest[1:]}"
        writer.terminal(terminal, _other_key(shape))
        pair = f"{terminal} {writer.colon} {writer.emit(shape.rest)}"
        written.append(_Member(pair, f"{rest}::_ {'' if any_order else when.end}", f"{rest}::0"))
    lines = [f"{writer.comma} {member.pair} {member.then}" for member in written]
    writer.write_later(rest, [f'{writer.blank} "}}" {when.end}', *lines], head=f"{rest}::_ ")
    startable = written if any_order else _startable(written, names, shape)
    first = [f"{member.pair} {member.start}" for member in startable]
    body = [f'"{{" {writer.blank} "}}"'] if when.may_be_empty else []
    if first:
        body.append(f'"{{" {writer.blank} (' + " | ".join(first) + ")")
    return writer.rule(*body)


def _startable(written: list[_Member], names: list[str], shape: PlainShape) -> list[_Member]:
    """Return the members that may come first where keys have an order: up to the first required one."""
    required = [index for index, name in enumerate(names) if name in shape.required]
    last = required[0] if required else len(written)
    kept = [index for index, name in enumerate(names) if shape.properties[name] is not False]
    extra = written[len(kept) :] if not required else []
    return [entry for index, entry in zip(kept, written, strict=False) if index <= last] + extra


def _other_key(shape: PlainShape) -> str:
    """Return the terminal of a key that is none of the declared ones."""
    known = "|".join(literal(json.dumps(name, ensure_ascii=False)[1:-1]) for name in shape.properties)
    return f'/"{_CHARS}*"/' + (f' & ~/"(?:{known.replace("/", chr(92) + "/")})"/' if known else "")
