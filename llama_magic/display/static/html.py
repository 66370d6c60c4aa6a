"""Nodes into static HTML: no scripts, no addresses, words first, styles on top.

Everything that a model, a file or a user wrote goes through `escape.escaped`. The classes
are coloured by `base.css`, from the host's theme; with every style stripped (GitHub does
that) the same words stand in headings, paragraphs, lists and tables.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from llama_magic.display.static import doc
from llama_magic.display.static.lightmd import Block, Span, parse
from llama_magic.words.harmless import blanks_shown, escaped
from llama_magic.words.tables import Share, cell_text, is_number

LONG = 20_000  # characters of an answer; a longer one scrolls in a box of its own


@functools.cache
def _rules() -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the rules of `base.css`, without needless blanks, each with the classes it speaks of."""
    text = Path(__file__).with_name("base.css").read_text("utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"\s*([{};,>])\s*", r"\1", re.sub(r"\s+", " ", text)).replace(": ", ":").strip()
    rules = re.findall(r"[^{}]+\{(?:[^{}]|\{[^{}]*\})*\}", text)
    return tuple((rule, frozenset(re.findall(r"\.(lm-[\w-]+)", rule.partition("{")[0]))) for rule in rules)


def stylesheet(body: str) -> str:
    """Return the rules that a view needs: those without a class of ours, and those whose classes it uses."""
    used = set(re.findall(r"\blm-[\w-]+", body))
    return "".join(rule for rule, classes in _rules() if not classes or classes & used)


def page(nodes: Sequence[doc.Node], mark: str = "") -> str:
    """Return one self-contained HTML fragment for an output cell, with a further class `mark`.

    The two `ignore` classes keep MathJax (of JupyterLab and of nbconvert) away from it.
    """
    tone = next((f" lm-{node.tone}" for node in nodes if isinstance(node, doc.Head) and node.tone), "")
    tone += f" {mark}" if mark else ""
    body = "\n".join(fragment(node) for node in nodes)
    style = f"<style>{stylesheet(tone + body)}</style>"
    return f'<div class="lm{tone} tex2jax_ignore mathjax_ignore">{style}\n{body}\n</div>'


def fragment(node: doc.Node) -> str:
    """Return the HTML of one node."""
    return _WRITERS[type(node)](node)


def _head(node: doc.Head) -> str:
    details = f" {escaped(node.details)}" if node.details else ""
    return f'<p class="lm-head"><b>{escaped(node.label)}</b>{details}</p>'


def _answer(node: doc.Answer) -> str:
    box = " lm-long" if len(node.text) > LONG else ""
    reach = ' tabindex="0"' if box else ""  # a box that scrolls must be reachable by keyboard
    if node.markdown:
        return f'<div class="lm-text{box}"{reach}>{blocks_html(parse(node.text))}</div>'
    return f'<div class="lm-text lm-raw{box}"{reach}>{_breaks(escaped(node.text))}</div>'


def _breaks(text: str) -> str:
    return text.replace("\n", "<br>")


def _line(node: doc.Line) -> str:
    classes = "lm-foot" if node.dim else "lm-line"
    return f'<p class="{classes}{f" lm-{node.tone}" if node.tone else ""}">{_breaks(escaped(node.text))}</p>'


def _bar(node: doc.Bar) -> str:
    total = node.total or 1
    parts = "".join(
        f'<i class="lm-k-{escaped(part.kind)}" style="width:{100 * part.amount / total:.2f}%"></i>'
        for part in node.segments
        if part.amount > 0
    )
    bar = f'<div class="lm-bar" aria-hidden="true">{parts}</div>'
    keyed = node.legend or len(node.segments) > 1  # colours need a key; the words of other formats do not
    return bar + (_legend(node.segments) if keyed else "")


def _legend(segments: Iterable[doc.Segment]) -> str:
    items = "".join(
        f'<li><i class="lm-k-{escaped(part.kind)}"></i>{escaped(part.words)}</li>' for part in segments
    )
    return f'<ul class="lm-legend">{items}</ul>'


def _strip(node: doc.Strip) -> str:
    return f'<p class="lm-strip">{"".join(_piece(piece) for piece in node.pieces)}</p>'


def _piece(piece: doc.Piece) -> str:
    shown = escaped(blanks_shown(piece.text)) or "∅"
    words = ", ".join(
        word for word in (f"id {piece.token_id}" if piece.token_id is not None else "", piece.hint) if word
    )
    title = f' title="{escaped(words)}"' if words else ""
    if piece.special:
        return f'<span class="lm-c"{title}>⟦{shown}⟧</span> '
    shade = f' style="--lm-s:{piece.shade:.2f}"' if piece.shade else ""
    tint = f" lm-r-{escaped(piece.kind)}" if piece.kind else ""
    ends = "<br>" if piece.text.endswith("\n") else "<wbr>"
    shown = re.sub("([·↵→]+)", r'<span class="lm-ws">\1</span>', shown)
    return f'<span class="lm-t{tint}"{title}{shade}>{shown}</span>{ends}'


def _grid(node: doc.Grid) -> str:
    table = node.table
    if not table.rows:
        return f'<p class="lm-line">{escaped(table.empty)}</p>'
    right = [
        all(is_number(row[i]) or row[i] is None for row in table.rows) for i in range(len(table.headers))
    ]
    marks = [' class="lm-n"' if is_right else "" for is_right in right]
    head = "".join(
        f'<th scope="col"{mark}>{escaped(name)}</th>' for mark, name in zip(marks, table.headers, strict=True)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(f"<td{mark}>{_cell(value)}</td>" for mark, value in zip(marks, row, strict=True))
        + "</tr>"
        for row in table.rows
    )
    caption = f"<caption>{escaped(table.caption)}</caption>" if table.caption else ""
    return f'<table class="lm-table">{caption}<thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>'


def _cell(value: Any) -> str:
    if isinstance(value, tuple) and value and all(isinstance(item, Share) for item in value):
        return " · ".join(_share(item) for item in value)
    return _breaks(escaped(cell_text(value)))


def _share(item: Share) -> str:
    if item.gone:
        return f'<s class="lm-gone">{escaped(item.text)}</s> cut'
    bar = f'<i class="lm-p" style="width:{item.share * 5:.2f}em" aria-hidden="true"></i>'
    return f"{bar}{escaped(item.text)} {item.share:.0%}"


def _code(node: doc.Code) -> str:
    return f'<pre class="lm-code"><code>{escaped(node.text)}</code></pre>'


def _fold(node: doc.Fold) -> str:
    inner = "\n".join(fragment(inner) for inner in node.nodes)
    return f'<details class="lm-fold"><summary>{escaped(node.summary)}</summary>\n{inner}\n</details>'


def _picture(node: doc.Picture) -> str:
    return f'<div class="lm-picture">{node.svg}</div>'


_WRITERS: dict[type, Callable[[Any], str]] = {
    doc.Head: _head,
    doc.Answer: _answer,
    doc.Line: _line,
    doc.Bar: _bar,
    doc.Strip: _strip,
    doc.Grid: _grid,
    doc.Picture: _picture,
    doc.Code: _code,
    doc.Fold: _fold,
}


def blocks_html(blocks: Sequence[Block]) -> str:
    """Return the HTML of light Markdown. List items that follow each other share one list."""
    out: list[str] = []
    items: list[Block] = []
    for block in blocks:
        if block.kind == "item":
            items.append(block)
            continue
        if items:
            out.append(_list(items))
            items = []
        out.append(_block(block))
    if items:
        out.append(_list(items))
    return "\n".join(out)


def _list(items: Sequence[Block]) -> str:
    """Nest items by depth: a deeper item goes into a list inside the item before it."""
    out: list[str] = []
    open_lists: list[tuple[int, str]] = []  # (depth, tag)
    for item in items:
        tag = "ol" if item.marker[0].isdigit() else "ul"
        while open_lists and open_lists[-1][0] > item.depth:
            out.append(f"</li></{open_lists.pop()[1]}>")
        if open_lists and open_lists[-1][0] == item.depth and open_lists[-1][1] != tag:
            out.append(f"</li></{open_lists.pop()[1]}>")
        if open_lists and open_lists[-1][0] == item.depth:
            out.append("</li>")
        else:
            start = f' start="{int(item.marker[:-1])}"' if tag == "ol" and item.marker[:-1] != "1" else ""
            out.append(f"<{tag}{start}>")
            open_lists.append((item.depth, tag))
        out.append(f"<li>{spans_html(item.spans)}")
    out.extend(f"</li></{tag}>" for _, tag in reversed(open_lists))
    return "".join(out)


def _block(block: Block) -> str:
    if block.kind == "heading":
        level = min(6, block.depth + 2)  # an answer's headings stand below the notebook's own
        return f"<h{level}>{spans_html(block.spans)}</h{level}>"
    if block.kind == "code":
        language = f'<p class="lm-foot">{escaped(block.marker)}</p>' if block.marker else ""
        return f'{language}<pre class="lm-code"><code>{escaped(block.text)}</code></pre>'
    if block.kind == "rule":
        return "<hr>"
    if block.kind == "quote":
        return f"<blockquote>{blocks_html(block.blocks)}</blockquote>"
    if block.kind == "table":
        return _md_table(block)
    return f"<p>{spans_html(block.spans)}</p>"


def _md_table(block: Block) -> str:
    head = "".join(f'<th scope="col">{spans_html(cell)}</th>' for cell in block.rows[0])
    rows = "".join(
        "<tr>" + "".join(f"<td>{spans_html(cell)}</td>" for cell in row) + "</tr>" for row in block.rows[1:]
    )
    return f'<table class="lm-table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def spans_html(spans: Sequence[Span]) -> str:
    """Return the HTML of inline spans; only http, https and mailto addresses become links."""
    return "".join(_span(span) for span in spans)


def _span(span: Span) -> str:
    text = _breaks(escaped(span.text))
    if span.style == "link":
        address = escaped(span.href)  # also in words: a label can lie, and paper has no links
        link = f'<a href="{address}" rel="noopener noreferrer nofollow" target="_blank">{text}</a>'
        return link if text == address else f"{link} ({address})"
    return text if span.style == "text" else f"<{span.style}>{text}</{span.style}>"
