"""Nodes into static HTML: no scripts, no addresses, words first, styles on top.

Everything that a model, a file or a user wrote goes into `Html`, which escapes it. Style stands in the
elements themselves (`inline.py`), for untrusted notebooks keep no other; with every style stripped (GitHub
does that) the same words stand in headings, paragraphs, lists, keys (`<kbd>`) and tables.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llama_magic.display.static import columns, commonmark, doc, inline, jinja, unbroken
from llama_magic.display.static.commonmark import Content
from llama_magic.display.static.markup import Html
from llama_magic.words.harmless import blanks_shown, visible
from llama_magic.words.tables import Figure, Marked, Share, Table, cell_text, percent

LONG = 20_000  # characters of an answer; a longer one scrolls in a box of its own
# In Markdown (nbconvert's export) HTML ends there, and the rest of a model's code would be read as Markdown.
_BLANK_LINE = re.compile(r"(?<=\n)([ \t]*)\n")
_NONE = Html()
_LINE = Html("\n")
# Of a table, which a live view writes anew at every move.
_TD = Html('<td class="lm-td{}"{}>{}</td>')
_TH = Html('<th class="lm-th{}" scope="col"{}>{}</th>')
_HEAD = Html('<thead><tr class="lm-tr">{}</tr></thead>')
_TR = Html('<tr class="lm-tr">{}</tr>')
_TR_ON = Html('<tr class="lm-on">{}</tr>')  # the next one says more of the same
_EMPTY = Html("<td></td>")
_END = " lm-end"  # of the last column
_LIST = Html(";<wbr>")  # `--samplers "top_k;top_p"`: a line may end behind it
_DOT = Html(" · ")
_COMMA = Html(", ")  # no dot: it is what a blank within a token is shown as
# No <mark>: it is black, whatever the theme, where `color: inherit` is dropped (JupyterLab, not trusted).
_MARK = Html('<ins class="lm-mark">{}</ins>')
_GONE = Html('<s class="lm-dim">{}</s> cut')
_ONE = Html('<span class="lm-key">{}</span>')  # stays on one line: a bar, its words and number; an option
_SHARE = Html('<span class="lm-p" style="width:{:.2f}em" aria-hidden="true"></span>{}{}{}')


def page(nodes: Sequence[doc.Node]) -> str:
    """Return one self-contained HTML fragment for an output cell.

    The two `ignore` classes keep MathJax (of JupyterLab and of nbconvert) away from it.
    """
    tone = next((f" lm-is-{node.tone}" for node in nodes if isinstance(node, doc.Head) and node.tone), "")
    body = _LINE.join(
        _head(node, " lm-next") if i and isinstance(node, doc.Head) else fragment(node)
        for i, node in enumerate(nodes)
    )
    whole = Html('<div class="lm{} tex2jax_ignore mathjax_ignore">\n{}\n</div>')
    return _BLANK_LINE.sub(r"\1&#10;", inline.inlined(str(whole.format(tone, body))))


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
    """Return a text of ours or a value in it: its lines, and in them what is not to be broken."""
    lines = commonmark.lines(visible(text))
    return _NONE.join(_whole(one) if isinstance(one, str) else _element(one) for one in lines)


def _whole(text: str, *, command: bool = False) -> Html:
    pieces = unbroken.pieces(text, command=command)
    return _NONE.join(_ONE.format(piece) if whole else piece for piece, whole in pieces)


def _head(node: doc.Head, place: str = "") -> Html:
    label = f"{node.label}:" if node.details else node.label  # as in all formats
    if node.sentence:
        return Html('<p class="lm-line"><b>{}</b> {}</p>').format(label, _lines(node.details))
    details = Html(' <span class="lm-dim">{}</span>').format(node.details) if node.details else _NONE
    return Html('<p class="lm-head{}"><b>{}</b>{}</p>').format(place, label, details)


def _answer(node: doc.Answer) -> Html:
    box = " lm-long" if len(node.text) > LONG else ""
    reach = Html(' tabindex="0"') if box else _NONE  # a box that scrolls must be reachable by keyboard
    if node.markdown:
        inner = _LINE.join(elements([one]) for one in commonmark.read(node.text))
        return Html('<div class="lm-text{}"{}>{}</div>').format(box, reach, inner)
    inner = elements(commonmark.lines(visible(node.text)))
    way = Html(' dir="rtl"') if commonmark.leftward((node.text,)) else _NONE
    return Html('<div class="lm-text lm-raw{}"{}{}>{}</div>').format(box, reach, way, inner)


_EDITED = {"": Html("{}"), "kept": Html("<ins>{}</ins>"), "struck": Html('<del class="lm-dim">{}</del>')}


def _edited(node: doc.Edited) -> Html:
    inner = _NONE.join(_EDITED[mark].format(_lines(text)) for text, mark in node.parts)
    return Html('<div class="lm-text lm-raw">{}</div>').format(inner)


def _line(node: doc.Line) -> Html:
    classes = ("lm-foot" if node.dim else "lm-line") + (f" lm-{node.tone}" if node.tone else "")
    return Html('<p class="{}">{}</p>').format(classes, _lines(node.text))


_PART = Html('<span class="lm-part lm-k-{}" style="width:{:.2f}%"></span>')
_BAR = Html('<div class="lm-bar" aria-hidden="true">{}</div>')
_WHOLE = Html(
    '<div class="lm-whole" aria-hidden="true"><span class="lm-used" style="width:{:.2f}%"></span></div>'
)


def _bar(node: doc.Bar) -> Html:
    total = (node.used if node.enlarged else node.total) or 1
    parts = (_PART.format(part.kind, 100 * part.amount / total) for part in node.segments if part.amount > 0)
    # Colours need a key; the words of other formats do not.
    keyed = node.legend or len(node.segments) > 1 or node.room is not None
    room = [] if node.room is None else [doc.Segment("the window holds", "room", node.room)]
    legend = _legend([*node.segments, *room]) if keyed else _NONE
    thin = node.used if node.enlarged else node.room
    whole = _NONE if thin is None else _WHOLE.format(max(0.3, 100 * thin / node.total))
    return _BAR.format(_NONE.join(parts)) + legend + whole


def _legend(segments: Sequence[doc.Segment]) -> Html:
    """Return the key of a bar: a dot and words for each part, on one line each where they fit."""
    # The dot is made of blanks: a line may end behind a box, and a span around both is 40 bytes more a turn.
    item = Html('<span class="lm-dot lm-k-{}">\u00a0\u00a0\u00a0</span>\u00a0{}')
    items = _DOT.join(item.format(part.kind, part.words.replace(" ", "\u00a0")) for part in segments)
    return Html('<p class="lm-legend">{}</p>').format(items)


def _strip(node: doc.Strip) -> Html:
    return Html('<p class="lm-strip">{}</p>').format(
        _NONE.join(_piece(piece, even=i % 2 == 1) for i, piece in enumerate(node.pieces))
    )


def _piece(piece: doc.Piece, *, even: bool) -> Html:
    """Return a token as a key, so that its edges are seen without any style."""
    text = blanks_shown(piece.text) or "∅"
    words = ", ".join(
        word for word in (f"id {piece.token_id}" if piece.token_id is not None else "", piece.hint) if word
    )
    title = Html(' title="{}"').format(words) if words else _NONE
    # The blanks are seen where styles are dropped, for then a number stands right behind its token.
    below = Html('<sub class="lm-below"> {}</sub>').format(piece.below) if piece.below else _NONE
    shown = Html("{}{}").format(text, below)
    if piece.special:  # in brackets, too, for what drops styles drops the outline
        return Html('<kbd class="lm-c"{}>⟦{}⟧{}</kbd> ').format(title, text, below)
    classes = "lm-t" + (" lm-even" if even and not piece.shade else "")
    classes += f" lm-r-{piece.kind}" if piece.kind else ""
    shade = Html(' style="background:rgba(196,102,26,{:.2f})"').format(piece.shade) if piece.shade else _NONE
    note = Html("<sub> {}</sub>").format(piece.note) if piece.note else _NONE
    ends = Html("<br>") if piece.text.endswith("\n") else Html("<wbr>")
    return Html('<kbd class="{}"{}{}>{}{}</kbd>{}').format(classes, shade, title, shown, note, ends)


def _grid(node: doc.Grid) -> Html:
    table = node.table
    if not table.rows:
        return Html('<p class="lm-line">{}</p>').format(table.empty)
    marks = columns.marks(table)
    headings = columns.headings(table, marks)
    headings[-1] += _END
    head = _NONE.join(
        _TH.format(heading, _aligned(mark), name) if name else _EMPTY
        for heading, mark, name in zip(headings, marks, table.headers, strict=True)
    )
    repeated = _repeated(table)
    rows = _LINE.join(
        _row([columns.first(marks[0], row[0]), *marks[1:]], row, above, goes_on=below > 0)
        for row, above, below in zip(table.rows, repeated, [*repeated[1:], 0], strict=True)
    )
    caption = (
        Html('<caption class="lm-caption">{}</caption>').format(table.caption) if table.caption else _NONE
    )
    whole = Html('<div class="lm-box"><table class="lm-table">{}{}<tbody>\n{}\n</tbody></table></div>')
    named = _HEAD.format(head) if any(table.headers) else _NONE  # else GitHub would show an empty row
    return whole.format(caption, named, rows)


def _repeated(table: Table) -> list[int]:
    """Return for each row how many of the first columns say what the row above says."""
    first = (row[: table.together] for row in table.rows)
    return [0, *(next((i for i, (a, b) in enumerate(zip(*two, strict=True)) if a != b), table.together)
                 for two in itertools.pairwise(first))]  # fmt: skip


def _pages(node: doc.Pages) -> Html:
    (_, first), *others = node.pages
    folds = (_fold(doc.Fold(name, (doc.Grid(table),))) for name, table in others)
    rest = [_line(doc.Line(node.rest, dim=True))] if node.rest else []
    return _LINE.join([_grid(doc.Grid(first)), *folds, *rest])


def _row(marks: Sequence[str], row: Sequence[Any], repeated: int, *, goes_on: bool) -> Html:
    """Return a row; what is said above is left out, for a cell over several rows needs an attribute."""
    ends = [""] * (len(row) - 1) + [_END]
    each = list(zip(marks, ends, row, strict=True))[repeated:]
    cells = _NONE.join(_TD.format(mark + end, _aligned(mark), _cell(value)) for mark, end, value in each)
    return (_TR_ON if goes_on else _TR).format(_EMPTY * repeated + cells)


def _aligned(mark: str) -> Html:
    """Return the attribute that GitHub keeps where it drops every style."""
    return Html(' align="right"') if mark == " lm-n" else _NONE


def _cell(value: Any) -> Html:
    if isinstance(value, tuple) and value and all(isinstance(item, Share) for item in value):
        shares = map(_share, value)
        alone = len(value) == 1 and not value[0].text  # its column says so: nothing breaks there
        return next(shares) if alone else _COMMA.join(map(_ONE.format, shares))
    if isinstance(value, Marked):
        return _NONE.join(_MARK.format(text) if marked else _lines(text) for text, marked in value.pieces)
    text = cell_text(value)
    return _lines(text.replace("-", "\u2212") if isinstance(value, (int, float, Figure)) else text)


def _share(item: Share) -> Html:
    if item.gone:
        return _GONE.format(item.text)
    return _SHARE.format(item.share * 4, item.text, " " if item.text else "", percent(item.share))


def _code(node: doc.Code) -> Html:
    if node.drawn:
        whole = Html('<pre class="lm-code lm-drawn"><code class="lm-drawn">{}</code></pre>')
        return whole.format(visible(node.text))
    if not node.template:
        inner = _LIST.join(_whole(part, command=True) for part in node.text.split(";"))
        return Html('<pre class="lm-code"><code>{}</code></pre>').format(inner)
    marks = {"": Html("{}"), "remark": Html('<i class="lm-dim">{}</i>'), "does": Html("<b>{}</b>")}
    marks["fills"] = Html('<span class="lm-fills">{}</span>')
    inner = Html("<wbr>").join(marks[kind].format(piece) for piece, kind in jinja.parts(node.text))
    return Html('<pre class="lm-code"><code>{}</code></pre>').format(inner)


def _fold(node: doc.Fold) -> Html:
    inner = _LINE.join(fragment(inner) for inner in node.nodes)
    whole = Html('<details class="lm-fold"><summary class="lm-sum">{}</summary>\n{}\n</details>')
    return whole.format(node.summary, inner)


def _tree(node: doc.Tree) -> Html:
    return _branches(node.branches, node.largest)


def _branches(branches: Iterable[doc.Branch], largest: float) -> Html:
    bar = Html('<span class="lm-p" style="width:{:.2f}em" aria-hidden="true"></span>')
    items = (
        Html('<li class="lm-leaf">{}{}{}</li>').format(
            bar.format(0.3 + 8 * branch.amount / largest) if branch.amount else _NONE,
            _lines(branch.text),
            _branches(branch.branches, largest) if branch.branches else _NONE,
        )
        for branch in branches
    )
    return Html('<ul class="lm-tree">{}</ul>').format(_NONE.join(items))


_WRITERS: dict[type, Callable[[Any], Html]] = {
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
