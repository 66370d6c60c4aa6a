"""The tokens of texts that come again: a chat's prompt is that of the turn before, and some more.

llama.cpp looks for special tokens before all else, and what stands between two of them is
tokenized without a look at the rest. So a prompt may be cut before a mark that no other special
token can reach across, and what a cut gives is kept: of a long conversation only what is new is
tokenized. (It took a third of our own time at the two-hundredth turn.)
"""

from __future__ import annotations

import itertools
import re
from array import array
from collections.abc import Callable, Collection, Iterator

FROM = 1 << 11  # characters of a text from which on it is cut; short ones are done sooner than looked at
KEPT = 1 << 20  # characters that are remembered, together


class Segments:
    """Cut texts before marks, and remember the tokens of what lies between two cuts.

    `marks` are texts of special tokens, `specials` those of all that llama.cpp looks for.
    """

    def __init__(self, marks: Collection[str], specials: Collection[str]) -> None:
        firsts = {text[0] for text in specials if text}
        laters = set[str]().union(*(text[1:] for text in specials))
        # No special token has the beginning of a mark within it, or begins within a mark: so none
        # reaches across the place before it, and one begins there.
        self._marks = {m for m in marks if len(m) > 1 and m[0] not in laters and not firsts & set(m[1:])}
        # To look for each of 6,000 marks in a text takes longer than to tokenize it.
        self._sizes: dict[str, set[int]] = {}
        for mark in self._marks:
            self._sizes.setdefault(mark[:2], set()).add(len(mark))
        begins = "".join({re.escape(pair[0]) for pair in self._sizes})
        self._begins = re.compile(f"[{begins}]" if begins else "(?!)")
        self._known: dict[str, array[int]] = {}
        self.held = 0

    def cut(self, text: str) -> list[str]:
        """Cut a text before each mark. Joined they are the text; the first one may be empty."""
        return [text[start:end] for start, end in itertools.pairwise((0, *self._places(text), len(text)))]

    def first(self, text: str) -> int | None:
        """Return the first place at which a text is cut, None if it is not."""
        return next(self._places(text), None)

    def _places(self, text: str) -> Iterator[int]:
        """Yield where marks begin."""
        for found in self._begins.finditer(text):
            at = found.start()
            if any(text[at : at + size] in self._marks for size in self._sizes.get(text[at : at + 2], ())):
                yield at

    def tokens(self, segment: str, tokenize: Callable[[str], list[int]]) -> array[int] | list[int]:
        """Return the tokens of a segment that begins with a mark, by `tokenize` if they are not known."""
        known = self._known.get(segment)
        if known is not None:
            return known
        tokens = tokenize(segment)
        if len(segment) < KEPT // 16:
            if self.held + len(segment) > KEPT:
                self._known, self.held = {}, 0
            self._known[segment] = array("i", tokens)
            self.held += len(segment)
        return tokens
