"""Light Markdown: what chat models write, read into a small tree, never into HTML.

Headings, lists, quotes, tables, fences, code, strong, emphasis and http links; everything
else (raw HTML, images, footnotes, mathematics) stays the text it is. `markdown.js` reads the
same grammar with the same limits, so the live view and the saved output look alike.
Time is linear in the text: inline spans are bounded, very long paragraphs are not parsed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from llama_magic.words.harmless import safe_link

MAX_PARAGRAPH = 20_000  # characters; a longer one is shown as plain text
_MAX_QUOTES = 4

Style = Literal["text", "code", "strong", "em", "link"]


@dataclass(frozen=True)
class Span:
    """A run of text in one style; `href` is set for links only."""

    text: str
    style: Style = "text"
    href: str = ""


@dataclass(frozen=True)
class Block:
    """One block. `depth` is a heading's level or a list item's nesting; `marker` an item's bullet."""

    kind: Literal["paragraph", "heading", "code", "item", "quote", "table", "rule"]
    spans: tuple[Span, ...] = ()
    depth: int = 0
    marker: str = ""
    text: str = ""  # of a fence, verbatim
    blocks: tuple[Block, ...] = ()  # of a quote
    rows: tuple[tuple[tuple[Span, ...], ...], ...] = ()  # of a table, the header first


_INLINE = re.compile(
    r"(?P<code>(?<!`)(?P<ticks>`{1,3})(?!`)(?P<body>[^\n]{1,1000}?)(?<!`)(?P=ticks)(?!`))"
    r"|(?P<image>!\[[^\]\n]{0,300}\]\([^)\n]{0,1000}\))"
    r"|(?P<link>\[(?P<label>[^\]\n]{1,300})\]\((?P<href>[^)\s]{1,1000})\))"
    r"|(?P<strong>\*\*(?![\s*])(?P<bold>[^\n*]{1,500})(?<!\s)\*\*)"
    r"|(?P<em>(?<![\w*])\*(?![\s*])(?P<slant>[^\n*]{1,500})(?<!\s)\*(?![\w*]))"
)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\n]{0,100})$")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
_RULE = re.compile(r" {0,3}(?:\*[ \t]*){3,}$| {0,3}(?:-[ \t]*){3,}$| {0,3}(?:_[ \t]*){3,}$")
_ITEM = re.compile(r"([ \t]{0,24})([-*+]|\d{1,9}[.)])[ \t]+(.*)$")
_QUOTE = re.compile(r" {0,3}> ?(.*)$")
_DELIMITER = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")


def inline(text: str) -> tuple[Span, ...]:
    """Read one paragraph into spans; the texts of the spans keep every character but the marks read."""
    if len(text) > MAX_PARAGRAPH:
        return (Span(text),)
    spans: list[Span] = []
    end = 0
    for match in _INLINE.finditer(text):
        span = _span(match)
        if span is None:
            continue
        if match.start() > end:
            spans.append(Span(text[end : match.start()]))
        spans.append(span)
        end = match.end()
    if end < len(text):
        spans.append(Span(text[end:]))
    return tuple(spans)


def _span(match: re.Match[str]) -> Span | None:
    if match["code"]:
        return Span(match["body"], "code")
    if match["link"] and safe_link(match["href"]):
        return Span(match["label"], "link", match["href"])
    if match["strong"]:
        return Span(match["bold"], "strong")
    if match["em"]:
        return Span(match["slant"], "em")
    return None  # an image or an unsafe link stays the text it is


def parse(text: str, _quotes: int = 0) -> tuple[Block, ...]:
    """Read a text into blocks."""
    lines = text.replace("\r\n", "\n").split("\n")
    blocks: list[Block] = []
    at = 0
    while at < len(lines):
        if not lines[at].strip(" \t"):
            at += 1
            continue
        at = _block(lines, at, blocks, _quotes)
    return tuple(blocks)


def _block(lines: list[str], at: int, blocks: list[Block], quotes: int) -> int:
    """Read the block that starts at line `at`; return the line after it."""
    line = lines[at]
    if len(line) > MAX_PARAGRAPH:
        blocks.append(Block("paragraph", (Span(line),)))
        return at + 1
    if fence := _FENCE.match(line):
        return _fence(lines, at, fence, blocks)
    if heading := _HEADING.match(line):
        blocks.append(Block("heading", inline(heading[2]), depth=len(heading[1])))
        return at + 1
    if _RULE.match(line):
        blocks.append(Block("rule"))
        return at + 1
    if _QUOTE.match(line) and quotes < _MAX_QUOTES:
        return _quote(lines, at, blocks, quotes)
    if item := _ITEM.match(line):
        return _item(lines, at, item, blocks)
    if _starts_table(lines, at):
        return _table(lines, at, blocks)
    return _paragraph(lines, at, blocks, quotes)


def _fence(lines: list[str], at: int, fence: re.Match[str], blocks: list[Block]) -> int:
    closing = re.compile(rf" {{0,3}}{re.escape(fence[1][0])}{{{len(fence[1])},}}[ \t]*$")
    end = at + 1
    while end < len(lines) and not closing.match(lines[end]):
        end += 1
    blocks.append(Block("code", text="\n".join(lines[at + 1 : end]), marker=fence[2].strip()))
    return end + 1


def _quote(lines: list[str], at: int, blocks: list[Block], quotes: int) -> int:
    inner = []
    while at < len(lines) and (quote := _QUOTE.match(lines[at])):
        inner.append(quote[1])
        at += 1
    blocks.append(Block("quote", blocks=parse("\n".join(inner), quotes + 1)))
    return at


def _item(lines: list[str], at: int, item: re.Match[str], blocks: list[Block]) -> int:
    body = [item[3]]
    at += 1
    while at < len(lines) and lines[at].startswith("  ") and not _ITEM.match(lines[at]):
        if not lines[at].strip() or _FENCE.match(lines[at]):
            break
        body.append(lines[at].strip())
        at += 1
    depth = len(item[1].expandtabs(4)) // 2
    blocks.append(Block("item", inline("\n".join(body)), depth=min(depth, 8), marker=item[2]))
    return at


def _cells(line: str) -> tuple[tuple[Span, ...], ...]:
    return tuple(inline(cell.strip()) for cell in line.strip().strip("|").split("|"))


def _starts_table(lines: list[str], at: int) -> bool:
    return "|" in lines[at] and at + 1 < len(lines) and "|" in lines[at + 1] and _is_delimiter(lines[at + 1])


def _is_delimiter(line: str) -> bool:
    return len(line) < 1000 and bool(_DELIMITER.match(line))


def _table(lines: list[str], at: int, blocks: list[Block]) -> int:
    rows = [_cells(lines[at])]
    at += 2
    while at < len(lines) and "|" in lines[at]:
        rows.append(_cells(lines[at]))
        at += 1
    blocks.append(Block("table", rows=tuple(rows)))
    return at


def _paragraph(lines: list[str], at: int, blocks: list[Block], quotes: int) -> int:
    starts = (_FENCE, _HEADING, _RULE, _ITEM, *(() if quotes >= _MAX_QUOTES else (_QUOTE,)))
    body = [lines[at]]
    at += 1
    while at < len(lines) and lines[at].strip(" \t"):
        line = lines[at]
        if len(line) > MAX_PARAGRAPH or any(start.match(line) for start in starts):
            break
        if _starts_table(lines, at):
            break
        body.append(line)
        at += 1
    blocks.append(Block("paragraph", inline("\n".join(body))))
    return at
