"""Reads GBNF: from a text to rules as trees. Errors name line and column."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

from llama_magic.errors import SchemaError
from llama_magic.structured.schema.regex import literal

_MAX_REPEAT = 10_000
_LOW = re.compile(r"\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)  # the second half of a surrogate pair
CURE = "The notation is described in llama.cpp's grammars/README.md."


@dataclass
class GbnfNode:
    """`kind` is chars (one character, as a regex), seq, alt, repeat or rule."""

    kind: str
    text: str = ""
    parts: list[GbnfNode] = field(default_factory=list)
    low: int = 0
    high: int | None = None
    sample: str = ""  # of chars: one character that it matches


class GbnfReader:
    """A place in the text, and what may stand there; `rules()` reads it all."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def rules(self) -> dict[str, GbnfNode]:
        rules: dict[str, GbnfNode] = {}
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
                raise SchemaError(f"The rule {name} is defined twice.", keyword=name, remedy=CURE)
            rules[name] = self._alternatives(nested=False)
            if self.at < len(self.text) and self.text[self.at] not in "\r\n":
                self._fail("the end of the line")
            self._blank(lines=True)
        return rules

    def _alternatives(self, nested: bool) -> GbnfNode:
        self.depth += 1
        if self.depth > 100:
            self._fail("groups nested less than 100 deep")
        options = [self._sequence(nested)]
        while self.text.startswith("|", self.at):
            self.at += 1
            self._blank(lines=True)
            options.append(self._sequence(nested))
        self.depth -= 1
        return options[0] if len(options) == 1 else GbnfNode("alt", parts=options)

    def _sequence(self, nested: bool) -> GbnfNode:
        parts: list[GbnfNode] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                item = self._literal()
            elif char == "[":
                item = self._class()
            elif char == ".":
                self.at += 1
                item = GbnfNode("chars", "(?s:.)", sample="a")
            elif char == "(":
                self.at += 1
                self._blank(lines=True)
                item = self._alternatives(nested=True)
                if not self.text.startswith(")", self.at):
                    self._fail("a closing )")
                self.at += 1
            elif re.match(r"[A-Za-z0-9_-]", char):
                item = GbnfNode("rule", self._name("a rule name"))
            elif char in "<!":
                self._fail("no token references: the mask is made for text, not for one vocabulary's ids")
            else:
                break
            self._blank(lines=nested)
            parts.append(self._repeated(item, nested))
        return parts[0] if len(parts) == 1 else GbnfNode("seq", parts=parts)

    def _repeated(self, item: GbnfNode, nested: bool) -> GbnfNode:
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
            item = GbnfNode("repeat", parts=[item], low=low, high=high)
            self._blank(lines=nested)
        return item

    def _literal(self) -> GbnfNode:
        start = self.at
        self.at += 1
        chars: list[GbnfNode] = []
        while True:
            if self.at >= len(self.text) or self.text[self.at] in "\r\n":
                self.at = start
                self._fail('a closing " on the same line')
            if self.text[self.at] == '"':
                self.at += 1
                break
            char = self._char()
            chars.append(GbnfNode("chars", literal(char), sample=char))
        return chars[0] if len(chars) == 1 else GbnfNode("seq", parts=chars)

    def _class(self) -> GbnfNode:
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
            return GbnfNode("chars", f"[{body}]", sample=ranges[0][0])
        return GbnfNode("chars", f"[^{body}]" if body else "(?s:.)", sample=_outside(ranges))

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
        low = _LOW.match(self.text, self.at) if 0xD800 <= code < 0xDC00 else None
        if low:  # as JSON escapes a character beyond four digits
            self.at = low.end()
            code = 0x10000 + (code - 0xD800) * 0x400 + int(low.group(1), 16) - 0xDC00
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
            remedy=f"Texts stand in double quotes. {CURE}" if found.startswith("\"'") else CURE,
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
