"""Model text is made visible and inert, and nothing of it is lost."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_magic.display.bundle import json_safe
from llama_magic.display.static.commonmark import safe_link
from llama_magic.display.static.markup import Html
from llama_magic.words.harmless import blanks_shown, json_visible, one_line, visible

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=200)  # surrogates too


@given(ANY_TEXT)
def test_visible_text_holds_no_control_but_line_breaks_and_tabs(text: str) -> None:
    """No C0, C1, bidi or surrogate character survives; Unicode's own categories are the judge."""
    bidi = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
    for char in visible(text):
        assert char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp")
        assert unicodedata.bidirectional(char) not in bidi


@given(
    st.text(st.characters(categories=("L", "N", "P", "S", "Zs"), exclude_characters="\u2421"), max_size=100)
)
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    """Letters, digits, punctuation, symbols and blanks pass unchanged."""
    assert visible(text) == text


def test_joiners_and_variation_selectors_stay() -> None:
    """Family emoji, Persian and flags keep the invisible characters that make them what they are."""
    for text in ("👩\u200d👩\u200d👧", "می\u200cخواهم", "❤\ufe0f", "🇩🇪"):
        assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "␛[31mred"),
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("\x9b2J", "⟨U+009B⟩2J"),
        ("one\r\ntwo\rthree", "one\ntwo␍three"),
        ("\x7f\x00", "␡␀"),
        ("\U000e0041", "⟨U+E0041⟩"),
    ],
)
def test_hidden_characters_have_stand_ins(text: str, shown: str) -> None:
    """Each hidden character is shown as Unicode's picture of it, or by its number."""
    assert visible(text) == shown


@given(ANY_TEXT)
def test_escaped_text_cannot_open_an_element_or_end_an_attribute(text: str) -> None:
    """However it is put into HTML - formatted, added, joined - no `<`, `>` or quote of it is left."""
    built = (
        Html("{}").format(text),
        Html("{:>3}").format(text),
        Html("%s") % text,
        Html() + text,
        text + Html(),
        Html().join([text]),
        Html.escape(text),
    )
    for html in built:
        assert isinstance(html, Html)
        assert not set(html) & set("<>\"'")
        assert visible(html) == html


def test_html_stays_html() -> None:
    """What is HTML already is put in as it is, once."""
    bold = Html("<b>{}</b>").format("a & b")
    assert Html("<p>{}</p>").format(bold) == "<p><b>a &amp; b</b></p>"
    assert Html(", ").join([bold, "<i>"]) == "<b>a &amp; b</b>, &lt;i&gt;"


def test_one_line_shows_breaks_and_cuts_with_an_ellipsis() -> None:
    """Line breaks and tabs are shown; the limit counts the ellipsis."""
    assert one_line("a\nb\tc") == "a↵b→c"
    assert one_line("abcdef", 4) == "abc…"
    assert blanks_shown(" a\n") == "·a↵"


def test_json_for_notebooks_can_be_saved_as_utf8() -> None:
    """A lone surrogate, which UTF-8 cannot hold, becomes U+FFFD in keys and values."""
    safe = json_safe({"k\ud800": ["v\udfff", 1, None]})
    assert json.dumps(safe, ensure_ascii=False).encode() == '{"k�": ["v�", 1, null]}'.encode()


@given(ANY_TEXT)
def test_json_that_is_shown_is_inert_and_the_same_value(text: str) -> None:
    """Whatever an answer holds, its JSON shows no hidden character, and reads back as that answer."""
    shown = json_visible(json.dumps({"a": [text]}, ensure_ascii=False, indent=2))
    assert json.loads(shown) == {"a": [text]}
    assert visible(shown) == shown


@pytest.mark.parametrize("address", ["https://a.example/b?c=d#e", "http://a", "mailto:a@b.c", "HTTPS://A"])
def test_web_and_mail_addresses_may_become_links(address: str) -> None:
    """http, https and mailto are links."""
    assert safe_link(address)


@pytest.mark.parametrize(
    "address",
    [
        "javascript:x",
        "JaVaScRiPt:x",
        "data:text/html,x",
        "//a",
        "/a",
        "https://a b",
        "https://a\n",
        "https://ä",
        "",
    ],
)
def test_other_addresses_never_become_links(address: str) -> None:
    """Scripts, data, relative addresses, and any with blanks or letters that can mislead stay text."""
    assert not safe_link(address)
