"""Seeded hostile inputs: schemas, regexes, GBNF and Lark grammars that ask for too much, or are nonsense."""

from __future__ import annotations

import random
from typing import Any

_BIG = [0, 1, 2, 7, 400, 65_536, 10**6, 10**9, 10**30]
_ATOMS = [
    "a",
    "[ab]",
    ".",
    r"\d",
    r"[^\s\S]",
    "(?:x|yz)",
    r"\w",
    "é",
    "$",
    "^",
    r"\b",
    "(?=a)",
    "[",
    ")",
    r"\1",
]
_WORDS = ["", "a", "é", "\x00", "\ud83d", "x" * 300, "$ref", "a/b~c", "\\"]


def _regex(chance: random.Random, depth: int = 5) -> str:
    text = "".join(
        chance.choice(_ATOMS[:9] if chance.random() < 0.9 else _ATOMS) for _ in range(chance.randint(1, 4))
    )
    for _ in range(chance.randint(0, depth)):
        mark = chance.choice(
            [
                "*",
                "+",
                "?",
                f"{{{chance.choice(_BIG)}}}",
                f"{{0,{chance.choice(_BIG)}}}",
                f"|{text}",
                text * 2,
            ]
        )
        text = f"({text}){mark}"
    return text


def _value(chance: random.Random) -> Any:
    return chance.choice([None, True, 0, 1.5, -(10**40), 1e308, "", *_WORDS[:4], [], {}, [[[]]], {"a": None}])


def _schema(chance: random.Random, depth: int, names: list[str]) -> Any:
    if depth <= 0 or chance.random() < 0.1:
        return chance.choice(
            [True, False, {}, {"type": "string"}, {"$ref": f"#/$defs/{chance.choice(names)}"}]
        )
    node: dict[str, Any] = {}
    for _ in range(chance.randint(1, 3)):
        node |= chance.choice(_KEYWORDS)(chance, depth - 1, names)
    return node


def _many(chance: random.Random, depth: int, names: list[str]) -> list[Any]:
    if chance.random() < 0.3:
        return [{"$ref": f"#/$defs/{chance.choice(names)}"}] * chance.choice([2, 10, 40])
    return [_schema(chance, depth, names) for _ in range(chance.randint(0, 4))]


_KEYWORDS: list[Any] = [
    lambda c, d, n: {c.choice(["allOf", "anyOf", "oneOf", "prefixItems"]): _many(c, d, n)},
    lambda c, d, n: {c.choice(["allOf", "anyOf", "oneOf"]): _many(c, d, n)},
    lambda c, d, n: {c.choice(["not", "if", "then", "else", "contains", "items"]): _schema(c, d, n)},
    lambda c, d, n: {"additionalProperties": _schema(c, d, n)},
    lambda c, d, n: {"properties": {c.choice(_WORDS): _schema(c, d, n) for _ in range(c.choice([1, 2, 60]))}},
    lambda c, d, n: {"patternProperties": {_regex(c, 2): _schema(c, d, n) for _ in range(c.choice([1, 8]))}},
    lambda c, d, n: {"propertyNames": {"pattern": _regex(c, 2)}},
    lambda c, d, n: {"required": c.sample(_WORDS, 3)},
    lambda c, d, n: {"dependentRequired": {c.choice(_WORDS): c.sample(_WORDS, 2)}},
    lambda c, d, n: {c.choice(["minLength", "maxLength", "minItems", "maxItems"]): c.choice(_BIG)},
    lambda c, d, n: {c.choice(["minProperties", "maxProperties", "minContains"]): c.choice(_BIG)},
    lambda c, d, n: {c.choice(["minimum", "maximum", "exclusiveMinimum"]): c.choice([-1, 0.1, *_BIG])},
    lambda c, d, n: {"multipleOf": c.choice([0.1, 1e-300, 997, 9973, 0.000007, 10**30])},
    lambda c, d, n: {"pattern": _regex(c)},
    lambda c, d, n: {"format": c.choice(["date", "uri", "email", "nonsense"])},
    lambda c, d, n: {"enum": [_value(c) for _ in range(c.choice([0, 1, 5, 3000]))]},
    lambda c, d, n: {"const": _value(c)},
    lambda c, d, n: {
        "type": c.choice(["object", "array", "string", "integer", "null", ["string", "object"]])
    },
    lambda c, d, n: {c.choice(["type", "enum", "pattern", "items", "required"]): _value(c)},  # wrong types
]


def schema(chance: random.Random) -> Any:
    """Return a schema whose definitions lead to one another, sometimes through many references."""
    names = [f"d{i}" for i in range(chance.choice([2, 5, 12]))]
    made = _schema(chance, chance.randint(1, 5), names)
    if not isinstance(made, dict):
        return made
    return {**made, "$defs": {name: _schema(chance, 3, names) for name in names}}


def bomb(chance: random.Random) -> Any:
    """Return a small schema that is huge when its references are followed."""
    deep, wide = chance.choice([(10, 10), (40, 2), (5, 30), (300, 1)])
    keyword = chance.choice(["allOf", "anyOf", "oneOf", "properties", "prefixItems", "not"])
    defs: dict[str, Any] = {
        f"d{deep}": _schema(chance, 1, [f"d{deep + 1}"]),
        f"d{deep + 1}": {"type": "null"},
    }
    for level in range(deep):
        refs = [{"$ref": f"#/$defs/d{level + 1}"}] * wide
        value = {f"p{i}": ref for i, ref in enumerate(refs)} if keyword == "properties" else refs
        defs[f"d{level}"] = {keyword: refs[0] if keyword == "not" else value}
        if chance.random() < 0.3:
            defs[f"d{level}"] |= chance.choice(_KEYWORDS)(chance, 0, [f"d{level + 1}"])
    return {"$ref": "#/$defs/d0", "$defs": defs}


def regex(chance: random.Random) -> str:
    """Return a regular expression, often a broken or an absurd one."""
    return _regex(chance, 8)


def _rules(chance: random.Random, sign: str, root: str) -> str:
    count = chance.choice([1, 3, 10, 60])
    names = [root, *(f"r{i}" for i in range(count))]

    def body() -> str:
        parts = []
        for _ in range(chance.randint(1, 4)):
            part = chance.choice([*names, *names, '"a"', '"é"', '"', "[ab]", "( r0 )", "/a+/", "|"])
            if chance.random() < 0.3:
                part += chance.choice(["*", "+", "?", f"{{{chance.choice(_BIG)}}}", "{2,3}"])
            parts.append(part)
        return " ".join(parts) + (' | "b"' if chance.random() < 0.7 else "")

    if chance.random() < 0.3:  # each rule is the next one many times: a bomb
        wide = chance.choice([2, 10])
        lines = [f"{root} {sign} r0"]
        lines += [
            f"r{i} {sign} {chance.choice([' ', ' | ']).join([f'r{i + 1}'] * wide)}" for i in range(count)
        ]
        return "\n".join([*lines, f'r{count} {sign} "a"'])
    return "\n".join(f"{name} {sign} {body()}" for name in names)


def gbnf(chance: random.Random) -> str:
    """Return a GBNF grammar, mostly one that cannot be used."""
    return _rules(chance, "::=", "root")


def lark(chance: random.Random) -> str:
    """Return a Lark grammar, mostly one that cannot be used."""
    return _rules(chance, ":", "start")
