"""How much work the parts of an expression make that may all be left out, counted before any of it is done.

After `.*` nothing or anything may come, so a run of r such parts can go on in r ways at each place, each of
which is written out by the mask's engine: its work grows with the square of r, and no limit of its own counts
it (9,000 times `.*` took minutes). From some 500 on it gives up while an answer is written, so that nothing
is lost by a limit there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from llama_magic.errors import SchemaError

MAX_RUN = 500  # parts in a row that may be left out

# As `regex._PIECE`: an end that is missing is not looked for again and again.
_MARK = re.compile(
    r"\\[pPxu]\{[^}]{0,80}\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*+(?:\]|\\?\Z)"
    r"|\((?:\?(?:P?<[^>=!()]*+>|<?[=!]|[a-zA-Z-]{0,20}:?))?|\{\d{0,9},?\d{0,9}\}|.",
    re.DOTALL,
)
_LEAST = re.compile(r"\{(\d*)")


class RegexPart(NamedTuple):
    """`first` parts that may be left out begin it, `last` end it, those between come to `within` squared."""

    empty: bool  # all of it may be left out; then first and last are the whole
    first: int
    last: int
    within: int = 0

    @property
    def work(self) -> int:
        return self.within + (self.last**2 if self.empty else self.first**2 + self.last**2)

    def then(self, other: RegexPart) -> RegexPart:
        within = self.within + other.within
        if self.empty:
            first = self.first + other.first
            return RegexPart(other.empty, first, first if other.empty else other.last, within)
        if other.empty:
            return RegexPart(False, self.first, self.last + other.last, within)
        return RegexPart(False, self.first, other.last, within + (self.last + other.first) ** 2)

    def repeated(self, least: int) -> RegexPart:
        """Return it as one part of a run, with as many ways to go on as it begins with."""
        ways = self.first + (not self.empty)
        empty = self.empty or least == 0
        return RegexPart(empty, ways, ways, self.work) if empty else self


NOTHING = RegexPart(True, 0, 0)
CHARACTER = RegexPart(False, 0, 0)


def check_runs(pattern: str, keyword: str, where: str = "", pointer: str = "") -> None:
    """Refuse an expression with too many parts in a row that may be left out; `where` says of what."""
    refuse_work(work(pattern), keyword, where, pointer)


def refuse_work(squares: int, keyword: str, where: str = "", pointer: str = "") -> None:
    """Refuse what has so much work."""
    if squares > MAX_RUN**2:
        raise SchemaError(
            f"The {keyword}{where} has more than {MAX_RUN} parts in a row of which each may be left out.",
            pointer=pointer,
            keyword=keyword,
            remedy="Repeat a group: (?:a|b)* in place of a*b*a*b*…, a{0,9} in place of a?a?a?…",
        )


def work(pattern: str) -> int:
    """Return the sum of the squares of the runs of parts that may be left out; `MAX_RUN` squared is much."""
    # A level for each open group: what came before in its branch, its earlier branches, its last part.
    levels: list[tuple[RegexPart, list[RegexPart], RegexPart]] = []
    before, branches, part = NOTHING, list[RegexPart](), NOTHING
    for mark in _MARK.findall(pattern):
        if mark[0] == "(":
            levels.append((before.then(part), branches, NOTHING))
            before, branches, part = NOTHING, [], NOTHING
        elif mark == "|":
            branches.append(before.then(part))
            before, part = NOTHING, NOTHING
        elif mark == ")" and levels:
            part = either([*branches, before.then(part)])
            before, branches, _ = levels.pop()
        elif mark in ("*", "?"):
            part = part.repeated(0)
        elif mark[0] == "{" and (least := _LEAST.match(mark)) and len(mark) > 2:
            part = part.repeated(int(least[1][:6] or 0))
        elif mark != "+":
            before, part = before.then(part), NOTHING if mark in ("^", "$") else CHARACTER
    while levels:  # it is not closed, and will be refused for that
        part = either([*branches, before.then(part)])
        before, branches, _ = levels.pop()
    return either([*branches, before.then(part)]).work


def either(branches: list[RegexPart]) -> RegexPart:
    """Return alternatives as one part, as long as the longest of them."""
    if len(branches) == 1:
        return branches[0]
    first, last = max(part.first for part in branches), max(part.last for part in branches)
    within = sum(part.work for part in branches)
    if any(part.empty for part in branches):
        return RegexPart(True, max(first, last, 1), max(first, last, 1), within)
    return RegexPart(False, first, last, within)
