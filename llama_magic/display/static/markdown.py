"""Nodes into Markdown that is data as well: raw HTML, images and mathematics are escaped.

A trusted notebook's Markdown output is rendered with its HTML live, in JupyterLab and in
nbconvert. So a model's Markdown is read by `lightmd` and written anew: the marks that were
read are written in one canonical way, every other mark is escaped, and all renderers agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from llama_magic.display.static import doc
from llama_magic.display.static.lightmd import Block, Span, parse
from llama_magic.words.harmless import blanks_shown, one_line, visible
from llama_magic.words.tables import cell_text, is_number

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


def code_block(text: str, language: str = "") -> str:
    """Return a fenced block: its fence outruns any backticks inside; `language` stands above it in words."""
    text = visible(text)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    above = f"{literal(language)}\n\n" if language else ""
    return f"{above}{fence}\n{text}\n{fence}"


def _head(node: doc.Head) -> str:
    return f"**{literal(node.label)}**" + (f" {literal(node.details)}" if node.details else "")


def _answer(node: doc.Answer) -> str:
    if node.markdown:
        return blocks_markdown(parse(node.text))
    return "\n\n".join(literal(part) for part in re.split(r"\n{2,}", node.text))


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


def _row(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(literal(one_line(cell_text(cell))) for cell in cells) + " |"


def _code(node: doc.Code) -> str:
    return code_block(node.text)


def _fold(node: doc.Fold) -> str:
    inner = page(node.nodes).rstrip("\n")
    return "\n".join(f"> {line}".rstrip() for line in [f"*{literal(node.summary)}*", "", *inner.split("\n")])


_WRITERS: dict[type, Callable[[Any], str]] = {
    doc.Head: _head,
    doc.Answer: _answer,
    doc.Line: _line,
    doc.Bar: _bar,
    doc.Strip: _strip,
    doc.Grid: _grid,
    doc.Picture: lambda _node: "",
    doc.Code: _code,
    doc.Fold: _fold,
}


def blocks_markdown(blocks: Sequence[Block]) -> str:
    """Return canonical Markdown of light Markdown."""
    out = ""
    before: Block | None = None
    for block in blocks:
        tight = before is not None and before.kind == block.kind == "item"
        out += ("" if not out else "\n" if tight else "\n\n") + _block(block)
        before = block
    return out


def _block(block: Block) -> str:
    if block.kind == "heading":
        return "#" * min(6, block.depth + 2) + " " + spans_markdown(block.spans).replace("\n", " ")
    if block.kind == "code":
        return code_block(block.text, block.marker)
    if block.kind == "rule":
        return "---"
    if block.kind == "quote":
        return "\n".join(f"> {line}".rstrip() for line in blocks_markdown(block.blocks).split("\n"))
    if block.kind == "table":
        return _md_table(block)
    if block.kind == "item":
        indent = " " * (4 * (block.depth // 2) if block.depth > 1 else 4 * block.depth)
        return f"{indent}{block.marker} " + spans_markdown(block.spans).replace("\n", f"\n{indent}  ")
    return spans_markdown(block.spans)


def _md_table(block: Block) -> str:
    width = len(block.rows[0])
    lines = []
    for row in block.rows:
        cells = [literal("".join(span.text for span in cell)) for cell in row[:width]]
        lines.append("| " + " | ".join(cells + [""] * (width - len(cells))) + " |")
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines)


def spans_markdown(spans: Sequence[Span]) -> str:
    """Return inline Markdown; text between the marks is escaped."""
    return "".join(_span(span) for span in spans)


def _span(span: Span) -> str:
    if span.style == "code":
        return code_span(span.text)
    text = literal(span.text)
    if span.style == "link":
        link = f"[{text}](<{span.href.replace('<', '%3C').replace('>', '%3E')}>)"
        return link if span.text == span.href else f"{link} ({literal(span.href)})"
    return {"text": text, "strong": f"**{text}**", "em": f"*{text}*"}[span.style]
