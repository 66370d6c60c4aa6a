"""Hostile answers through HTML and Markdown: nothing is live, and every word is there."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import hostile
import mistune
import pytest
from display_answers import bare, completion
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from llama_magic.display import mimebundle, to_html, to_markdown, to_text
from llama_magic.display.static.commonmark import read
from llama_magic.model.results import Budget, Usage
from llama_magic.request.sampling import Sampling

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


def test_static_outputs_have_no_times_and_are_equal_for_a_seed() -> None:
    """Speed and cached tokens differ from run to run, the saved bundle does not."""
    first = mimebundle(completion("Hi", seeded=True, cached=0, speed=70.0))
    again = mimebundle(completion("Hi", seeded=True, cached=96, speed=91.5))
    assert first == again


def test_wide_columns_share_the_room_of_a_terminal() -> None:
    """Where each of the long ones has 24 columns or more, they are wrapped side by side."""
    from llama_magic.words.tables import Table

    rows = ((0, "a review " * 12, "bad", 0.5), (1, "short", "error: it is much too long for a line", 0.25))
    lines = to_text(Table(("row", "text", "choice", "margin"), rows)).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["row", "text", "choice", "margin"]
    assert lines[1].split() == ["0", *["a", "review"] * 3, "a", "bad", "0.5"]
    at, end = lines[0].index("choice"), lines[0].index("margin")
    columns = [[" ".join(line[a:b].split()) for line in lines[1:]] for a, b in ((0, 3), (5, at), (at, end))]
    assert columns[0] == ["0", "", "", "", "1", ""]
    assert " ".join(columns[1]).split() == [*["a", "review"] * 12, "short"]
    assert columns[2] == ["bad", "", "", "", "error: it is much too long for", "a line"]


def test_a_table_of_wide_cells_stays_within_a_terminal() -> None:
    """Japanese takes two columns a character; an empty cell is not named as if it said yes."""
    from llama_magic.display.static.text import columns
    from llama_magic.words.tables import Table

    long = "日本の首都はどこですか？🦙" * 4
    rows = (("旅行の計画と日本語の長い名前", 1, "", long, long),)
    text = to_text(Table(("chat", "turns", "interrupted", "first question", "last question"), rows))
    assert max(columns(line) for line in text.splitlines()) <= 80
    assert "interrupted" not in text
    assert "turns 1" in text


def test_what_was_cut_is_always_said() -> None:
    """A note stands in every form of an answer, seeded or not, of samples, and in a terminal."""
    from llama_magic.display.live.terminal import figures

    cut = "Cut the first 9 tokens of the prompt to fit the window of 256."
    for answer in (completion("Hi", seeded=True, notes=(cut,)), completion("Hi", notes=(cut,))):
        assert figures(answer).endswith(f"]\n{cut}")
        for shown in (answer, [answer, answer]):
            bundle: dict[str, Any] = mimebundle(shown)
            assert bundle["text/plain"].count(cut) == 1
            assert bundle["text/html"].count(cut) == 1
        assert mimebundle(answer)["application/vnd.llama-magic.v1+json"]["notes"] == [cut]


def test_the_ending_is_what_ended_it() -> None:
    """A stop text is named as it was written, the full window is said, a limit has its number."""
    budget = Budget(100, 20, 30)
    ends = {
        "ended by itself": {"finish_reason": "stop"},
        'ended at the stop text "."': {"finish_reason": "stop", "stop": ".", "made_with": _asked(".")},
        'ended at the stop text "\\n\\n"': {"stop": "\n\n", "made_with": _asked("x", "\n\n")},
        "cut at max_tokens 30": {"finish_reason": "length", "usage": Usage(20, 0, 30)},
        "the window is full": {"finish_reason": "length", "usage": Usage(20, 0, 80)},
    }
    for words, facts in ends.items():
        said = to_text(replace(completion("Hi"), budget=budget, **facts))
        assert words in said
        assert [w for w in ends if w in said] == [words]
    own = replace(completion("Hi"), stop="<|im_end|>", made_with=_asked("."))  # the template's
    assert "ended by itself" in to_text(own)


def _asked(*stops: str) -> dict[str, Any]:
    return {"asked": {"stop": list(stops)}}


def test_samples_have_the_window_each() -> None:
    """The gauge under several samples is that of the longest one, not of their sum."""
    answers = [
        replace(completion("Hi"), budget=Budget(256, 4, 100), usage=Usage(4, 0, n)) for n in (100, 60, 80)
    ]
    said = to_text(answers)
    assert "longest sample: 4 prompt + 100 written of 256 tokens · 152 free" in said
    assert "sample 2: 60 tokens, 64 of 256 tokens · ended by itself" in said
    assert "240 written" not in said


def test_an_unseeded_answer_says_what_was_reused() -> None:
    """Without a seed the receipt keeps cached tokens and notes, so that a difference can be explained."""
    bundle: dict[str, Any] = mimebundle(
        completion("Hi", seeded=False, cached=96, notes=("reused 96 tokens",))
    )
    receipt = bundle["application/vnd.llama-magic.v1+json"]
    assert receipt["usage"]["cached_tokens"] == 96
    assert "reused 96 tokens" in bundle["text/plain"]
    assert "seed 42 (drawn)" in bundle["text/plain"]
    cold = replace(completion("Hi", seeded=False), sampling=Sampling(temperature=0))
    assert to_text(cold).startswith("chat: smollm2 · temperature 0\n")  # a draw had nothing to choose


def test_formats_choose_what_is_stored() -> None:
    """Each format holds its own form, always text/plain and the receipt."""
    receipt = "application/vnd.llama-magic.v1+json"
    forms = {
        "auto": {"text/html"},
        "html": {"text/html"},
        "markdown": {"text/markdown"},
        "text": set(),
        "json": {"application/json"},
    }
    for form, more in forms.items():
        assert set(mimebundle(completion(), form)) == {"text/plain", receipt} | more  # type: ignore[arg-type]


def test_a_saved_answer_is_small() -> None:
    """A short answer costs under 4 kB of HTML, its styles included."""
    assert len(to_html(completion())) < 4000


def test_text_is_there_with_every_style_stripped() -> None:
    """Without the style element and attributes the head, the text and the figures stand in their order."""
    text = Reader(to_html(completion("The answer."))).text
    order = [
        text.index(part)
        for part in ("chat", "smollm2", "seed 42", "The answer.", "100 prompt + 2 written of 4,096")
    ]
    assert order == sorted(order)
    assert "reserved" not in text
