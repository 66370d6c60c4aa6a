"""GBNF, llama.cpp's grammar notation, read strictly and handed to llguidance.

llguidance's own converter makes lexemes of whole rules, and its lexer takes the longest match:
`root ::= [a-z]* "end"` could then never end. Here a grammar without recursion becomes one regular
expression; in a recursive one every lexeme is one character. Both are exact.
Notation: llama.cpp `grammars/README.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from llama_magic.errors import SchemaError
from llama_magic.structured.schema.depth import grammar_from_lark
from llama_magic.structured.schema.regex import literal

MAX_GRAMMAR = 200_000  # characters
_MAX_REGEX = 100_000  # characters of a grammar written out as one expression
_MAX_REPEAT = 10_000
_CURE = "The notation is described in llama.cpp's grammars/README.md."


@dataclass
class Node:
    """`kind` is chars (one character, as a regex), seq, alt, repeat or rule."""

    kind: str
    text: str = ""
    parts: list[Node] = field(default_factory=list)
    low: int = 0
    high: int | None = None
    sample: str = ""  # of chars: one character that it matches


def parse(grammar: str) -> dict[str, Node]:
    """Return the rules of a grammar by name; raises `SchemaError` with line and column."""
    if not isinstance(grammar, str):
        raise SchemaError(f"A grammar is a text; got {type(grammar).__name__}.", keyword="grammar")
    if not grammar.strip():
        raise SchemaError("The grammar is empty.", keyword="grammar", remedy="Write at least root ::= …")
    if len(grammar) > MAX_GRAMMAR:
        raise SchemaError(
            f"The grammar has {len(grammar):,} characters; {MAX_GRAMMAR:,} are read.", keyword="grammar"
        )
    rules = _Reader(grammar).rules()
    if "root" not in rules:
        raise SchemaError(
            f"The grammar has no rule called root (it has {', '.join(sorted(rules)[:8]) or 'none'}).",
            keyword="root",
            remedy="Name the rule to start with root.",
        )
    for name, node in rules.items():
        for other in _names(node):
            if other not in rules:
                raise SchemaError(
                    f"The rule {name} uses {other}, which is not defined.", keyword=other, remedy=_CURE
                )
    _refuse_left_recursion(rules)
    _refuse_endless(rules)
    return rules


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def rules(self) -> dict[str, Node]:
        rules: dict[str, Node] = {}
        self._blank(lines=True)
        while self.at < len(self.text):
            if self.text.startswith("|", self.at):
                self._fail(
                    "a rule name; an alternative goes on from the line before only in brackets, or after a |"
                )
            name = self._name("a rule name")
            self._blank(lines=False)
            if not self.text.startswith("::=", self.at):
                self._fail("::= after the rule name")
            self.at += 3
            self._blank(lines=True)
            if name in rules:
                raise SchemaError(f"The rule {name} is defined twice.", keyword=name, remedy=_CURE)
            rules[name] = self._alternatives(nested=False)
            if self.at < len(self.text) and self.text[self.at] not in "\r\n":
                self._fail("the end of the line")
            self._blank(lines=True)
        return rules

    def _alternatives(self, nested: bool) -> Node:
        self.depth += 1
        if self.depth > 100:
            self._fail("groups nested less than 100 deep")
        options = [self._sequence(nested)]
        while self.text.startswith("|", self.at):
            self.at += 1
            self._blank(lines=True)
            options.append(self._sequence(nested))
        self.depth -= 1
        return options[0] if len(options) == 1 else Node("alt", parts=options)

    def _sequence(self, nested: bool) -> Node:
        parts: list[Node] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                item = self._literal()
            elif char == "[":
                item = self._class()
            elif char == ".":
                self.at += 1
                item = Node("chars", "(?s:.)", sample="a")
            elif char == "(":
                self.at += 1
                self._blank(lines=True)
                item = self._alternatives(nested=True)
                if not self.text.startswith(")", self.at):
                    self._fail("a closing )")
                self.at += 1
            elif re.match(r"[A-Za-z0-9_-]", char):
                item = Node("rule", self._name("a rule name"))
            elif char in "<!":
                self._fail("no token references: the mask is made for text, not for one vocabulary's ids")
            else:
                break
            self._blank(lines=nested)
            parts.append(self._repeated(item, nested))
        return parts[0] if len(parts) == 1 else Node("seq", parts=parts)

    def _repeated(self, item: Node, nested: bool) -> Node:
        marks = 0
        while (char := self.text[self.at : self.at + 1]) and char in "*+?{":
            marks += 1
            if marks > 20:
                self._fail("20 repetitions of one item at most")
            if char == "{":
                match = re.compile(r"\{\s*(\d+)\s*(?:(,)\s*(\d*)\s*)?\}").match(self.text, self.at)
                if not match:
                    self._fail("a repetition such as {2}, {2,} or {2,5}")
                low = int(match.group(1))
                high = low if not match.group(2) else int(match.group(3)) if match.group(3) else None
                if max(low, high or 0) > _MAX_REPEAT or (high is not None and high < low):
                    self._fail(f"a repetition of {_MAX_REPEAT} at most, the smaller number first")
                self.at = match.end()
            else:
                low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
                self.at += 1
            item = Node("repeat", parts=[item], low=low, high=high)
            self._blank(lines=nested)
        return item

    def _literal(self) -> Node:
        start = self.at
        self.at += 1
        chars: list[Node] = []
        while True:
            if self.at >= len(self.text) or self.text[self.at] in "\r\n":
                self.at = start
                self._fail('a closing " on the same line')
            if self.text[self.at] == '"':
                self.at += 1
                break
            char = self._char()
            chars.append(Node("chars", literal(char), sample=char))
        return chars[0] if len(chars) == 1 else Node("seq", parts=chars)

    def _class(self) -> Node:
        start = self.at
        self.at += 1
        negated = self.text.startswith("^", self.at)
        self.at += negated
        ranges: list[tuple[str, str]] = []
        while not self.text.startswith("]", self.at):
            if self.at >= len(self.text):
                self.at = start
                self._fail("a closing ]")
            low = high = self._char()
            if self.text.startswith("-", self.at) and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self._char()
            if high < low:
                self._fail("a range from the smaller character to the larger")
            ranges.append((low, high))
        self.at += 1
        if not ranges and not negated:
            self._fail("at least one character in [ ]")
        body = "".join(_code(low) + ("" if low == high else "-" + _code(high)) for low, high in ranges)
        if not negated:
            return Node("chars", f"[{body}]", sample=ranges[0][0])
        return Node("chars", f"[^{body}]" if body else "(?s:.)", sample=_outside(ranges))

    def _char(self) -> str:
        char = self.text[self.at]
        self.at += 1
        if char == "\x00":
            self._fail("no NUL byte")
        if char != "\\":
            return char
        match = re.compile(r'x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([nrt"\\\[\]^-])').match(
            self.text, self.at
        )
        if not match:
            self._fail('one of the escapes \\n \\r \\t \\\\ \\" \\[ \\] \\xFF \\uFFFF \\UFFFFFFFF')
        self.at = match.end()
        if match.group(4):
            return {"n": "\n", "r": "\r", "t": "\t"}.get(match.group(4), match.group(4))
        code = int(match.group(1) or match.group(2) or match.group(3), 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            self._fail("the code of a character")
        return chr(code)

    def _name(self, what: str) -> str:
        match = re.compile(r"[A-Za-z0-9_-]+").match(self.text, self.at)
        if not match:
            self._fail(what)
        self.at = match.end()
        return match.group()

    def _blank(self, lines: bool) -> None:
        pattern = r"(?:[ \t\r\n]|#[^\r\n]*)*" if lines else r"(?:[ \t]|#[^\r\n]*)*"
        match = re.compile(pattern).match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _fail(self, expected: str) -> NoReturn:
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - (self.text.rfind("\n", 0, self.at) + 1) + 1
        found = repr(self.text[self.at : self.at + 20]) if self.at < len(self.text) else "the end"
        raise SchemaError(
            f"The grammar cannot be read at line {line}, column {column}: found {found}, expected "
            f"{expected}.",
            pointer=f"{line}:{column}",
            keyword="grammar",
            remedy=_CURE,
        )


def _outside(ranges: list[tuple[str, str]]) -> str:
    """Return a character in none of the ranges, "" where they leave none."""
    ends = [chr(ord(high) + 1) for _, high in ranges if ord(high) < 0x10FFFF]
    for char in ("a0 _~\nzZé€", "\x01", *ends):
        for one in char:
            if not any(low <= one <= high for low, high in ranges) and not 0xD800 <= ord(one) < 0xE000:
                return one
    free = (c for c in (0xE000,) if not any(ord(low) <= c <= ord(high) for low, high in ranges))
    return next(map(chr, free), "")


def _code(char: str) -> str:
    return f"\\x{{{ord(char):x}}}"


def _names(node: Node) -> set[str]:
    found = {node.text} if node.kind == "rule" else set()
    return found.union(*(_names(part) for part in node.parts))


def _nullable(node: Node, known: set[str]) -> bool:
    match node.kind:
        case "chars":
            return False
        case "rule":
            return node.text in known
        case "seq":
            return all(_nullable(part, known) for part in node.parts)
        case "alt":
            return any(_nullable(part, known) for part in node.parts)
    return node.low == 0 or node.high == 0 or _nullable(node.parts[0], known)


def _first(node: Node, empty: set[str]) -> set[str]:
    if node.kind == "rule":
        return {node.text}
    if node.kind == "seq":
        found: set[str] = set()
        for part in node.parts:
            found |= _first(part, empty)
            if not _nullable(part, empty):
                break
        return found
    return set().union(*(_first(part, empty) for part in node.parts))


def _refuse_left_recursion(rules: dict[str, Node]) -> None:
    empty: set[str] = set()
    order = list(reversed(rules.items()))  # rules mostly use later ones
    while True:
        before = len(empty)
        empty |= {name for name, node in order if name not in empty and _nullable(node, empty)}
        if len(empty) == before:
            break
    name = _circle({name: _first(node, empty) for name, node in rules.items()})
    if name is not None:
        raise SchemaError(
            f"The rule {name} is left-recursive: it can begin with itself.",
            keyword=name,
            remedy='Write the repetition with * or +, as list ::= item ("," item)*.',
        )


def _circle(leads_to: dict[str, set[str]]) -> str | None:
    """Return a node that lies on a circle of a graph, the first in order of that circle."""
    done: set[str] = set()
    for start in leads_to:
        path: dict[str, Iterator[str]] = {}  # the way from `start`, in order
        node: str | None = start if start not in done else None
        while node is not None or path:
            if node is not None:
                path[node] = iter(leads_to[node])
            here = next(reversed(path))
            node = next((other for other in path[here] if other not in done), None)
            if node in path:
                way = list(path)
                return min(way[way.index(node) :], key=list(leads_to).index)
            if node is None:
                done.add(here)
                del path[here]
    return None


_MAX_SHORTEST = 100_000  # characters; forced text of this length takes the mask's engine 0.2 s a step


def shortest(rules: dict[str, Node]) -> dict[str, str]:
    """Return a shortest text for every rule that has one."""
    found: dict[str, str] = {}
    # Rules mostly use later ones, so the last comes first: a long chain is through in one round.
    order = list(reversed(rules.items()))
    changed = True
    while changed:
        changed = False
        for name, node in order:
            text = _shortest(node, found)
            if text is not None and (name not in found or len(text) < len(found[name])):
                found[name] = text
                changed = True
        order.reverse()
    return found


def _shortest(node: Node, known: dict[str, str]) -> str | None:
    if node.kind == "chars":
        return node.sample or None
    if node.kind == "rule":
        return known.get(node.text)
    parts = [_shortest(part, known) for part in node.parts]
    if node.kind == "alt":
        return min((part for part in parts if part is not None), key=len, default=None)
    if node.kind == "repeat":
        if node.low == 0:
            return ""
        parts = parts * node.low if parts[0] else parts
    texts = [part for part in parts if part is not None]
    if len(texts) < len(parts):
        return None
    if sum(map(len, texts)) > _MAX_SHORTEST:
        raise SchemaError(
            f"The grammar asks for a text of more than {_MAX_SHORTEST:,} characters.",
            keyword="repeat",
            remedy="Repeat less often.",
        )
    return "".join(texts)


def _refuse_endless(rules: dict[str, Node]) -> None:
    if "root" not in shortest(rules):
        raise SchemaError(
            "No text can ever be complete under this grammar: root has no way to end.",
            keyword="root",
            remedy="Give a recursive rule an alternative without itself.",
        )


# --- writing it out ------------------------------------------------------------------------


def to_llguidance(rules: dict[str, Node]) -> str:
    """Return an llguidance grammar for exactly the texts of `root`."""
    from llguidance import LLMatcher

    expression = _as_regex(rules["root"], rules, (), {})
    if expression is not None and len(expression) <= _MAX_REGEX:
        return str(LLMatcher.grammar_from_regex(expression))
    names = {name: f"r{i}" for i, name in enumerate(rules)}
    lines = [f"start: {names['root']}"]
    lines += [f"{names[name]}: {_as_lark(node, names)}" for name, node in rules.items()]
    return grammar_from_lark("\n".join(lines))


def _as_regex(
    node: Node, rules: dict[str, Node], inside: tuple[str, ...], known: dict[str, str | None]
) -> str | None:
    """Write a rule out as one expression, None where it is recursive or grows too long.

    `known` keeps what was found for each rule, so that each is written once.
    """
    if node.kind == "chars":
        return node.text
    if node.kind == "rule":
        if node.text in inside or len(inside) > 50:
            return None
        if node.text not in known:
            known[node.text] = _as_regex(rules[node.text], rules, (*inside, node.text), known)
        return known[node.text]
    texts: list[str] = []
    left = _MAX_REGEX
    for part in node.parts:
        text = _as_regex(part, rules, inside, known)
        left -= len(text or "")
        if text is None or left < 0:
            return None
        texts.append(text)
    if node.kind == "repeat":
        return f"(?:{texts[0]}){{{node.low},{'' if node.high is None else node.high}}}"
    return "(?:" + ("|" if node.kind == "alt" else "").join(texts) + ")"


def _as_lark(node: Node, names: dict[str, str]) -> str:
    match node.kind:
        case "chars":
            return "/" + node.text.replace("/", r"\/") + "/"
        case "rule":
            return names[node.text]
        case "seq":
            return "(" + " ".join(_as_lark(part, names) for part in node.parts) + ")" if node.parts else '""'
        case "alt":
            return "(" + " | ".join(_as_lark(part, names) for part in node.parts) + ")"
    return f"({_as_lark(node.parts[0], names)}){{{node.low},{'' if node.high is None else node.high}}}"
