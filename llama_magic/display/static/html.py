"""Nodes into static HTML: no scripts, no addresses, words first, styles on top.

Everything that a model, a file or a user wrote goes into `Html`, which escapes it. The classes
are coloured by `base.css`, from the host's theme; with every style stripped (GitHub does
that) the same words stand in headings, paragraphs, lists and tables.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from llama_magic.display.static import commonmark, doc
from llama_magic.display.static.commonmark import Content
from llama_magic.display.static.markup import Html
from llama_magic.words.harmless import blanks_shown, visible
from llama_magic.words.tables import Share, cell_text, is_number

LONG = 20_000  # characters of an answer; a longer one scrolls in a box of its own
_NONE = Html()
_LINE = Html("\n")
# Of a table, which a live view writes anew at every move.
_TD = Html("<td{}>{}</td>")
_TR = Html("<tr>{}</tr>")
_DOT = Html(" · ")
_GONE = Html('<s class="lm-gone">{}</s> cut')
_SHARE = Html('<i class="lm-p" style="width:{:.2f}em" aria-hidden="true"></i>{} {:.0%}')


@functools.cache
def _rules() -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return the rules of `base.css`, without needless blanks: selectors, and the block behind them."""
    text = Path(__file__).with_name("base.css").read_text("utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"\s*([{};,>])\s*", r"\1", re.sub(r"\s+", " ", text)).replace(": ", ":").strip()
    rules = re.findall(r"([^{}]+)(\{(?:[^{}]|\{[^{}]*\})*\})", text)
    return tuple((tuple(re.split(r",(?![^(]*\))", selectors)), block) for selectors, block in rules)


def stylesheet(body: str) -> str:
    """Return the rules that a view needs: for its classes and elements, with the colours that they name."""
    there = set(re.findall(r"\blm-[\w-]+", body)) | set(re.findall(r"<([a-z]\w*)", body))
    if " tabindex=" in body or "summary" in there:
        there.add(":focus-visible")
    made = [(",".join(s for s in selectors if _needs(s) <= there), block) for selectors, block in _rules()]
    text = "".join(selectors + block for selectors, block in made if selectors)
    named = set(re.findall(r"var\((--lm-\w+)", text + body))
    return re.sub(r"(--lm-\w+):[^;{}]*;", lambda found: found[0] if found[1] in named else "", text)


@functools.cache
def _needs(selector: str) -> set[str]:
    """Return our classes that a selector speaks of, and the element that it ends with."""
    if selector.startswith((".jp-", "@")):  # about what stands around a view
        return set(re.findall(r"\.(lm-standin)", selector))
    last = re.findall(r"(?:^|[ >])([a-z]\w*)[^ >]*$", selector)
    return {*re.findall(r"\.(lm-[\w-]+)", selector), *last, *re.findall(r":focus-visible", selector)}


def page(nodes: Sequence[doc.Node]) -> str:
    """Return one self-contained HTML fragment for an output cell."""
    return pages(nodes, "")[0]


def pages(nodes: Sequence[doc.Node], *marks: str) -> list[str]:
    """Return the same fragment several times, each with a further class.

    The two `ignore` classes keep MathJax (of JupyterLab and of nbconvert) away from it.
    """
    tone = next((f" lm-{node.tone}" for node in nodes if isinstance(node, doc.Head) and node.tone), "")
    body = _LINE.join(fragment(node) for node in nodes)
    whole = Html('<div class="lm{} tex2jax_ignore mathjax_ignore"><style>{}</style>\n{}\n</div>')
    looks = [tone + f" {mark}" if mark else tone for mark in marks]
    return [str(whole.format(look, Html(stylesheet(look + body)), body)) for look in looks]


def fragment(node: doc.Node) -> Html:
    """Return the HTML of one node."""
    return _WRITERS[type(node)](node)


def elements(contents: Iterable[Content]) -> Html:
    """Return the HTML of elements and texts."""
    return _NONE.join(_element(one) for one in contents)


def _element(one: Content) -> str | Html:
    if isinstance(one, str):
        return one
    tag = Html(one.tag)
    attributes = _NONE.join(Html(' {}="{}"').format(name, value) for name, value in one.attributes)
    if one.tag in ("br", "hr"):
        return Html("<{}{}>").format(tag, attributes)
    return Html("<{0}{1}>{2}</{0}>").format(tag, attributes, elements(one.children))


def _lines(text: str) -> Html:
    if "\n" not in text:
        return Html.escape(text)
    return elements(commonmark.lines(visible(text)))


def _head(node: doc.Head) -> Html:
    details = Html(" {}").format(node.details) if node.details else _NONE
    return Html('<p class="lm-head"><b>{}</b>{}</p>').format(node.label, details)


def _answer(node: doc.Answer) -> Html:
    box = " lm-long" if len(node.text) > LONG else ""
    reach = Html(' tabindex="0"') if box else _NONE  # a box that scrolls must be reachable by keyboard
    if node.markdown:
        inner = _LINE.join(elements([one]) for one in commonmark.read(node.text))
        return Html('<div class="lm-text{}"{}>{}</div>').format(box, reach, inner)
    return Html('<div class="lm-text lm-raw{}"{}>{}</div>').format(box, reach, _lines(node.text))


def _line(node: doc.Line) -> Html:
    classes = ("lm-foot" if node.dim else "lm-line") + (f" lm-{node.tone}" if node.tone else "")
    return Html('<p class="{}">{}</p>').format(classes, _lines(node.text))


def _bar(node: doc.Bar) -> Html:
    total = node.total or 1
    parts = _NONE.join(
        Html('<i class="lm-k-{}" style="width:{:.2f}%"></i>').format(part.kind, 100 * part.amount / total)
        for part in node.segments
        if part.amount > 0
    )
    bar = Html('<div class="lm-bar" aria-hidden="true">{}</div>').format(parts)
    keyed = node.legend or len(node.segments) > 1  # colours need a key; the words of other formats do not
    return bar + (_legend(node.segments) if keyed else _NONE)


def _legend(segments: Iterable[doc.Segment]) -> Html:
    item = Html('<li><i class="lm-k-{}"></i>{}</li>')
    items = _NONE.join(item.format(part.kind, part.words) for part in segments)
    return Html('<ul class="lm-legend">{}</ul>').format(items)


def _strip(node: doc.Strip) -> Html:
    return Html('<p class="lm-strip">{}</p>').format(_NONE.join(_piece(piece) for piece in node.pieces))


def _piece(piece: doc.Piece) -> Html:
    shown = blanks_shown(piece.text) or "∅"
    words = ", ".join(
        word for word in (f"id {piece.token_id}" if piece.token_id is not None else "", piece.hint) if word
    )
    title = Html(' title="{}"').format(words) if words else _NONE
    if piece.special:
        return Html('<span class="lm-c"{}>⟦{}⟧</span> ').format(title, shown)
    shade = Html(' style="--lm-s:{:.2f}"').format(piece.shade) if piece.shade else _NONE
    tint = f" lm-r-{piece.kind}" if piece.kind else ""
    ends = Html("<br>") if piece.text.endswith("\n") else Html("<wbr>")
    token = Html('<span class="lm-t{}"{}{}>{}</span>{}')
    return token.format(tint, title, shade, _NONE.join(map(_blank, re.split("([·↵→]+)", shown))), ends)


def _blank(part: str) -> str | Html:
    return Html('<span class="lm-ws">{}</span>').format(part) if part[:1] in ("·", "↵", "→") else part


def _grid(node: doc.Grid) -> Html:
    table = node.table
    if not table.rows:
        return Html('<p class="lm-line">{}</p>').format(table.empty)
    right = [
        all(is_number(row[i]) or row[i] is None for row in table.rows) for i in range(len(table.headers))
    ]
    marks = [Html(' class="lm-n"') if is_right else _NONE for is_right in right]
    head = _NONE.join(
        Html('<th scope="col"{}>{}</th>').format(mark, name)
        for mark, name in zip(marks, table.headers, strict=True)
    )
    rows = _LINE.join(_row(marks, row) for row in table.rows)
    caption = Html("<caption>{}</caption>").format(table.caption) if table.caption else _NONE
    whole = Html('<table class="lm-table">{}<thead><tr>{}</tr></thead><tbody>\n{}\n</tbody></table>')
    return whole.format(caption, head, rows)


def _pages(node: doc.Pages) -> Html:
    (_, first), *others = node.pages
    folds = (_fold(doc.Fold(name, (doc.Grid(table),))) for name, table in others)
    rest = [_line(doc.Line(node.rest, dim=True))] if node.rest and len(node.pages) > 1 else []
    return _LINE.join([_grid(doc.Grid(first)), *folds, *rest])


def _row(marks: Sequence[Html], row: Sequence[Any]) -> Html:
    cells = (_TD.format(mark, _cell(value)) for mark, value in zip(marks, row, strict=True))
    return _TR.format(_NONE.join(cells))


def _cell(value: Any) -> Html:
    if isinstance(value, tuple) and value and all(isinstance(item, Share) for item in value):
        return _DOT.join(map(_share, value))
    return _lines(cell_text(value))


def _share(item: Share) -> Html:
    if item.gone:
        return _GONE.format(item.text)
    return _SHARE.format(item.share * 5, item.text, item.share)


def _code(node: doc.Code) -> Html:
    return Html('<pre class="lm-code"><code>{}</code></pre>').format(node.text)


def _fold(node: doc.Fold) -> Html:
    inner = _LINE.join(fragment(inner) for inner in node.nodes)
    whole = Html('<details class="lm-fold"><summary>{}</summary>\n{}\n</details>')
    return whole.format(node.summary, inner)


def _picture(node: doc.Picture) -> Html:
    return Html('<div class="lm-picture">{}</div>').format(Html(node.svg))


_WRITERS: dict[type, Callable[[Any], Html]] = {
    doc.Head: _head,
    doc.Answer: _answer,
    doc.Line: _line,
    doc.Bar: _bar,
    doc.Strip: _strip,
    doc.Grid: _grid,
    doc.Pages: _pages,
    doc.Picture: _picture,
    doc.Code: _code,
    doc.Fold: _fold,
}
