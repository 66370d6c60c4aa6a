"""What the page makes of elements: the nodes of the saved HTML, and nothing alive."""

from __future__ import annotations

import random
from typing import Any

import hostile
import pytest

from llama_magic.display.live.growing import Growing, plain
from llama_magic.display.live.live import LiveView
from llama_magic.display.static.commonmark import read
from llama_magic.display.static.html import elements
from llama_magic.words.harmless import visible

SCRIPT = LiveView._esm
IMPORT = """const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const view = await import(url);"""
BUILD = """async ([pairs, script]) => {
  IMPORT
  return pairs.map(([contents, html]) => {
    const ours = document.createElement("div");
    ours.append(...contents.map(view.build));
    ours.normalize();
    const saved = document.createElement("div");
    saved.innerHTML = html;
    return ours.isEqualNode(saved);
  });
}""".replace("IMPORT", IMPORT)
GROW = """async ([streams, script]) => {
  IMPORT
  window.requestAnimationFrame = (draw) => draw();
  return streams.map((messages) => {
    let hear;
    const numbers = { window: 9, prompt: 1, cached: 0, max_tokens: 5 };
    const head = { title: "t", model: "m", markdown: true, samples: 1, fields: [], parts: [], ...numbers };
    const on = (name, handler) => { if (name === "msg:custom") hear = handler; };
    const model = { get: () => head, on, off: () => {} };
    const el = document.createElement("div");
    view.default.render({ model, el });
    for (const change of messages) hear({ nodes: [[0, ...change]], figures: [1, 0, 0] });
    return [el.querySelector(".lm-text")?.innerHTML ?? "", el.querySelector(".lm-heard").textContent];
  });
}""".replace("IMPORT", IMPORT)
WORK = """async ([streams, script]) => {
  IMPORT
  const size = (node) =>
    [...node.childNodes].reduce((sum, one) => sum + size(one), 20 + (node.data ?? "").length);
  return Promise.all(streams.map(async (messages) => {
    const node = document.createElement("div");
    let work = 0;
    const watch = new MutationObserver((records) => {
      for (const { addedNodes } of records) for (const one of addedNodes) work += size(one);
    });
    watch.observe(node, { childList: true, subtree: true });
    const growing = new view.Growing(node);
    for (const change of messages) {
      growing.take(...change);
      await Promise.resolve();
    }
    return work;
  }));
}""".replace("IMPORT", IMPORT)
UNITS = ["word **strong** word word `code` word.\n\n", "- an item of a list\n", "    code()\n"]


def texts() -> list[str]:
    """Return hostile texts and seeded mixtures of marks, made visible."""
    rng = random.Random(7)
    units = ["a", "b ", "**", "*", "`", "```", "\n", "\n\n", "- ", "1. ", "  - ", "> ", "# ", "|", "|-|",
             "[a](https://b.c)", "[a](x)", "![i](y)", "---", "<b>", "~~~", "_", "\t", "é", "$"]  # fmt: skip
    mixed = ["".join(rng.choices(units, k=rng.randint(1, 30))) for _ in range(600)]
    return [visible(text) for text in [*hostile.TEXTS, *mixed]]


def messages(text: str, cuts: list[int]) -> list[Any]:
    """Return the changes of a text that comes in pieces, as they travel."""
    growing = Growing(markdown=True)
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    return [[state, state + 1, growing.add(piece)] for state, piece in enumerate(pieces)]


@pytest.fixture
def blank(browser: Any) -> Any:
    """An empty page."""
    page = browser.new_page()
    yield page
    page.close()


def test_the_page_makes_the_nodes_of_the_saved_html(blank: Any) -> None:
    """For 700 texts, hostile ones among them, what is built is what the saved HTML says."""
    sources = texts()
    pairs = [[[plain(one) for one in read(text)], str(elements(read(text)))] for text in sources]
    for source, equal in zip(sources, blank.evaluate(BUILD, [pairs, SCRIPT]), strict=True):
        assert equal, repr(source)
    assert blank.evaluate("() => window.pwned") is None


def test_a_text_that_grows_ends_as_the_text_read_at_once(blank: Any) -> None:
    """Cut into pieces anywhere, the live view ends with the nodes of the whole text."""
    rng = random.Random(3)
    cut = [(text, sorted(rng.sample(range(len(text)), min(len(text), 5)))) for text in texts()]
    streams = [messages(text, cuts) for text, cuts in cut] + [messages(text, []) for text, _ in cut]
    grown = [html for html, _ in blank.evaluate(GROW, [streams, SCRIPT])]
    assert sum(map(bool, grown)) > len(grown) // 2  # of blanks alone nothing comes
    for (source, _), one, whole in zip(cut, grown[: len(cut)], grown[len(cut) :], strict=True):
        assert one == whole, repr(source)
    assert blank.evaluate("() => window.pwned") is None


def test_elements_that_are_not_ours_do_not_come_in(blank: Any) -> None:
    """Whatever a message says: unknown tags are spans, other attributes and addresses are left out."""
    odd = ["script", ["window.pwned=1"], {"src": "x", "onload": "window.pwned=1", "class": "c"}]
    link = ["a", ["x"], {"href": "javascript:window.pwned=1", "style": "color:red"}]
    html = '<span class="c">window.pwned=1</span><a>x</a>'
    assert blank.evaluate(BUILD, [[[[odd, link], html]], SCRIPT]) == [True]
    assert blank.evaluate("() => window.pwned") is None


def test_what_is_heard_are_the_words(blank: Any) -> None:
    """Whole sentences, without marks, a line for each block; a sentence that goes on waits."""
    text = "## Plan\n\nBuy **eggs**. And `flo"
    [[_, heard]] = blank.evaluate(GROW, [[messages(text, [])], SCRIPT])
    assert heard == "Plan\nBuy eggs."


@pytest.mark.parametrize("unit", UNITS)
def test_the_work_of_the_page_is_in_proportion_to_the_text(blank: Any, unit: str) -> None:
    """Four times the text is at most 4.4 times what enters the page, all of it under ten times the text."""
    opening = "```py\n" if unit.startswith(" ") else ""
    sources = [opening + unit * (n // len(unit)) for n in (2_000, 8_000)]
    few, much = blank.evaluate(WORK, [[messages(t, list(range(40, len(t), 40))) for t in sources], SCRIPT])
    assert much <= 4.4 * few
    assert much < 10 * 8_000
