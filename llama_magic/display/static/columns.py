"""The columns of a table in HTML: which stand flush right, and where their lines may be broken.

Most have no mark: a style a cell is most of what a table weighs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

from llama_magic.words.tables import Share, Table, cell_text, is_number

_RANGE = re.compile(r"[-+\d.,%]+ (to|of) [-+\d.,%]+")  # `24% to 44%`
_WORD = 24  # characters that a column is always wide enough for
_SIDE_BY_SIDE = 3  # columns of texts that a window of 1,000 pixels holds beside some figures
_NAME = 40  # characters of a name that stay on one line where only values stand beside it


def marks(table: Table) -> list[str]:
    """Return the class of each column's cells."""
    found = []
    for i in range(len(table.headers)):
        values = [row[i] for row in table.rows if row[i] is not None]
        found.append(" lm-n" if all(map(is_number, values)) else _broken(values))
    for i, (mark, after) in enumerate(itertools.pairwise(found)):
        if mark == " lm-alone" and after != mark:  # `33% 6% to 79%` would read as one: as far apart as others
            found[i] = " lm-label"
    longest = max(len(cell_text(row[0])) for row in table.rows)
    if found[0] == " lm-long-words" and len(found) == 2 and longest <= _NAME:
        found[0] = ""
    return found


def first(mark: str, value: Any) -> str:
    """Return the class of a cell of the first column: what is short, as `temperature 0.8`, is on one line."""
    text = cell_text(value)
    short = mark in ("", " lm-long-words") and len(text) <= _WORD and re.search(r"[\s-]", text)
    return " lm-label" if short else mark


def headings(table: Table, marks: Sequence[str]) -> list[str]:
    """Return the class of each column's heading: it may break where the column's numbers may not.

    Of few columns of texts none is a word wide because another has longer texts. One alone may be narrower,
    and is not a word wide because figures fill a narrow page: the table scrolls there.
    """
    found = [" lm-right" if mark == " lm-n" else "" for mark in marks]
    texts = [i for i, mark in enumerate(marks)
             if mark == "" and any(len(cell_text(row[i])) > _WORD for row in table.rows)]  # fmt: skip
    for i in texts if len(texts) <= _SIDE_BY_SIDE and len(found) > 2 else ():
        found[i] = " lm-texts" if len(texts) > 1 else " lm-one-text"
    return found


def _broken(values: Sequence[Any]) -> str:
    """Return the class of a column of words by where its lines may be broken.

    Not between a bar and its number; in the middle of a word only where there are long ones, for a column
    that may be broken anywhere can become one letter wide.
    """
    if all(isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], Share) and not value[0].text
           for value in values):  # fmt: skip
        return " lm-alone"
    texts = [cell_text(value) for value in values]
    if all(map(_RANGE.fullmatch, texts)):  # also of nothing
        return " lm-label"
    longest = max((len(word) for text in texts for word in text.split()), default=0)
    return " lm-long-words" if longest > _WORD else ""
