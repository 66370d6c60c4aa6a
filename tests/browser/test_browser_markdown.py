"""`markdown.js` and `lightmd.py` read the same Markdown; the live view's text nodes hold nothing alive."""

from __future__ import annotations

import random
from typing import Any

import hostile
import pytest

from llama_magic.display.live.live import LiveView

SCRIPT = LiveView._esm
GROW = """async ([texts, script]) => {
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const view = await import(url);
  window.requestAnimationFrame = (draw) => draw();
  return texts.map(([source, cuts]) => {
    let hear;
    const numbers = { window: 9, prompt: 1, cached: 0, max_tokens: 5 };
    const head = { title: "t", model: "m", markdown: true, fields: [], parts: [], ...numbers };
    const model = { get: () => head, on: (name, handler) => { hear = handler; }, off: () => {} };
    const el = document.createElement("div");
    view.default.render({ model, el });
    let at = 0;
    for (const cut of [...cuts, source.length]) {
      hear({ text: [[0, at, source.slice(at, cut)]], figures: [1, 0, 0] });
      at = cut;
    }
    const grown = el.querySelector(".lm-text");
    const whole = view.blocks(document.createElement("div"), source.split("\\n"));
    return [grown?.innerHTML ?? "", whole.innerHTML];
  });
}"""


WORK = """async ([texts, script]) => {
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const { Growing } = await import(url);
  const size = (node) =>
    [...node.childNodes].reduce((sum, one) => sum + size(one), 20 + (node.data ?? "").length);
  return Promise.all(texts.map(async ([text, piece, markdown]) => {
    const node = document.createElement("div");
    let work = 0;
    const watch = new MutationObserver((records) => {
      for (const { addedNodes } of records) for (const one of addedNodes) work += size(one);
    });
    watch.observe(node, { childList: true, subtree: true });
    const growing = new Growing(node, markdown);
    for (let at = 0; at < text.length; at += piece) {
      growing.take(at, text.slice(at, at + piece));
      growing.draw();
      await Promise.resolve();
    }
    return [work, growing.length];
  }));
}"""
KINDS = {
    "paragraphs": "word word **strong** word word word word `code` word word.\n" * 5 + "\n",
    "list": "- an item of a list with **strong** words\n",
    "numbered": "1. an item\n   that goes on\n   - and an inner one\n\n",
    "code": "    for word in words: print(word)\n",
    "table": "| a | b |\n|---|---|\n" + "| some words | more words |\n" * 8 + "\n",
    "plain": "word " * 20,
}


def texts() -> list[str]:
    """Return hostile texts and seeded mixtures of marks."""
    rng = random.Random(7)
    units = ["a", "b ", "**", "*", "`", "```", "\n", "\n\n", "- ", "1. ", "  - ", "> ", "# ", "|", "|-|", "[a](https://b.c)",
             "[a](x)", "![i](y)", "---", "<b>", "~~~", "_", "\t", "é", "$"]  # fmt: skip
    mixed = ["".join(rng.choices(units, k=rng.randint(1, 30))) for _ in range(600)]
    return [
        text
        for text in [*hostile.TEXTS, *mixed]
        if "\r" not in text and "\ud800" not in text and "\x00" not in text
    ]


@pytest.fixture
def blank(browser: Any) -> Any:
    """An empty page."""
    page = browser.new_page()
    yield page
    page.close()


def test_a_text_that_grows_ends_as_the_text_read_at_once(blank: Any) -> None:
    """Cut into pieces anywhere, the view ends with the elements of the whole text."""
    rng = random.Random(3)
    sources = [[text, sorted(rng.sample(range(len(text)), min(len(text), 5)))] for text in texts()]
    for (source, _), (grown, whole) in zip(sources, blank.evaluate(GROW, [sources, SCRIPT]), strict=True):
        assert grown == whole, repr(source)
    assert blank.evaluate("() => window.pwned") is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_work_of_the_view_is_in_proportion_to_the_text(blank: Any, kind: str) -> None:
    """A 4,000-token answer in 500 messages: four times the text is at most 4.4 times what enters the page,
    and all that enters is less than twenty times the text."""
    opening = "```py\n" if kind == "code" else ""
    unit = KINDS[kind]
    jobs = [[opening + unit * (n // len(unit)), 40, kind != "plain"] for n in (5_000, 20_000)]
    (few, short), (much, long) = blank.evaluate(WORK, [jobs, SCRIPT])
    assert much / few <= 1.1 * long / short
    assert much < 20 * long
