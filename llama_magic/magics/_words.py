"""Cut a magic's line into words, the way a shell user expects and a Windows user needs.

Quotes are removed and what they enclose is one word, blanks included (`--stop " "`). Pieces
that touch are joined (`--stop="a b"`). A backslash is an ordinary character, so that
`C:\\models\\x.gguf` survives; to write one kind of quote, enclose it in the other kind. One that
stands alone at the end of a cell's line has the next one go on with it, as in a shell.

Words are read one at a time, because the text of `%llama tokens TEXT` may hold a lone
apostrophe and must never be cut at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llama_magic.errors import OptionError

_GOES_ON = re.compile(r"(?:^|\s)\\\s*$")  # not `C:\runs\`: a blank stands before it


def continued(line: str, body: str) -> tuple[str, str]:
    """Return a cell's line with those of its body that go on with it, and the rest of the body."""
    while body and (found := _GOES_ON.search(line)):
        more, _, body = body.partition("\n")
        line = f"{line[: found.start()]} {more}"
    return line, body


def line_until(lines: Sequence[str], at: int) -> tuple[int, str]:
    """Return where the line begins that line `at` goes on with, and what stands before `at` in it."""
    first = at
    while first and _GOES_ON.search(lines[first - 1]):
        first -= 1
    return first, "".join(_GOES_ON.sub(" ", line) for line in lines[first:at])


@dataclass(frozen=True)
class Word:
    """One word; `start` and `end` are its place in the line, `bare` says that no quote was in it."""

    text: str
    start: int
    end: int
    bare: bool


def _nothing(text: str, at: int) -> int:
    return at


class Words:
    """Read `line` from left to right.

    `end_of` says of a place where what begins there ends, or the place itself: what is between keeps its
    quotes and blanks, as `{cfg["x"]}` does.
    """

    def __init__(self, line: str, end_of: Callable[[str, int], int] = _nothing) -> None:
        self.line = line
        self.position = 0
        self._end_of = end_of

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
                end = max(at + 1, self._end_of(line, at) if line[at] == "{" else at)
                pieces.append(line[at:end])
                at = end
        self.position = at
        return Word("".join(pieces), start, at, bare)

    def value(self, option: Word, *, attached: bool, openings: str) -> str:
        """Take the expression behind an option, or, where it is `attached` (`--schema=X`), the one in it."""
        at = self.line.index("=", option.start) + 1 if attached else self.position
        return self.expression(at, openings)

    def expression(self, at: int, openings: str) -> str:
        """Take Python or JSON that stands at a place without quotes around it, its own quotes kept.

        It ends at the first blank outside of brackets and quotes that is not beside a `|`. Empty where
        none of `openings` begins it; an `a` among them means any letter.
        """
        line = self.line
        while at < len(line) and line[at].isspace():
            at += 1
        start, depth, quote = at, 0, ""
        letter = "a" in openings and line[at : at + 1].isalpha()
        if not letter and (at >= len(line) or line[at] not in openings):
            return ""
        while at < len(line) and (depth or quote or not line[at].isspace() or self._goes_on(at)):
            char = line[at]
            if quote:
                at += char == "\\"  # JSON's escape: the next character does not close
                quote = "" if char == quote else quote
            elif char in "\"'":
                quote = char
            else:
                depth += (char in "([{") - (char in ")]}")
            at += 1
        if depth or quote:
            return ""
        self.position = min(at, len(line))
        return line[start : self.position]

    def _goes_on(self, blank: int) -> bool:
        """Say whether a type goes on behind a blank, as `City | None` does."""
        return self.line[blank:].lstrip().startswith("|") or self.line[:blank].rstrip().endswith("|")

    def rest(self) -> str:
        """Take all that is left, as it stands; quotes around the whole of it are removed."""
        text = self.line[self.position :].strip()
        self.position = len(self.line)
        if len(text) >= 2 and text[0] in "\"'" and text.find(text[0], 1) == len(text) - 1:
            return text[1:-1]
        return text

    def _closing(self, at: int) -> int:
        quote, start = self.line[at], at + 1
        while (end := self.line.find(quote, start)) >= 0:
            brace = self.line.find("{", start, end)
            if brace < 0:
                break
            start = max(brace + 1, self._end_of(self.line, brace))
        if end < 0:
            raise OptionError(
                f"The quote {self.line[at]} at position {at + 1} is never closed: {self.line[at:]}",
                remedy="Close it, or enclose an apostrophe in double quotes.",
            )
        return end


class Arguments(Words):
    """The words of a shell's command line, which the shell has cut already."""

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(" ".join(arguments))
        self._left: list[Word] = []
        at = 0
        for text in arguments:
            self._left.append(Word(text, at, at + len(text), True))
            at += len(text) + 1
        self._left.reverse()

    def take(self) -> Word | None:
        """Return the next word, or None at the end."""
        if not self._left:
            return None
        word = self._left.pop()
        self.position = word.end
        return word

    def peek(self) -> Word | None:
        """Return the next word without taking it."""
        return self._left[-1] if self._left else None
