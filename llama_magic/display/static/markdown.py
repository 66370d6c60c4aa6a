"""Nodes into Markdown that is data as well: raw HTML, images and mathematics are escaped.

A trusted notebook's Markdown output is rendered with its HTML live, in JupyterLab and in
nbconvert. So a model's Markdown is read once (`commonmark`) and written anew: the marks that were
read are written in one canonical way, every other mark is escaped, and all renderers agree.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from llama_magic.display.static import doc
from llama_magic.display.static.commonmark import Content, Element, read, words
from llama_magic.words.harmless import blanks_shown, one_line, visible
from llama_magic.words.tables import Marked, cell_text, is_number

_MARKS = re.compile(r"([`*_{}\[\]|~])")
_STARTS = re.compile(r"^([ \t]*)([#+=:-]|\d{1,9}(?=[.)]))", re.MULTILINE)
# An element of its own keeps `$` and `\(` from MathJax, which reads the page after Markdown was rendered.
_ENTITIES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "$": "<span>&#36;</span>",
    "\\": "<span>&#92;</span>",
}


def page(nodes: Sequence[doc.Node]) -> str:
    """Return one Markdown text."""
    return "\n\n".join(part for part in (fragment(node) for node in nodes) if part) + "\n"


def fragment(node: doc.Node) -> str:
    """Return the Markdown of one node."""
    return _WRITERS[type(node)](node)


def literal(text: str) -> str:
    """Escape text so that Markdown shows it as it is, line breaks included."""
    text = re.sub(r"[&<>\\$]", lambda mark: _ENTITIES[mark.group()], visible(text))
    text = _MARKS.sub(r"\\\1", text)
    text = _STARTS.sub(_escape_start, text)
    text = re.sub(r"^[ \t]+", lambda blanks: "\u00a0" * len(blanks.group()), text, flags=re.MULTILINE)
    text = re.sub(r"(?i)\b(https?|ftp)(?=://)|\bwww(?=\.)", _no_autolink, text)
    return re.sub(r"(?<=.)\n(?=.)", "  \n", text)


def _escape_start(match: re.Match[str]) -> str:
    blanks, mark = match[1], match[2]
    return f"{blanks}{mark[:-1]}&#{ord(mark[-1])};" if mark.isdigit() else f"{blanks}\\{mark}"


def _no_autolink(match: re.Match[str]) -> str:
    return f"{match.group()[:-1]}&#{ord(match.group()[-1])};"


def code_span(text: str) -> str:
    """Return an inline code span: a fence longer than any run of backticks inside."""
    text = visible(text).replace("\n", " ")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text[:1] in ("`", " ") or text[-1:] in ("`", " ") else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else ""


def code_block(text: str) -> str:
    """Return a fenced block: its fence outruns any backticks inside."""
    text = visible(text)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"


def _head(node: doc.Head) -> str:
    return (
        f"**{literal(node.label)}:** {literal(node.details)}"
        if node.details
        else f"**{literal(node.label)}**"
    )


def _answer(node: doc.Answer) -> str:
    if node.markdown:
        return elements(read(node.text))
    return "\n\n".join(literal(part) for part in re.split(r"\n{2,}", node.text))


_EDITED = {"": "{}", "kept": "<ins>{}</ins>", "struck": "<del>{}</del>"}


def _edited(node: doc.Edited) -> str:
    def line(text: str, mark: str) -> str:
        return _EDITED[mark].format(literal(text)) if text else ""

    # Line by line: an element within a paragraph ends with it.
    return "".join("  \n".join(line(one, mark) for one in text.split("\n")) for text, mark in node.parts)


def _line(node: doc.Line) -> str:
    return literal(node.text)


def _bar(node: doc.Bar) -> str:
    if not node.legend:
        return ""
    return " · ".join(literal(part.words) for part in node.segments)


def _strip(node: doc.Strip) -> str:
    return " ".join(
        code_span(f"⟦{piece.text}⟧" if piece.special else blanks_shown(piece.text) or "∅")
        for piece in node.pieces
    )


def _grid(node: doc.Grid) -> str:
    table = node.table
    if not table.rows:
        return literal(table.empty)
    rules = [
        "---:" if all(is_number(row[i]) or row[i] is None for row in table.rows) else "---"
        for i in range(len(table.headers))
    ]
    lines = [_row(table.headers), "| " + " | ".join(rules) + " |", *(_row(row) for row in table.rows)]
    return (f"{literal(table.caption)}\n\n" if table.caption else "") + "\n".join(lines)


def _piece(text: str, marked: bool) -> str:
    inner = text.lstrip(" ")
    blank = " " * (len(text) - len(inner))  # in the middle of a line it is one, and no indent
    return f"{blank}**{literal(inner)}**" if marked else f"{blank}{literal(inner)}"


def _pages(node: doc.Pages) -> str:
    first = _grid(doc.Grid(node.pages[0][1]))
    return f"{first}\n\n{literal(node.rest)}" if node.rest else first


def _row(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(value: Any) -> str:
    if isinstance(value, Marked):
        return "".join(_piece(one_line(text), marked) for text, marked in value.pieces)
    return literal(one_line(cell_text(value)))


def _code(node: doc.Code) -> str:
    return code_block(node.text)


def _fold(node: doc.Fold) -> str:
    inner = page(node.nodes).rstrip("\n")
    return "\n".join(f"> {line}".rstrip() for line in [f"*{literal(node.summary)}*", "", *inner.split("\n")])


def _tree(node: doc.Tree) -> str:
    return "\n".join(f"{'  ' * depth}- {literal(one_line(branch.text))}" for depth, branch in node.flat())


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


# --- a model's Markdown, written anew --------------------------------------------------------------


def elements(contents: Iterable[Content]) -> str:
    """Return canonical Markdown of elements: blocks, and runs of text between them."""
    parts: list[tuple[str, str]] = []  # (kind, text)
    for is_block, group in itertools.groupby(contents, key=_is_block):
        if is_block:
            parts += [(one.tag, _block(one)) for one in group if isinstance(one, Element)]
        else:
            parts.append(("p", _spans(group)))
    out = ""
    for i, (kind, text) in enumerate(parts):
        tight = kind in ("ul", "ol") and i and parts[i - 1][0] == "p"  # a list below the words of its item
        out += ("" if not i else "\n" if tight and not out.endswith("\n") else "\n\n") + text
    return out


def _is_block(one: Content) -> bool:
    return isinstance(one, Element) and one.tag not in ("strong", "em", "code", "a", "br")


def _block(one: Element) -> str:
    if one.tag[0] == "h" and one.tag != "hr":
        return "#" * int(one.tag[1]) + " " + _spans(one.children).replace("\n", " ")
    if one.tag == "pre":
        return code_block(words(one.children))
    if one.tag == "hr":
        return "---"
    if one.tag == "blockquote":
        return "\n".join(f"> {line}".rstrip() for line in elements(one.children).split("\n"))
    if one.tag == "div":
        [table] = one.children
        assert isinstance(table, Element)
        return _table(table)
    if one.tag in ("ul", "ol"):
        return "\n".join(_items(one))
    return _spans(one.children)


def _items(one: Element) -> Iterator[str]:
    number = int(dict(one.attributes).get("start", "1"))
    for item in one.children:
        assert isinstance(item, Element)
        mark = "- " if one.tag == "ul" else f"{number}. "
        number += 1
        first, *others = elements(item.children).split("\n")
        yield "\n".join([f"{mark}{first}", *(f"{' ' * len(mark)}{line}".rstrip() for line in others)])


def _table(one: Element) -> str:
    rows = [row for part in one.children if isinstance(part, Element) for row in part.children]
    lines = []
    for row in rows:
        assert isinstance(row, Element)
        cells = (literal(words(cell.children)) for cell in row.children if isinstance(cell, Element))
        lines.append(f"| {' | '.join(cells)} |")
    assert isinstance(rows[0], Element)
    lines.insert(1, "|" + " --- |" * len(rows[0].children))
    return "\n".join(lines)


def _spans(contents: Iterable[Content]) -> str:
    """Return inline Markdown; the text between the marks is escaped, with its line breaks."""
    out = ""
    for one in contents:
        if isinstance(one, str):
            out += literal(one)
        elif one.tag == "br":
            out += "  \n"
        else:
            out += _span(one)
    # An empty line would end the paragraph.
    return re.sub(r"^[ \t]*(?=\n)|(?<=\n)[ \t]*(?=\n)", "\u00a0", out)


def _span(one: Element) -> str:
    if one.tag == "code":
        return code_span(words(one.children))
    text = _spans(one.children)
    if one.tag == "a":
        href = dict(one.attributes)["href"]
        return f"[{text}](<{href.replace('<', '%3C').replace('>', '%3E')}>)"
    return f"**{text}**" if one.tag == "strong" else f"*{text}*"
