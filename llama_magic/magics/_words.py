"""Cut a magic's line into words, the way a shell user expects and a Windows user needs.

Quotes are removed and what they enclose is one word, blanks included (`--stop " "`). Pieces
that touch are joined (`--stop="a b"`). A backslash is an ordinary character, so that
`C:\\models\\x.gguf` survives; to write one kind of quote, enclose it in the other kind.

Words are read one at a time, because the text of `%llama tokens TEXT` may hold a lone
apostrophe and must never be cut at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from llama_magic.errors import OptionError


@dataclass(frozen=True)
class Word:
    """One word; `start` and `end` are its place in the line, `bare` says that no quote was in it."""

    text: str
    start: int
    end: int
    bare: bool


class Words:
    """Read `line` from left to right."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.position = 0

    def peek(self) -> Word | None:
        """Return the next word without taking it."""
        position = self.position
        word = self.take()
        self.position = position
        return word

    def take(self) -> Word | None:
        """Return the next word, or None at the end; an unclosed quote is an `OptionError`."""
        line, at = self.line, self.position
        while at < len(line) and line[at].isspace():
            at += 1
        if at >= len(line):
            self.position = at
            return None
        start, pieces, bare = at, [], True
        while at < len(line) and not line[at].isspace():
            if line[at] in "\"'":
                end = self._closing(at)
                pieces.append(line[at + 1 : end])
                at, bare = end + 1, False
            else:
                pieces.append(line[at])
                at += 1
        self.position = at
        return Word("".join(pieces), start, at, bare)

    def rest(self) -> str:
        """Take all that is left, as it stands; quotes around the whole of it are removed."""
        text = self.line[self.position :].strip()
        self.position = len(self.line)
        if len(text) >= 2 and text[0] in "\"'" and text.find(text[0], 1) == len(text) - 1:
            return text[1:-1]
        return text

    def _closing(self, at: int) -> int:
        end = self.line.find(self.line[at], at + 1)
        if end < 0:
            raise OptionError(
                f"The quote {self.line[at]} at position {at + 1} is never closed: {self.line[at:]}",
                remedy="Close it, or enclose an apostrophe in double quotes.",
            )
        return end
