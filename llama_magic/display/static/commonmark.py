"""Markdown of a model, read once, into elements: saved as HTML, shown live, and written as Markdown anew.

markdown-it-py reads CommonMark and GitHub's tables. Left out, so that it stays the text it is: raw HTML,
images, references and footnotes, escapes and entities (mathematics needs its backslashes), indented code,
and headings by underlining (a rule below a paragraph is a rule). Links go to http, https and mailto only.

Time is in proportion to the text: what would make markdown-it slower is bounded (length of a paragraph,
of a link's name, depth), and the text beyond is shown as it is.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, blockquote, list_block, table
from markdown_it.rules_inline import StateInline, image, link
from markdown_it.token import Token

from llama_magic.words.harmless import visible

MAX_PARAGRAPH = 20_000  # characters; a longer one is shown as plain text
_MAX_DEPTH = 16  # of quotes and lists in each other, an item counting two
_MAX_ROW = 1_000  # characters of a table's header
_LINK = re.compile(r"!?\[[^\[\]\n]{0,300}\]\([^\n]{1,1100}?\)")
_SAFE = re.compile(r"(?:https?://|mailto:)[!-~]+\Z", re.IGNORECASE)
_BLOCK_RULES = ["table", "fence", "blockquote", "hr", "list", "heading", "paragraph"]
_INLINE_RULES = ["text", "newline", "backticks", "emphasis", "link", "image"]
_ALSO_ENDS = ["paragraph", "reference", "blockquote", "list"]  # blocks that a quote or a list ends


class Element(NamedTuple):
    """One HTML element: tag and attributes are ours, what is in it are elements and texts of the model."""

    tag: str
    children: tuple[Content, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()


Content = Element | str
BREAK = Element("br")


def safe_link(address: str) -> bool:
    """Return whether `address` may become a link: http, https or mailto, and nothing invisible in it."""
    return _SAFE.match(address) is not None


def read(text: str) -> tuple[Content, ...]:
    """Return the elements of a text."""
    return tuple(element for _, elements in blocks(text) for element in elements)


def blocks(text: str) -> list[tuple[int, tuple[Content, ...]]]:
    """Return each block of a text: the line that it begins in, and its elements."""
    tokens = iter(_parser().parse(visible(text)))
    return [(token.map[0] if token.map else 0, tuple(_content(token, tokens))) for token in tokens]


def lines(text: str) -> tuple[Content, ...]:
    """Return plain text as elements: its lines, and the breaks between them."""
    first, *others = text.split("\n")
    parts: list[Content] = [first]
    for line in others:
        parts += (BREAK, line)
    return tuple(part for part in parts if part != "")


def words(contents: Iterable[Content]) -> str:
    """Return the text of elements without their marks."""
    return "".join(one if isinstance(one, str) else words(one.children) for one in contents)


def leftward(contents: Iterable[Content]) -> bool:
    """Return whether a text is written from right to left: its first letter is of such a script."""
    return next(_ways(contents), "L") != "L"


def _ways(contents: Iterable[Content]) -> Iterator[str]:
    for one in contents:
        if isinstance(one, str):
            yield from (way for way in map(unicodedata.bidirectional, one) if way in ("L", "R", "AL"))
        else:
            yield from _ways(one.children)


def _content(token: Token, rest: Iterator[Token]) -> list[Content]:
    """Return what a token stands for; one that opens something takes the tokens up to its end."""
    if token.nesting == 1:
        return _element(token, _until_end(rest))
    if token.type == "inline":
        long = len(token.content) > MAX_PARAGRAPH  # was not read: see _read_inline
        return list(lines(token.content)) if long else _until_end(iter(token.children or ()))
    if token.type == "fence":
        code = Element("code", (token.content.removesuffix("\n"),))
        above = [Element("p", (token.info.strip(),), _class("lm-foot"))] if token.info.strip() else []
        return [*above, Element("pre", (code,), _class("lm-code"))]
    if token.type == "code_inline":
        return [Element("code", (token.content,))]
    if token.type in ("softbreak", "hardbreak"):
        return [BREAK]
    return [Element("hr")] if token.type == "hr" else [token.content]


def _until_end(rest: Iterator[Token]) -> list[Content]:
    out: list[Content] = []
    for token in rest:
        if token.nesting == -1:
            break
        for one in _content(token, rest):
            if isinstance(one, str) and out and isinstance(out[-1], str):
                out[-1] += one
            elif one != "":
                out.append(one)
    return out


def _element(token: Token, inner: list[Content]) -> list[Content]:
    if token.type == "link_open":
        return _link(token, tuple(inner))
    tag = token.tag
    if token.type == "heading_open":  # an answer's headings stand below the notebook's own
        tag = f"h{min(6, int(tag[1]) + 2)}"
    if tag == "li" and inner and isinstance(inner[0], Element) and inner[0].tag == "p":
        inner = [*inner[0].children, *inner[1:]]
    if tag == "tr" and inner:
        inner[-1] = _last_of_a_row(inner[-1])
    attributes = _class(_CLASSES[tag]) if tag in _CLASSES else ()
    if token.attrs.get("style") == "text-align:right":  # of a table's column
        attributes = _class(f"{_CLASSES[tag]} lm-right")
    if tag in _WITH_DIRECTION and leftward(inner):
        also = "lm-rtl lm-rtl-list" if tag in ("ul", "ol") else "lm-rtl"
        attributes = (*_class(f"{_CLASSES[tag]} {also}"), ("dir", "rtl"))
    if tag == "ol" and "start" in token.attrs:
        attributes += (("start", str(token.attrs["start"])),)
    if tag == "th":
        attributes += (("scope", "col"),)
    made = Element(tag, tuple(inner), attributes)
    return [Element("div", (made,), _class("lm-box")) if tag == "table" else made]


def _last_of_a_row(cell: Content) -> Content:
    if isinstance(cell, str):
        return cell
    (name, classes), *others = cell.attributes
    return cell._replace(attributes=((name, f"{classes} lm-end"), *others))


# The looks of what an answer is made of.
_CLASSES = {
    "p": "lm-par",
    "h3": "lm-sub",
    "h4": "lm-sub",
    "h5": "lm-sub",
    "h6": "lm-sub",
    "ul": "lm-list",
    "ol": "lm-list",
    "blockquote": "lm-quote",
    "table": "lm-table",
    "tr": "lm-tr",
    "th": "lm-th",
    "td": "lm-td",
}
_WITH_DIRECTION = {"p", "h3", "h4", "h5", "h6", "ul", "ol", "blockquote", "th", "td"}


def _link(token: Token, inner: tuple[Content, ...]) -> list[Content]:
    """Return a link, then where it leads: a name may say anything."""
    href, title = str(token.attrs["href"]), token.attrs.get("title")
    attributes = (("href", href), ("rel", "noopener noreferrer nofollow"), ("target", "_blank"))
    made: list[Content] = [Element("a", inner, attributes)]
    if title or words(inner) != href:
        made.append(f" ({href} “{title}”)" if title else f" ({href})")
    return made


def _class(name: str) -> tuple[tuple[str, str], ...]:
    return (("class", name),)


# --- the parser ---------------------------------------------------------------------------------


@functools.cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("zero", {"maxNesting": 100})
    parser.block.ruler.enableOnly(_BLOCK_RULES)
    parser.inline.ruler.enableOnly(_INLINE_RULES)
    parser.inline.ruler2.enableOnly(["balance_pairs", "emphasis", "fragments_join"])
    parser.core.ruler.at("inline", _read_inline)
    parser.block.ruler.at("blockquote", _not_too_deep(blockquote), {"alt": _ALSO_ENDS})
    parser.block.ruler.at("list", _not_too_deep(list_block), {"alt": _ALSO_ENDS[:3]})
    parser.block.ruler.at("table", _not_too_wide, {"alt": _ALSO_ENDS[:2]})
    parser.inline.ruler.at("link", _near_link)
    parser.inline.ruler.at("image", _image_as_text)
    parser.normalizeLink = str  # type: ignore[assignment,method-assign]  # what is shown is what is followed
    parser.validateLink = safe_link  # type: ignore[assignment,method-assign]
    return parser


def _read_inline(state: Any) -> None:
    """Read the inside of paragraphs; a very long one stays text."""
    for token in state.tokens:
        if token.type == "inline" and len(token.content) <= MAX_PARAGRAPH:
            token.children = []
            state.md.inline.parse(token.content, state.md, state.env, token.children)


_Rule = Callable[[StateBlock, int, int, bool], bool]


def _not_too_deep(rule: _Rule) -> _Rule:
    return lambda state, start, end, silent: state.level < _MAX_DEPTH and rule(state, start, end, silent)


def _not_too_wide(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    return state.eMarks[start] - state.bMarks[start] <= _MAX_ROW and table(state, start, end, silent)


def _near_link(state: StateInline, silent: bool) -> bool:
    return bool(_LINK.match(state.src, state.pos)) and link(state, silent)


def _image_as_text(state: StateInline, silent: bool) -> bool:
    """Take an image for the text that it is: nothing that a model names is fetched."""
    start = state.pos
    if not _LINK.match(state.src, start) or not image(state, True):
        return False
    if not silent:
        state.pending += state.src[start : state.pos]
    return True
