"""Looks: both themes, contrast, focus, narrow windows."""

from __future__ import annotations

import re
from typing import Any

import pytest
from display_answers import completion
from example_views import example_views

from browser.cells import HELD, IMPORTS, cell
from llama_magic.display import to_html
from llama_magic.words.tables import Table

THEMES = ("JupyterLab Light", "JupyterLab Dark")

_MARKED = """# Title

With `code`, *and* **more**, a [link](https://example.org).

- one
  - inner

1. first

> quoted

```python
x = 1
```

| a | b |
|---|---:|
| 1 | 2 |
| 3 | 4 |

---

"""
# All that an answer is made of: what, where, how wide, how drawn. JupyterLab adds spans to headings.
_DRAWN = """text => {
  const { x, y } = text.getBoundingClientRect();
  return [...text.querySelectorAll(":not(span)")].map((one) => {
    const box = one.getBoundingClientRect(), style = getComputedStyle(one);
    return [one.tagName, ...[box.x - x, box.y - y, box.width].map(Math.round),
      style.backgroundColor, style.color, style.textDecorationLine, style.listStyleType];
  });
}"""


@pytest.mark.parametrize(("theme", "other"), [THEMES, THEMES[::-1]], ids=["light", "dark"])
def test_the_live_view_looks_like_its_static_output(opened: Any, theme: str, other: str) -> None:
    """Same place and width of the text and of all marks in it, a key to the bar, nothing that moves, a focus
    ring and control of Stop that can be seen (3:1) and hit (24 pixels), in both themes; every text has a
    contrast of 4.5 or more, also where the theme changes after it was written."""
    tab = opened("looks.ipynb", [IMPORTS, cell(repr(_MARKED + "word " * 120), HELD)])
    tab.theme(theme)
    tab.run(0)
    tab.run(1)
    live = tab.live(1)
    live.get_by_text("word word word").wait_for()
    written = live.locator(".lm-text").evaluate(_DRAWN)
    box = (
        "node => { const { x, y, width } = node.getBoundingClientRect();"
        " return [x, width, y - node.closest('.lm').getBoundingClientRect().y]; }"
    )
    before = live.locator(".lm-text").evaluate(box)
    said = live.inner_text().replace("\u00a0" * 4, "").replace("\u00a0", " ")  # four of each part's colour
    assert re.search(r"template 13 · system 19 · user 1: 68 · written \d+ · reserved \d+", said)
    stop = live.get_by_role("button", name="Stop")
    tab.page.keyboard.press("Escape")
    stop.focus()
    tab.page.keyboard.press("Shift")
    style = stop.evaluate(
        "node => { const { outlineColor, outlineStyle, borderColor } = getComputedStyle(node);"
        " return [outlineColor, outlineStyle, borderColor, node.offsetHeight]; }"
    )
    assert style[1] == "solid"
    ground = tab.page.evaluate(
        "() => getComputedStyle(document.querySelector('.jp-Notebook')).backgroundColor"
    )
    for colour in (style[0], style[2]):
        assert ratio(colour, ground) >= 3
    assert style[3] >= 24
    moving = "() => document.getAnimations().filter((one) => one.effect.target.closest('.lm')).length"
    assert tab.page.evaluate(moving) == 0
    assert tab.contrast(".lm-live") >= 4.5
    tab.shot(f"lab-looks-{theme.split()[1].lower()}")
    tab.release()
    static = tab.static(1, "ended by itself")
    after = static.locator(".lm-text").evaluate(box)
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) <= 1
    assert static.locator(".lm-text").evaluate(_DRAWN) == written
    key = static.locator(".lm-legend > span")
    assert key.count() == 4  # nothing is reserved any more
    assert key.first.evaluate(box)[0] == after[0]
    for shown in (theme, other):
        tab.theme(shown)
        assert tab.contrast(".jp-RenderedHTML .lm") >= 4.5


def ratio(one: str, two: str) -> float:
    """Return the contrast of two colours in CSS's `rgb(…)`."""
    lights = []
    for colour in (one, two):
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def test_a_narrow_window_wraps(opened: Any) -> None:
    """At the width of a side panel no figure is cut off."""
    tab = opened("narrow.ipynb", [IMPORTS, cell("'word ' * 100", HELD)])
    tab.run(0)
    tab.page.keyboard.press("Control+b")
    tab.page.set_viewport_size({"width": 420, "height": 800})
    tab.run(1)
    live = tab.live(1)
    live.get_by_text("word").first.wait_for()
    tab.shot("lab-narrow")
    assert live.evaluate("node => node.scrollWidth <= node.clientWidth + 1")


_OVER = "n => n.scrollWidth - n.clientWidth"
_OPEN = "all => all.forEach((one) => { one.open = true; })"


def test_every_view_fits_a_phone(browser: Any) -> None:
    """At 380 pixels no view is wider than the page: only a table is, in a box of its own that scrolls, by
    keyboard as well; one that a model wrote, too."""
    answer = completion("".join(f"|{'|'.join(row * 12)}|\n" for row in (["column"], ["-"], ["word"])))
    shown = {name: to_html(view) for name, view in example_views().items()} | {"wide": to_html(answer)}
    page = browser.new_page(viewport={"width": 380, "height": 800})
    page.set_content(
        "<style>body { margin: 0; font: 14px/1.5 sans-serif }</style>"
        + "".join(f'<div title="{name}">{html}</div>' for name, html in shown.items())
    )
    page.locator("details").evaluate_all(_OPEN)
    over = page.locator("body > div").evaluate_all(f"all => all.map({_OVER})")
    assert {name: by for name, by in zip(shown, over, strict=True) if by > 0} == {}
    for name in ("pairs", "wide"):
        box = page.locator(f'[title="{name}"] .lm-box')
        assert box.evaluate(_OVER) > 40
        page.locator(f'[title="{name}"]').evaluate("n => { n.tabIndex = 0; n.focus(); }")
        page.keyboard.press("Tab")
        page.keyboard.press("End")
        page.keyboard.press("ArrowRight")
        page.wait_for_function("n => n.scrollLeft > 0", arg=box.element_handle())
    page.close()


def test_a_table_that_goes_on_is_shaded_where_it_does(browser: Any) -> None:
    """At its right edge, until it is scrolled to its end; one that fits is not, nor is any where the page
    has no such colour."""
    shown = [to_html(Table(tuple("abcde"), ((number,) * 5,))) for number in (1, 10**15)]
    page = browser.new_page(viewport={"width": 380, "height": 300})
    page.set_content(
        "<style>body { margin: 0; font: 14px sans-serif } * { color: #fff !important; border: 0 !important }"
        f"</style><div>{'</div><div>'.join(shown)}</div>"
    )
    small, wide = page.locator(".lm-box").all()

    def edge(box: Any) -> bytes:
        at = box.bounding_box()
        clip = {"x": at["x"] + at["width"] - 6, "y": at["y"], "width": 6, "height": 20}
        return page.screenshot(clip=clip)  # type: ignore[no-any-return]

    blank = edge(wide)
    page.evaluate("() => document.body.style.setProperty('--jp-layout-color0', '#fff')")
    assert edge(small) == blank != edge(wide)
    wide.evaluate("n => { n.scrollLeft = n.scrollWidth; }")
    assert edge(wide) == blank
    page.close()


def test_samples_have_a_column_each_while_they_are_written(opened: Any) -> None:
    """Fields not begun say so, five samples stand side by side and the others in a fold, as in what is saved;
    texts have a heading each."""
    schema = "{'type': 'object', 'properties': {'name': {'type': 'string'}, 'age': {'type': 'integer'}}}"
    form = cell(
        '\'{"name": "Ada", "age": 36}\'', f"at=16, {HELD}", f"mode='structured', schema={schema}, n=7"
    )
    tab = opened("samples.ipynb", [IMPORTS, form, cell("'word ' * 5", HELD, "n=2")])
    tab.run(0)
    tab.run(1)
    live = tab.live(1)
    live.locator("td", has_text="Ada").nth(6).wait_for(state="attached")
    names = ["field", *(f"sample {i}" for i in range(1, 6)), "field", "sample 6", "sample 7"]
    assert live.locator("th").all_text_contents() == names
    assert live.locator("summary").all_text_contents() == ["samples 6 to 7"]
    rows = [row.locator("td").all_text_contents() for row in live.locator("tbody").first.locator("tr").all()]
    assert rows == [["name", *["Ada"] * 5], ["age", *["not yet"] * 5]]
    live.get_by_text("longest sample: ").wait_for()
    tab.shot("lab-samples")
    live.get_by_role("button", name="Stop").click()
    tab.static(1, "longest sample")
    tab.run(2)
    live = tab.live(2)
    live.locator(".lm-text", has_text="word word").first.wait_for()
    assert live.locator(".lm-head").all_text_contents()[1:] == ["sample 1", "sample 2"]


WIDE = """from dataclasses import replace
from display_answers import completion
from example_views import example_views
from llama_magic.magics.doctor import Check, DoctorReport
from llama_magic.session.history import History
from llama_magic.words.tables import Table
import llama_magic.display as d
history = History()
for i, mode in enumerate(("chat", "complete", "structured")):
    answer = completion("An answer of several words. " * 6, mode=mode, seed=4_000_000_000 + i)
    history.add(replace(answer, finish_reason=("stop", "length", "interrupted")[i]))
trace = example_views()["xray"]
leaders = tuple((name, 0.2) for name in (" physics", " science", " statistics", " has", " is"))
hot = {"temperature": 0.8, "dynatemp_range": 0.4}
stages = [replace(stage, leaders=leaders) for stage in trace.stages]
stages[1:1] = [replace(stages[1], name="temperature", parameters=hot)]
stages.append(replace(stages[-1], name="temperature", parameters={"temperature": 0.8}))
trace = replace(trace, stages=tuple(stages), drawn=replace(trace.drawn, text=" is"))
command = "pip install " + "--no-cache-dir llama-cpp-python " * 6
doctor = DoctorReport((Check("a", "1", "Do so:", command.strip()),))
paths = Table(("window", "name", "path"), ((2048, "m", "/usr/lib/w-looks/site-packages/llama-x/" * 3),))
views = (history, trace, example_views()["header"], example_views()["odds"], doctor, paths)"""


WRONG = (
    "import llama_magic as lm\nraise lm.OptionError('words of all kinds ' * 30, remedy='Write less. ' * 20)"
)
LINES = """n => {
  const range = document.createRange();
  range.selectNodeContents(n);
  return new Set([...range.getClientRects()].map((one) => Math.round(one.top))).size;
}"""


def test_nothing_is_cut_off_at_1000_pixels(opened: Any) -> None:
    """A mixed history, an x-ray of long names, a header's keys and odds with an error fit beside the files;
    a stage with its number stands on one line, a key is whole. Options and the names of a path are whole, and
    a command that goes over several lines is copied as one. A raised error has lines that end at words
    (JupyterLab breaks those that are too long anywhere)."""
    tab = opened("wide.ipynb", [WIDE, "for view in views:\n    d.show(view)", WRONG])
    tab.page.set_viewport_size({"width": 1000, "height": 1500})
    for index in range(3):
        tab.run(index)
        tab.finished(index)
    error = tab.output(2).locator("pre")
    said = error.inner_text().rstrip()
    words, where = " ".join(said.split()).split(" Cell In[")
    assert words == f"OptionError: {'words of all kinds ' * 30}{'Write less. ' * 20}".strip()
    assert "], line 2: raise lm.OptionError(" in where
    assert error.evaluate(LINES) == said.count("\n") + 1 > 10
    shown = tab.cell(1).locator(".jp-RenderedHTML")
    assert shown.count() == 6
    tab.cell(1).evaluate("n => n.querySelectorAll('details').forEach((one) => (one.open = true))")
    widths = "n => [n.scrollWidth, n.clientWidth]"
    assert [wide <= room + 1 for wide, room in (one.evaluate(widths) for one in shown.all())] == [True] * 6
    for name in ("temperature 0.8", "tokenizer.ggml.add_bos_token"):
        cell_ = shown.locator("td", has_text=re.compile(f"^{re.escape(name)}$")).first
        assert cell_.bounding_box()["height"] < 30
    for one, unit in ((shown.nth(4).locator("code"), 6 * 2), (shown.nth(5).locator("td").last, 3 * 3)):
        lines = one.locator("span").evaluate_all(f"all => all.map({LINES})")
        assert lines == [1] * unit
        assert one.evaluate(LINES) > 1
    copied = "n => { getSelection().selectAllChildren(n); return getSelection().toString(); }"
    said = " ".join(["--no-cache-dir llama-cpp-python"] * 6)
    assert shown.nth(4).locator("code").evaluate(copied) == f"pip install {said}"
    tab.shot("lab-1000")
