"""The shortest answer, and how few tokens could spell it: known before anything is decoded.

Shortest answers are kept as pieces: texts, and choices between pieces. Inside a text three
marks stand for the blank after a comma or colon, any digit, and any characters of a string.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from llama_magic.structured.schema.bundle import Bundle
from llama_magic.structured.schema.disjoint import bounds, refused, types_of

GAP, DIGIT, FREE = "\x00", "\x01", "\x02"  # control characters are never part of JSON
_BUDGET = 5_000
_MAX_PIECES = 20_000


class Shortest:
    """Finds the shortest values of a bundle; `pieces` is None where there is no finite value.

    A lower bound: keywords that it does not know only make values longer, and a part that it
    did not come to within its budget counts as nothing.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._left = _BUDGET
        self.pieces = self._find([bundle.root], frozenset())

    def _find(self, nodes: list[Any], active: frozenset[int]) -> Pieces | None:
        self._left -= 1
        if self._left <= 0:
            return [FREE]
        flat = self._flatten(nodes, active)
        if flat is None:
            return None
        parts, active = flat
        for index, part in enumerate(parts):
            for keyword in ("anyOf", "oneOf"):
                if keyword in part:
                    rest = {key: value for key, value in part.items() if key != keyword}
                    others = [*parts[:index], rest, *parts[index + 1 :]]
                    return _choice(self._find([*others, sub], active) for sub in part[keyword])
        return _choice(self._candidates(parts, active))

    def _flatten(self, nodes: list[Any], active: frozenset[int]) -> tuple[list[Any], frozenset[int]] | None:
        parts: list[Any] = []
        around = active
        stack = list(reversed(nodes))
        while stack:
            node = stack.pop()
            if node is False:
                return None
            if not isinstance(node, dict):
                continue
            plain = {key: value for key, value in node.items() if key not in ("$ref", "allOf")}
            parts.append(plain)
            if "$ref" in node:
                target = self._bundle.target(node["$ref"])
                if id(target) in around:
                    return None  # a shortest value never holds a value of its own definition
                if id(target) not in active:
                    active |= {id(target)}
                    stack.append(target)
            stack += node.get("allOf", ())
        return parts, active

    def _candidates(self, parts: list[Any], active: frozenset[int]) -> Any:
        for part in parts:
            if "const" in part or "enum" in part:
                values = [part["const"]] if "const" in part else part["enum"]
                for value in values:
                    if not refused(value, [{k: v for k, v in p.items() if k != "pattern"} for p in parts]):
                        yield [_dump(value)]
                return
        makers = {
            "null": self._null,
            "boolean": self._boolean,
            "number": self._number,
            "string": self._string,
            "array": self._array,
            "object": self._object,
        }
        for name in sorted(types_of(parts), key=list(makers).index):
            yield makers[name](parts, active)

    def _null(self, parts: list[Any], active: frozenset[int]) -> Pieces:
        return ["null"]

    def _boolean(self, parts: list[Any], active: frozenset[int]) -> Pieces:
        return [Choice([["true"], ["false"]])]

    def _number(self, parts: list[Any], active: frozenset[int]) -> Pieces:
        low = max(bounds(parts, "minimum", "exclusiveMinimum"), default=0)
        high = min(bounds(parts, "maximum", "exclusiveMaximum"), default=0)
        if high < 0:
            return ["-" + DIGIT]
        return [DIGIT * (len(str(int(low))) if 9 < low < 1e15 else 1)]

    def _string(self, parts: list[Any], active: frozenset[int]) -> Pieces:
        free = any(p.get("minLength", 0) > 0 or "pattern" in p or "format" in p for p in parts)
        return ['"' + (FREE if free else "") + '"']

    def _array(self, parts: list[Any], active: frozenset[int]) -> Pieces | None:
        count = min(max((int(p.get("minItems", 0)) for p in parts), default=0), 1000)
        pieces: Pieces = ["["]
        item: Pieces | None = None
        for index in range(count):
            nodes = [node for part in parts if (node := _item(part, index)) is not None]
            if item is None or any(_tuple(part) for part in parts):
                item = self._find(nodes, active)
            if item is None:
                return None
            pieces += [f",{GAP}", *item] if index else item
            if len(pieces) > _MAX_PIECES:  # the rest counts as nothing
                break
        return [*pieces, "]"]

    def _object(self, parts: list[Any], active: frozenset[int]) -> Pieces | None:
        pieces: Pieces = ["{"]
        required = dict.fromkeys(n for part in parts for n in part.get("required", ()))
        declared = list(dict.fromkeys(n for part in parts for n in part.get("properties", ())))
        places = {name: at for at, name in enumerate(declared)}  # keys come in the order of their declaration
        for index, name in enumerate(sorted(required, key=lambda n: places.get(n, len(declared)))):
            nodes = [_property(part, name) for part in parts]
            value = self._find([node for node in nodes if node is not None], active)
            if value is None:
                return None
            pieces += [(f",{GAP}" if index else "") + f"{_dump(name)}:{GAP}", *value]
            if len(pieces) > _MAX_PIECES:
                break
        return [*pieces, "}"]


def _property(part: Any, name: str) -> Any:
    if name in part.get("properties", {}):
        return part["properties"][name]
    if part.get("patternProperties"):
        return None
    return part.get("additionalProperties")


def _tuple(part: Any) -> bool:
    return "prefixItems" in part or isinstance(part.get("items"), list)


def _item(part: Any, index: int) -> Any:
    prefix = part.get("prefixItems") or (part["items"] if isinstance(part.get("items"), list) else [])
    if index < len(prefix):
        return prefix[index]
    return part.get("additionalItems" if isinstance(part.get("items"), list) else "items")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(f",{GAP}", f":{GAP}"))


@dataclass(frozen=True)
class Choice:
    """One of several pieces."""

    options: list[Pieces]


Pieces = list["str | Choice"]


def _choice(options: Iterable[Pieces | None]) -> Pieces | None:
    found = [option for option in options if option is not None]
    if not found:
        return None
    return found[0] if len(found) == 1 else [Choice(found)]


def fewest_bytes(pieces: Pieces, known: dict[int, int] | None = None) -> int:
    """Return the length in UTF-8 of the shortest text of some pieces; `known` is of choices by id."""
    total = 0
    known = {} if known is None else known
    for piece in pieces:
        if isinstance(piece, Choice):
            if id(piece) not in known:
                known[id(piece)] = min(fewest_bytes(option, known) for option in piece.options)
            total += known[id(piece)]
        else:
            total += len(piece.encode()) - piece.count(FREE)
    return total


_MAX_STATES = 50_000
_MAX_VISITS = 300_000
_DIGITS = range(0x30, 0x3A)


def fewest_tokens(pieces: Pieces, texts: Sequence[bytes]) -> int:
    """Return the least number of tokens that spell one of the shortest texts.

    `texts` are the bytes of the vocabulary's tokens, sorted. Dynamic programming, from the end,
    over the places where a token may begin; free characters of a string cost nothing. About
    0.1 ms a character; beyond a bound of the work (0.5 s) a smaller number is good enough.
    """
    steps: list[list[tuple[int | None, int]]] = [[]]  # of each state: (byte, or None for free; next state)
    start = _build(pieces, 0, steps)
    best = [0] * len(steps)
    left = _MAX_VISITS
    for state in range(1, len(steps)):
        least = len(steps)
        reached: set[tuple[int, bytes]] = set()
        ends: list[tuple[int, bytes]] = [(state, b"")]
        while ends:
            at, token = ends.pop()
            if (at, token) in reached:
                continue
            reached.add((at, token))
            place = bisect_left(texts, token)
            known = texts[place] if place < len(texts) else b""
            if not known.startswith(token):
                continue  # no token begins like this
            if at < state and (not token or known == token):
                least = min(least, best[at] + len(token[:1]))
            ends += [(after, token if byte is None else token + bytes((byte,))) for byte, after in steps[at]]
        best[state] = least
        left -= len(reached)
        if left < 0:
            return -(-fewest_bytes(pieces) // max(map(len, texts)))
    return best[start]


def _build(pieces: Pieces, after: int, steps: list[list[tuple[int | None, int]]]) -> int:
    """Add the states of some pieces before the state `after`; return the first of them."""
    for piece in reversed(pieces):
        if len(steps) > _MAX_STATES:
            return after
        if isinstance(piece, Choice):
            firsts = [_build(option, after, steps) for option in piece.options]
            steps.append([(None, first) for first in firsts])
        for byte in reversed(b"" if isinstance(piece, Choice) else piece.encode()):
            if len(steps) > _MAX_STATES:
                return after
            match chr(byte):
                case "\x00":
                    steps.append([(0x20, after)])
                case "\x01":
                    steps.append([(digit, after) for digit in _DIGITS])
                case "\x02":
                    steps.append([(None, after)])
                case _:
                    steps.append([(byte, after)])
            after = len(steps) - 1
        after = len(steps) - 1
    return after
