"""Hostile answers through HTML and Markdown: nothing is live, and every word is there."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from typing import Any

import hostile
import mistune
import pytest
from display_answers import bare, completion
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from llama_magic.display import to_html, to_markdown
from llama_magic.display.static.commonmark import read

TAGS = {
    "div",
    "style",
    "p",
    "b",
    "i",
    "ul",
    "ol",
    "li",
    "span",
    "wbr",
    "br",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "pre",
    "code",
    "details",
    "summary",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "blockquote",
    "strong",
    "em",
    "a",
    "s",
}
COMMONMARK = MarkdownIt("gfm-like", {"html": True, "linkify": False})
ATTRIBUTES = {"class", "style", "title", "aria-hidden", "scope", "tabindex", "href", "rel", "target", "start"}


class Reader(HTMLParser):
    """Python's own HTML parser: tags, attributes, and the text that a reader sees."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._style = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._style = tag == "style"
        self.text += "\n" if tag in ("br", "p", "li", "td") else ""

    def handle_endtag(self, tag: str) -> None:
        self._style = False

    def handle_comment(self, data: str) -> None:
        self.tags.append(("!--", {}))

    def handle_data(self, data: str) -> None:
        if not self._style:
            self.text += data


def assert_dead(html: str) -> Reader:
    """Assert that HTML holds only the tags and attributes that our own renderer writes."""
    reader = Reader(html)
    for tag, attributes in reader.tags:
        assert tag in TAGS, tag
        assert set(attributes) <= ATTRIBUTES, attributes
        assert re.match(r"https?://|mailto:", attributes.get("href") or "https://"), attributes
        assert "url(" not in (attributes.get("style") or "")
    return reader


@pytest.mark.parametrize("text", [*hostile.TEXTS, hostile.LONG], ids=lambda text: repr(text[:24]))
@pytest.mark.parametrize("mode", ["chat", "complete"])
def test_html_of_a_hostile_answer_is_dead_and_complete(text: str, mode: str) -> None:
    """No tag, handler or address of the text comes alive, and its words can all be read."""
    reader = assert_dead(to_html(completion(text, mode=mode)))
    for word in hostile.words(text):
        assert word in reader.text


@pytest.mark.parametrize("gap", ["\n\n", "\n\n\n", "\n \t\n", "\n\n    "])
def test_html_stays_html_where_it_is_exported_as_markdown(gap: str) -> None:
    """A blank line would end it there: the rest of a model's code became headings and live pictures."""
    code = f"a = 1{gap}# b{gap}![i]({hostile.EVIL}/c.png)\n"
    html = to_html(completion(f"```python\n{code}```\n\nDone.", mode="chat"))
    assert COMMONMARK.render(html).strip() == html
    assert code.rstrip("\n") in assert_dead(html).text


@pytest.mark.parametrize("text", hostile.TEXTS, ids=lambda text: repr(text[:24]))
def test_markdown_of_a_hostile_answer_is_dead_for_renderers_that_pass_html_on(text: str) -> None:
    """markdown-it (GitHub's tables on, raw HTML on) and mistune (nbconvert's) find nothing live in it."""
    markdown = to_markdown(completion(text, mode="chat"))
    for render in (
        COMMONMARK.render,
        mistune.create_markdown(escape=False),
    ):
        html = str(render(markdown))
        reader = Reader(html)
        for tag, attributes in reader.tags:
            assert tag in TAGS | {"h1", "h2", "h3"}, html
            assert set(attributes) <= {"href", "start", "align", "style", "class"}, html
            assert re.match(r"https?://|mailto:", attributes.get("href") or "https://"), html
        for word in hostile.words(text):
            assert word in reader.text, (word, html)


@pytest.mark.parametrize("text", hostile.TEXTS, ids=lambda text: repr(text[:24]))
def test_mathematics_is_never_handed_to_a_typesetter(text: str) -> None:
    """In Markdown's HTML no `$`, `\\(` or `\\[` stands in running text: an element splits them."""
    html = COMMONMARK.render(to_markdown(completion(text, mode="chat")))
    running = re.sub(r"<(pre|code)>.*?</\1>", "", html, flags=re.DOTALL)
    running = running.replace("<span>$</span>", "").replace("<span>\\</span>", "")
    assert "$" not in running
    assert "\\" not in running


@given(st.text(max_size=300))
def test_html_keeps_every_visible_character_of_plain_text(text: str) -> None:
    """In a completion (no Markdown) the reader's text is exactly the visible text."""
    from llama_magic.display.static.doc import Answer
    from llama_magic.display.static.html import fragment
    from llama_magic.words.harmless import visible

    read = Reader(str(fragment(Answer(text)))).text
    assert read == visible(text)


MARKS = st.text(st.sampled_from("ab *_`#-+>|[](){}!<&\\$~\n1.:/"), max_size=80)


@given(MARKS)
def test_html_is_dead_for_any_mixture_of_marks(text: str) -> None:
    """Whatever the marks, only our own elements come out, properly nested."""
    html = to_html(completion(text, mode="chat"))
    assert_dead(html)
    for tag in ("ul", "ol", "li", "p", "pre", "code", "table", "td", "strong", "em", "blockquote"):
        assert html.count(f"<{tag}>") + html.count(f"<{tag} ") == html.count(f"</{tag}>")


@given(MARKS)
def test_markdown_says_the_same_letters_as_html(text: str) -> None:
    """Two renderers of the Markdown and our own HTML show the same letters in the same order."""
    from llama_magic.display.static import html as render_html
    from llama_magic.display.static import markdown as render_markdown
    from llama_magic.display.static.doc import Answer

    answer = (Answer(text, markdown=True),)
    letters = re.sub(r"[^ab]", "", Reader(str(render_html.fragment(*answer))).text)
    html = COMMONMARK.render(render_markdown.page(answer))
    assert re.sub(r"[^ab]", "", Reader(html).text) == letters


def test_light_markdown_is_what_chat_models_write() -> None:
    """Headings, nested lists, fences, tables, quotes, strong, emphasis, code and links are read."""
    text = "# T\nHi **b** *e* `c` [l](https://a.b)\n\n- one\n  - two\n3. three\n\n> q\n\n"
    text += "```py\nx < 1\n```\n|a|b|\n|-|-|\n|1|2|\n---"
    html = bare(to_html(completion(text, mode="chat")))
    for part in (
        "<h3>T</h3>",
        "<strong>b</strong>",
        "<em>e</em>",
        "<code>c</code>",
        '<a href="https://a.b"',
        "<ul><li>one<ul><li>two</li></ul></li></ul>",
        '<ol start="3"><li>three</li></ol>',
        "<blockquote><p>q</p></blockquote>",
        "<pre><code>x &lt; 1</code></pre>",
        "<td>1</td>",
        "<hr>",
    ):
        assert part in html


def test_text_from_right_to_left_and_columns_of_numbers_stand_on_the_right() -> None:
    """The first letter of a paragraph, list or cell tells its direction; a plain text has that of its own."""
    shalom = "\u05e9\u05dc\u05d5\u05dd"
    html = to_html(completion(f"(1) {shalom} ok\n\nok {shalom}\n\n- **{shalom}**\n\n|a|b|\n|-|-:|\n|x|2|\n"))
    rtl = r'<{}[^>]*direction:rtl;text-align:right[^>]* dir="rtl">{}'
    assert re.search(rtl.format("p", rf"\(1\) {shalom} ok</p>"), html)
    assert re.search(rtl.format("ul", ""), html)
    assert html.count("rtl;") == html.count('dir="rtl"') == 2
    assert re.findall(r"text-align:(\w+)[^>]*>([abx2])<", html) == [
        ("left", "a"),
        ("right", "b"),
        ("left", "x"),
        ("right", "2"),
    ]
    for text in (shalom, "ok"):
        raw = to_html(completion(text, mode="complete"))
        assert ('dir="rtl"' in raw) == (text == shalom)


def test_stars_and_underscores_in_code_words_and_sums_stay() -> None:
    """`2 * 3 * 4` and `a_b_c` are not emphasis."""
    html = to_html(completion("2 * 3 * 4 and a_b_c and f(*args, **kw)", mode="chat"))
    assert "<em>" not in html
    assert "<strong>" not in html
    assert "2 * 3 * 4 and a_b_c and f(*args, **kw)" in html


UNITS = [
    "*", "**a", "`", "[", "![", "[a](", "> ", "- ", "|", "|-", "#", "_", "\n", "``` \n", "***", "`` ` ",
    "[a](b '", "- a\n", "1. a\n   - b\n",
    "|a|b|\n|-|-|\n", "> - ", "*a _b ", "[a](https://b.c) ", "a\n", "\n\n- ",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_reading_a_hostile_text_takes_work_in_proportion(unit: str) -> None:
    """Four times the text runs at most 4.5 times the lines of Python, whatever the mark."""

    def lines_run(characters: int) -> int:
        count = 0

        def trace(frame: Any, event: str, arg: Any) -> Any:
            nonlocal count
            count += event == "line"
            return trace

        text = unit * (characters // len(unit))
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            read(text)
        finally:
            sys.settrace(before)
        return count

    assert lines_run(6_000) <= 4.5 * lines_run(1_500)


def test_a_megabyte_in_one_line_scrolls_in_a_box_and_is_all_there() -> None:
    """The box is bounded, reachable by keyboard, and holds every character."""
    html = to_html(completion(hostile.LONG, mode="chat"))
    assert re.search(r'class="lm-text lm-long" style="[^"]*max-height:30em;overflow:auto" tabindex="0"', html)
    assert hostile.LONG in html
