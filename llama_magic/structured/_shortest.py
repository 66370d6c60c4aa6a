"""The shortest answer, and how few tokens could spell it: known before anything is decoded."""

from __future__ import annotations

import json
from typing import Any

from llama_magic.structured import _regex
from llama_magic.structured._bundle import Bundle
from llama_magic.structured._disjoint import _refused, _types

GAP = "\x00"  # a place where one blank may stand; never part of JSON
_BUDGET = 30_000
_SAMPLES = {
    "date-time": "2000-01-01T00:00:00Z",
    "date": "2000-01-01",
    "time": "00:00:00Z",
    "duration": "P1D",
    "email": "a@a",
    "hostname": "a",
    "ipv4": "1.1.1.1",
    "ipv6": "::",
    "uuid": "0" * 8 + "-0000" * 3 + "-" + "0" * 12,
    "uri": "a:",
}


class Shortest:
    """Finds a shortest text of a bundle; `text` is None where there is no finite value.

    A lower bound: keywords that it does not know only make values longer. `GAP` marks where a
    blank may stand. `complete` is False when the search stopped at its budget.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._left = _BUDGET
        self.text = self._find([bundle.root], frozenset())
        self.complete = self._left > 0

    def _find(self, nodes: list[Any], active: frozenset[int]) -> str | None:
        self._left -= 1
        if self._left <= 0:
            return "0"
        flat = self._flatten(nodes, active)
        if flat is None:
            return None
        parts, active = flat
        for index, part in enumerate(parts):
            for keyword in ("anyOf", "oneOf"):
                if keyword in part:
                    rest = {key: value for key, value in part.items() if key != keyword}
                    others = [*parts[:index], rest, *parts[index + 1 :]]
                    return _least(self._find([*others, sub], active) for sub in part[keyword])
        return _least(self._candidates(parts, active))

    def _flatten(self, nodes: list[Any], active: frozenset[int]) -> tuple[list[Any], frozenset[int]] | None:
        parts: list[Any] = []
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
                if id(target) in active:
                    return None  # a shortest value never holds a value of its own definition
                active |= {id(target)}
                stack.append(target)
            stack += node.get("allOf", ())
        return parts, active

    def _candidates(self, parts: list[Any], active: frozenset[int]) -> Any:
        for part in parts:
            if "const" in part or "enum" in part:
                values = [part["const"]] if "const" in part else part["enum"]
                for value in values:
                    if not _refused(value, [{k: v for k, v in p.items() if k != "pattern"} for p in parts]):
                        yield _dump(value)
                return
        makers = {
            "null": self._null,
            "boolean": self._boolean,
            "number": self._number,
            "string": self._string,
            "array": self._array,
            "object": self._object,
        }
        for name in sorted(_types(parts), key=list(makers).index):
            yield makers[name](parts, active)

    def _null(self, parts: list[Any], active: frozenset[int]) -> str:
        return "null"

    def _boolean(self, parts: list[Any], active: frozenset[int]) -> str:
        return "true"

    def _number(self, parts: list[Any], active: frozenset[int]) -> str:
        low = max(
            (p[k] for p in parts for k in ("minimum", "exclusiveMinimum") if _is_number(p.get(k))), default=0
        )
        high = min(
            (p[k] for p in parts for k in ("maximum", "exclusiveMaximum") if _is_number(p.get(k))), default=0
        )
        if low > 9:
            return str(int(low)) if low < 1e15 else "9"
        return "0" if high >= 0 else "-1" if high > -10 else str(int(high)) if high > -1e15 else "-1"

    def _string(self, parts: list[Any], active: frozenset[int]) -> str:
        texts = ["a" * min(max((int(p.get("minLength", 0)) for p in parts), default=0), 10_000)]
        for part in parts:
            if "pattern" in part:
                texts.append(_regex.shortest(part["pattern"]) or "")
            if part.get("format") in _SAMPLES:
                texts.append(_SAMPLES[part["format"]])
        return json.dumps(max(texts, key=len), ensure_ascii=False)

    def _array(self, parts: list[Any], active: frozenset[int]) -> str | None:
        count = min(max((int(p.get("minItems", 0)) for p in parts), default=0), 1000)
        items: list[str] = []
        for index in range(count):
            nodes = [node for part in parts if (node := _item(part, index)) is not None]
            text = (
                items[-1] if index and not any(_tuple(part) for part in parts) else self._find(nodes, active)
            )
            if text is None:
                return None
            items.append(text)
        return "[" + f",{GAP}".join(items) + "]"

    def _object(self, parts: list[Any], active: frozenset[int]) -> str | None:
        names = list(dict.fromkeys(name for part in parts for name in part.get("required", ())))
        members: list[str] = []
        for name in names:
            nodes = [_property(part, name) for part in parts]
            value = self._find([node for node in nodes if node is not None], active)
            if value is None:
                return None
            members.append(f"{_dump(name)}:{GAP}{value}")
        return "{" + f",{GAP}".join(members) + "}"


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


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(f",{GAP}", f":{GAP}"))


def _least(texts: Any) -> str | None:
    found = [text for text in texts if text is not None]
    return min(found, key=lambda text: len(text) - text.count(GAP), default=None)


def fewest_tokens(text: str, texts: frozenset[bytes], longest: int) -> int:
    """Return the least number of tokens that spell a text; each `GAP` may be a blank or nothing.

    `texts` are the bytes of the vocabulary's tokens, `longest` their greatest length. Exact for
    this text (dynamic programming over where a token may begin); about 0.1 ms a character.
    """
    data = text.encode()
    gap = GAP.encode()[0]
    best: list[int] = [0] * (len(data) + 1)
    for start in range(len(data) - 1, -1, -1):
        best[start] = len(data) + 1
        if data[start] == gap:
            best[start] = best[start + 1]
        ends: list[tuple[int, bytes]] = [(start, b"")]
        while ends:
            at, token = ends.pop()
            if token and token in texts:
                best[start] = min(best[start], 1 + best[at])
            if at < len(data) and len(token) < min(longest, 32):
                if data[at] == gap:
                    ends += [(at + 1, token), (at + 1, token + b" ")]
                else:
                    ends.append((at + 1, token + data[at : at + 1]))
    return best[0]
