"""Words that a browser would break after a hyphen, and that are read and copied as one.

Those are options (`--max-tokens`), names that end in a number (`seeded-2`), and names in paths and addresses,
which may be broken after a slash; in a command every word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANKS = re.compile(r"(\s+)")
_NAMES = re.compile(r"[^/]*/+|[^/]+")
_OPTION = re.compile(r"\W?--?[A-Za-z]|\W?[A-Za-z][\w-]*-\d+\W*$")
_LONG = 40  # characters: a longer name is wider than a narrow column, and may be broken anywhere


def pieces(text: str, *, command: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield a text in pieces, and whether each is to stand on one line."""
    if "-" not in text:
        yield text, False
        return
    for word in _BLANKS.split(text):
        if "-" in word and (command or "/" in word or _OPTION.match(word)):
            yield from ((name, "-" in name and len(name) <= _LONG) for name in _NAMES.findall(word))
        else:
            yield word, False
