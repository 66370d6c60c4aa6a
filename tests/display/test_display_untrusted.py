"""What is left of a view where styles are dropped: JupyterLab for an untrusted notebook, GitHub for all.

JupyterLab 4 keeps `style="…"` with plain values (no `var()`, no `color-mix()`), and drops `<style>`, scripts
and pictures, whose words would run together. GitHub drops every attribute of looks. In both, the words, their
edges and their numbers must be there.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from display_answers import bare, completion
from example_views import example_views

from llama_magic.display import to_html, to_text
from llama_magic.display.static import inline
from llama_magic.words.tables import Share, Table

# What JupyterLab's sanitizer takes of colours, lengths and words (its CssProp, shortened to what we write).
_VALUE = re.compile(
    r"(?:-?[\d.]+(?:px|em|%)?|#[0-9a-f]{6}|rgba\(\d+,\d+,\d+,[\d.]+\)|[a-z-]+)(?: (?:-?[\d.]+(?:px|em|%)?|"
    r"#[0-9a-f]{6}|rgba\(\d+,\d+,\d+,[\d.]+\)|[a-z-]+))*"
)
_PROPERTIES = """
background border border-bottom border-left border-radius border-right border-collapse box-shadow box-sizing
caption-side color cursor display font-size font-weight height line-height list-style margin margin-right
max-height max-width min-width opacity overflow overflow-wrap padding padding-left text-align text-decoration
vertical-align white-space width word-break word-wrap
"""
_SHADE = "background:linear-gradient("
_DROPPED = ("<style", "<svg", "<script", "<img", "<iframe", "javascript:", "url(")


class _Reader(HTMLParser):
    """Reads HTML as a page without styles shows it: blocks on lines of their own, keys in brackets."""

    def __init__(self) -> None:
        super().__init__()
        self.words = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag in ("p", "div", "li", "tr", "pre", "details", "summary", "table", "ul", "ol", "br", "caption"):
            self.words += "\n"
        self.words += {"kbd": "[", "td": " ", "th": " ", "sub": "_"}.get(tag, "")

    def handle_endtag(self, tag: str) -> None:
        self.words += {"kbd": "]", "p": "\n", "tr": "\n"}.get(tag, "")

    def handle_data(self, data: str) -> None:
        self.words += data


def read(html: str) -> str:
    reader = _Reader()
    reader.feed(html)
    return reader.words


@pytest.mark.parametrize("name", sorted(example_views()))
def test_a_view_keeps_all_its_meaning_in_the_elements(name: str) -> None:
    """No style sheet, script or picture; every style is one that an untrusted notebook keeps, but the shade
    where a table goes on: a hint, beside the text that is cut there."""
    html = to_html(example_views()[name])
    for dropped in _DROPPED:
        assert dropped not in html
    styles = re.findall(r'style="([^"]*)"', html)
    assert styles
    for declaration in (d for style in styles for d in style.split(";") if d and not d.startswith(_SHADE)):
        prop, _, value = declaration.partition(":")
        assert prop in _PROPERTIES.split(), declaration
        assert _VALUE.fullmatch(value), declaration


@pytest.mark.parametrize("name", sorted(example_views()))
def test_words_and_numbers_are_those_of_the_plain_text(name: str) -> None:
    """Whatever number the plain text says stands in the bare HTML, too, and nothing runs into it."""
    view = example_views()[name]
    words = read(bare(to_html(view)))
    numbers = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\w])")
    text = re.sub(r"… \d+ more lines", "", to_text(view))  # a long fold is brief in text alone
    missing = set(numbers.findall(text)) - set(numbers.findall(words))
    assert not missing


def test_tokens_have_edges_without_any_style() -> None:
    """Each token is a key; a shade has its number beside it."""
    words = read(bare(to_html(example_views()["tokens"])))
    assert "[⟦<|im_start|>⟧_ 1] [user_ 9690][↵_ 198]\n[·to_ 288]" in words
    assert "[The][·sea][·broccoli_ 13]" in read(bare(to_html(example_views()["surprise"])))


def test_every_class_that_is_used_has_its_rule() -> None:
    """A class without a rule of one class would be lost in a saved view."""
    used = {c for view in example_views().values() for c in re.findall(r"\blm-[\w-]+", to_html(view))}
    assert used - set(inline.declarations()) <= {"lm-foot"}


@pytest.mark.parametrize("hostile", ['"><b style="position:fixed">', "' onclick='x", 'class="lm-k-user"'])
def test_a_model_cannot_write_attributes(hostile: str) -> None:
    """What looks like a class or a style in a text stays text."""
    html = to_html(completion(hostile))
    assert "position" not in " ".join(re.findall(r'style="([^"]*)"', html))
    assert read(html).count(hostile) == 1


def test_ids_stand_in_their_tokens_keys_without_any_style() -> None:
    """As a subscript of the key, not on a line of its own, which would tear the keys of a line apart."""
    assert "<kbd>user<sub> 9690</sub></kbd>" in bare(to_html(example_views()["tokens"]))


def test_columns_break_where_they_can_be_read() -> None:
    """Between words; within one only where some word is longer than a column can be wide; a number stays
    beside its bar, and a short name that others are said of on one line."""
    row = ("temperature 0.8", (Share("", 0.25),), "x" * 40, (Share("a", 0.5), Share("b", 0.25)))
    html = to_html(Table(("stage", "share", "long", "several"), (row,)))
    assert "word-wrap:break-word" in re.findall(r'<table class="[^"]*" style="([^"]*)"', html)[0]
    styles = re.findall(r'<td style="([^"]*)"', html)
    assert ["overflow-wrap:anywhere" in style for style in styles] == [False, False, True, False]
    assert ["white-space:nowrap" in style for style in styles] == [True, True, False, False]
