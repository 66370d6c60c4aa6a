"""Nodes into plain text, for terminals, `text/plain` and screen readers; no escape sequences."""

from __future__ import annotations

import itertools
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from llama_magic.display.static import doc
from llama_magic.words.counting import counted
from llama_magic.words.harmless import blanks_shown, one_line, visible
from llama_magic.words.screens import is_screen
from llama_magic.words.tables import cell_text, is_number

_CELL = 320  # columns; a wider cell is cut with an ellipsis
_WIDTH = 100
_TERMINAL = 80  # columns of a terminal as it opens: where a table is wider, its long cells are wrapped
_LONG = 24  # columns of a cell that may have lines of its own then
_BRIEF = 12  # lines of a brief fold
_BREAK = re.compile(r"[ /\\]|[.,:](?![\d”])")  # behind which a line may end


def page(nodes: Sequence[doc.Node]) -> str:
    """Return the text of a whole view, without a line break at the end."""
    return "\n".join(part for part in (fragment(node) for node in nodes) if part)


def fragment(node: doc.Node) -> str:
    """Return the text of one node."""
    return _WRITERS[type(node)](node)


def _head(node: doc.Head) -> str:
    return visible(f"{node.label}: {node.details}" if node.details else node.label)


def _answer(node: doc.Answer) -> str:
    return visible(node.text)


_EDITED = {"": "{}", "kept": "{{+{}+}}", "struck": "[-{}-]"}


def _edited(node: doc.Edited) -> str:
    return "".join(_EDITED[mark].format(visible(text)) for text, mark in node.parts)


def _line(node: doc.Line) -> str:
    return visible(node.text)


def _bar(node: doc.Bar) -> str:
    if not node.legend:
        return ""
    return visible(" · ".join(part.words for part in node.segments))


def _strip(node: doc.Strip) -> str:
    """Write tokens with bars between them; a line ends behind a token, never within one."""
    lines, room = [""], 0
    for piece in node.pieces:
        word = f"⟦{one_line(piece.text)}⟧" if piece.special else blanks_shown(piece.text) or "∅"
        wide = columns(word) + 1
        if not lines[-1]:
            lines[-1], room = word, _WIDTH + 1 - wide
        elif wide <= room:
            lines[-1], room = f"{lines[-1]}│{word}", room - wide
        else:
            lines.append(word)
            room = _WIDTH + 1 - wide
        if piece.text.endswith("\n") and not piece.special:
            lines.append("")
    return "\n".join(lines).rstrip("\n")


def _grid(node: doc.Grid) -> str:
    table = node.table
    if not table.rows:
        return table.empty
    cells = [
        [_cut(one_line(cell_text(value), _CELL)).replace("\u00a0", " ") for value in row]
        for row in (table.headers, *table.rows)
    ]
    widths = [max(columns(row[i]) for row in cells) for i in range(len(table.headers))]
    right = [
        all(is_number(row[i]) or row[i] is None for row in table.rows) for i in range(len(table.headers))
    ]
    wide = sum(widths) + 2 * (len(widths) - 1) > terminal()
    if wide and (rooms := _rooms(widths)):
        widths = [rooms.get(at, width) for at, width in enumerate(widths)]
        cells = [line for row in cells for line in _wrapped(row, rooms)]
    elif wide and any(width > _LONG for width in widths):  # many short columns stay a table
        return "\n".join([visible(table.caption)] * bool(table.caption) + _records(cells, widths))
    lines = [
        "  ".join(
            _pad(cell, width, is_right) for cell, width, is_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join([visible(table.caption)] * bool(table.caption) + lines)


def _pages(node: doc.Pages) -> str:
    first = _grid(doc.Grid(node.pages[0][1]))
    return f"{first}\n{visible(node.rest)}" if node.rest else first


def terminal() -> int:
    """Return the columns of the terminal that is written to; of a file or a notebook, those of most."""
    return shutil.get_terminal_size().columns if is_screen(sys.stdout) else _TERMINAL


def _rooms(widths: list[int]) -> dict[int, int]:
    """Return how wide a table's long columns may be side by side; none where there is no room."""
    long = [at for at, width in enumerate(widths) if width > _LONG]
    if len(widths) == 2:
        long = [1]
    left = terminal() - 2 * (len(widths) - 1) - sum(w for at, w in enumerate(widths) if at not in long)
    if len(long) > 1 and left < _LONG * len(long):
        return {}
    rooms = {}
    for number, at in enumerate(sorted(long, key=widths.__getitem__)):  # what one does not need is another's
        rooms[at] = min(widths[at], max(_LONG, left // (len(long) - number)))
        left -= rooms[at]
    return rooms


def _wrapped(row: list[str], rooms: dict[int, int]) -> list[list[str]]:
    """Return a row as lines: cells are broken where their column has so much room, but a path at the end."""
    end = row[-1]
    path = " " not in end and ("/" in end or "\\" in end)  # to be copied
    cells = [
        [cell] if at not in rooms or (path and at == len(row) - 1) else _pieces(cell, rooms[at])
        for at, cell in enumerate(row)
    ]
    return [list(line) for line in itertools.zip_longest(*cells, fillvalue="")] or [row]


def _pieces(text: str, room: int) -> list[str]:
    """Break a text into lines of `room` columns, behind blanks, slashes or dots where there are any.

    Not in a number, nor in front of the end of a quote.
    """
    lines = []
    while columns(text) > room:
        most = next(i for i in range(len(text), 0, -1) if columns(text[:i]) <= room)
        end = next((i for i in range(most, most // 2, -1) if _BREAK.match(text, i - 1)), most)
        lines.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [*lines, text] if text else lines


def _records(cells: list[list[str]], widths: list[int]) -> list[str]:
    """Return each row as a line of its short cells and lines for each long one."""
    headers, *rows = cells
    lines = []
    for row in rows:
        named = [(name, cell, width > _LONG) for name, cell, width in zip(headers, row, widths, strict=True)]
        short = " · ".join(f"{name} {cell}" for name, cell, long in named if cell and not long)
        lines += textwrap.wrap(short, terminal(), subsequent_indent="  ")
        for name, cell, long in named:
            if cell and long:
                first, *more = _pieces(f"{name}: {cell}", terminal() - 4)
                lines += [f"  {first}", *(f"    {piece}" for piece in more)]
    return lines


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes (CJK takes two, combining marks none)."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def _cut(text: str, most: int = _CELL) -> str:
    """Cut a text to some columns: 60 characters of Japanese take 120."""
    if columns(text) <= most:
        return text
    while columns(text) >= most:
        text = text[:-1]
    return f"{text}…"


def _pad(cell: str, width: int, right: bool) -> str:
    blanks = " " * (width - columns(cell))
    return blanks + cell if right else cell + blanks


def _code(node: doc.Code) -> str:
    return visible(node.text)


def _fold(node: doc.Fold) -> str:
    lines = page(node.nodes).splitlines()
    if node.brief and len(lines) > _BRIEF:
        lines = [*lines[:_BRIEF], f"… {counted(len(lines) - _BRIEF, 'more line')}"]
    return visible(node.summary) + "\n" + textwrap.indent("\n".join(lines), "  ")


def _tree(node: doc.Tree) -> str:
    return "\n".join("  " * depth + one_line(branch.text) for depth, branch in node.flat())


_WRITERS: dict[type, Callable[[Any], str]] = {
    doc.Head: _head,
    doc.Answer: _answer,
    doc.Edited: _edited,
    doc.Line: _line,
    doc.Bar: _bar,
    doc.Strip: _strip,
    doc.Grid: _grid,
    doc.Pages: _pages,
    doc.Tree: _tree,
    doc.Code: _code,
    doc.Fold: _fold,
}
