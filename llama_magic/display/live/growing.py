"""A text that grows, as elements; what changes of them is all that travels.

What can no longer change is not read again: all blocks but the last two. A block without an end stays text
from some length on. A change says where, how many children stay, and what follows them:
`[path, kept, contents]`; or, for a text that goes on, `[path, index, its new end]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_magic.display.static.commonmark import MAX_PARAGRAPH, Content, Element, blocks

Change = list[Any]  # [path: list[int], kept: int, contents: list | str], ready for JSON
_RAW = (("class", "lm-raw"),)
_LONGEST = 5 * MAX_PARAGRAPH  # characters of a tail that are read again at each change


class Growing:
    """The elements of a text so far. `markdown` reads it as such, else it is one text."""

    def __init__(self, markdown: bool) -> None:
        self._markdown = markdown
        self._settled: list[Content] = []  # what can no longer change ...
        self._tail = ""  # ... the text after it ...
        self._open: list[Content] = []  # ... and its elements

    def add(self, text: str) -> list[Change]:
        """Take the next piece of visible text; return what changes."""
        self._tail += text
        before, self._open = self._open, self._read()
        made = changes(before, self._open, [], len(self._settled))
        self._settle()
        return made

    def anew(self) -> list[Change]:
        """Return the one change that makes all of it from nothing."""
        return [[[], 0, [plain(one) for one in (*self._settled, *self._open)]]]

    def _read(self) -> list[Content]:
        if not self._markdown:
            return [Element("div", (self._tail,), _RAW) if self._settled else self._tail]
        self._blocks = blocks(self._tail)
        return [one for _, elements in self._blocks for one in elements]

    def _settle(self) -> None:
        """Cut the tail before its last two blocks: the last line may grow into another kind of block."""
        if not self._markdown:
            return
        if len(self._blocks) > 2:
            done = sum(len(elements) for _, elements in self._blocks[:-2])
            self._settled += self._open[:done]
            self._open = self._open[done:]
            self._tail = "\n".join(self._tail.split("\n")[self._blocks[-2][0] :])
        elif len(self._tail) > _LONGEST:
            self._settled += self._open
            self._open, self._tail, self._markdown = [], "", False


def changes(old: Sequence[Content], new: Sequence[Content], path: list[int], first: int = 0) -> list[Change]:
    """Return what turns the children `old` of the element at `path` into `new`; `first` is their index."""
    at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    made: list[Change] = []
    if at < len(old) and at < len(new):
        was, now = old[at], new[at]
        if isinstance(was, Element) and isinstance(now, Element):
            if (was.tag, was.attributes) == (now.tag, now.attributes):
                made = changes(was.children, now.children, [*path, first + at])
                at += 1
        elif isinstance(was, str) and isinstance(now, str) and now.startswith(was):
            made = [[path, first + at, now[len(was) :]]]
            at += 1
    if at < len(old) or at < len(new):
        made.append([path, first + at, [plain(one) for one in new[at:]]])
    return made


def plain(one: Content) -> Any:
    """Return an element as JSON: `[tag, children]`, and its attributes where it has some."""
    if isinstance(one, str):
        return one
    made: list[Any] = [one.tag, [plain(child) for child in one.children]]
    return [*made, dict(one.attributes)] if one.attributes else made
