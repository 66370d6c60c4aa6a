"""JupyterLab and Notebook 7 in a real browser: streaming, stopping, saving, themes, hostile text."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import pytest

IMPORTS = (
    "import threading\nfrom display_answers import Script, answering, stream\nimport llama_magic.display as d"
)
MD = "## Plan\n\nBuy **eggs** and `flour`.\n\n- first\n- second\n\n```python\nprint('<b>')\n```\n\nDone. "


def cell(text: str, script: str = "", options: str = "") -> str:
    """Return the source of a cell that shows a scripted answer; all three are expressions of it."""
    made = f"s = stream(Script({text}, {script}), {options})"
    return f"{made}\nr = d.show_stream(s, title='chat', model_name='smollm2')"


SLOW = cell("''.join('word%d ' % i for i in range(2000))", "delay=1 / 40", "max_tokens=2000")


def assert_saved_well(notebook: dict[str, Any], *texts: str) -> str:
    """Assert that nothing live is stored; return the notebook as text."""
    raw = json.dumps(notebook)
    assert "widgets" not in notebook["metadata"]
    assert "widget-view" not in raw
    assert "<script" not in raw
    for text in texts:
        assert text in raw
    return raw


def test_stream_then_static_then_saved_reloaded_and_restarted(lab: Any, opened: Any) -> None:
    """Text grows, is replaced by static output, and stands after save, reload and restart."""
    tab = opened(
        lab,
        "stream.ipynb",
        [IMPORTS, cell(repr(MD), "delay=1 / 8")],
    )
    tab.run(0)
    tab.run(1)
    live = tab.live(1)
    live.locator("strong", has_text="eggs").wait_for()
    tab.shot("lab-live")
    words = live.inner_text()
    assert re.search(r"100 prompt \+ \d+ written of 4,096 tokens", words)
    assert "first token" in words
    static = tab.static(1, "Done.")
    assert tab.cell(1).locator(".lm-live").count() == 0
    assert static.locator(".lm-text li").count() == 2
    assert static.locator("pre code").inner_text().strip() == "print('<b>')"
    tab.shot("lab-static")
    assert_saved_well(tab.save(), "application/vnd.llama-magic.v1+json", "text/plain", "ended by itself")
    tab.page.reload()
    tab.wait_idle()
    assert tab.static(1, "Done.").locator("strong").inner_text() == "eggs"
    tab.shot("lab-reloaded")
    tab.restart()
    assert "Buy eggs and flour." in tab.static(1, "Done.").inner_text()
    tab.run(0)
    tab.run(1)
    tab.live(1)
    tab.static(1, "Done.")
    tab.shot("lab-restarted")
    assert not tab.elsewhere
    assert not tab.errors


def test_stop_while_writing_keeps_the_text(lab: Any, opened: Any) -> None:
    """The Stop button reaches the busy kernel at once; the text stays and the model is usable at once."""
    tab = opened(lab, "stop.ipynb", [IMPORTS, SLOW, cell("'again'")])
    tab.run(0)
    tab.run(1)
    live = tab.live(1)
    live.get_by_text("word20").wait_for()
    stop = live.get_by_role("button", name="Stop")
    stop.focus()
    tab.shot("lab-stop-focus")
    tab.page.keyboard.press("Enter")
    static = tab.static(1, "stopped before its end", timeout=2000)
    assert "word20" in static.inner_text()
    assert "Interrupted: what was written is kept." in tab.cell(1).inner_text()
    tab.shot("lab-stopped")
    tab.run(2)
    tab.static(2, "again")
    assert_saved_well(
        tab.save(), "stopped before its end", '\\"finish_reason\\": \\"interrupted\\"'.replace("\\", "")
    )


def test_stop_while_the_prompt_is_read(lab: Any, opened: Any) -> None:
    """Reading is told in tokens, and Stop works in it."""
    tab = opened(lab, "reading.ipynb", [IMPORTS, cell("'x'", "reading=threading.Event()")])
    tab.run(0)
    tab.run(1)
    live = tab.live(1)
    live.get_by_text(re.compile(r"reading the prompt: \d+ of 100")).wait_for()
    tab.shot("lab-reading")
    live.get_by_role("button", name="Stop").click()
    tab.static(1, "stopped before its end", timeout=2000)


def test_two_cells_one_after_the_other_and_a_rerun(lab: Any, opened: Any) -> None:
    """Queued cells each show their own text; running one again gives the same output in the same place."""
    tab = opened(
        lab, "two.ipynb", [IMPORTS, cell("'one ' * 30", "delay=1 / 30"), cell("'two ' * 30", "delay=1 / 30")]
    )
    for index in range(3):
        tab.run(index)
    tab.live(1)
    assert "two" in tab.static(2, "two").inner_text()
    first = tab.static(1, "one").inner_html()
    assert "two" not in first
    tab.run(1)
    tab.live(1)
    assert tab.static(1, "one").inner_html() == first
    assert tab.output(1).count() == 1


def test_a_cell_run_fifty_times_saves_as_one_small_output(lab: Any, opened: Any) -> None:
    """Equal each time with a seed, under 100 kB, without widget state."""
    tab = opened(
        lab,
        "fifty.ipynb",
        [IMPORTS, cell("'word ' * 200", options="seed=7"), "for _ in range(9):\n    exec(In[2])"],
    )
    tab.run(0)
    outputs = set()
    for _ in range(50):
        tab.run(1)
        tab.finished(1)
        outputs.add(tab.static(1, "word").inner_html())
    assert len(outputs) == 1
    notebook = tab.save()
    assert_saved_well(notebook)
    assert len(json.dumps(notebook)) < 100_000
    assert len(notebook["cells"][1]["outputs"]) == 1


def test_dark_theme_has_readable_contrast(lab: Any, opened: Any) -> None:
    """In both themes every text of both views has a contrast of 4.5 or more, measured in the page."""
    tab = opened(lab, "dark.ipynb", [IMPORTS, cell("'word ' * 120", "delay=1 / 30"), cell("'word '")])
    tab.theme("JupyterLab Dark")
    tab.run(0)
    tab.run(1)
    tab.live(1).get_by_text("word").first.wait_for()
    tab.shot("lab-dark-live")
    assert tab.contrast(".lm-live") >= 4.5
    tab.static(1, "word")
    tab.shot("lab-dark")
    assert tab.contrast(".jp-RenderedHTML .lm") >= 4.5
    tab.theme("JupyterLab Light")
    assert tab.contrast(".jp-RenderedHTML .lm") >= 4.5


def test_structured_answers_fill_a_form(lab: Any, opened: Any) -> None:
    """Fields not yet written are greyed, and fill while the answer is generated."""
    ada = '{"name": "Ada", "born": 1815, "wrote": "Notes"}'
    kind = (
        "import pydantic\nclass Person(pydantic.BaseModel):\n    name: str\n    born: int\n    wrote: str\n"
    )
    at = ada.index('"wrote"')
    source = kind + cell(repr(ada), f"at={at}, hold=threading.Event()", "mode='structured', schema=Person")
    tab = opened(lab, "form.ipynb", [IMPORTS, source])
    tab.run(0)
    tab.run(1)
    live = tab.live(1)
    live.get_by_text("1815").wait_for()
    assert live.locator("tr", has_text="name").locator("td").nth(1).inner_text() == "Ada"
    assert live.locator("tr", has_text="wrote").locator(".lm-empty").inner_text() == "not written yet"
    tab.shot("lab-form")


def test_the_live_region_announces_sentences(lab: Any, opened: Any) -> None:
    """Screen readers hear whole sentences, not tokens."""
    tab = opened(
        lab,
        "heard.ipynb",
        [IMPORTS, cell("'One two. Three four' + ' more' * 80", "delay=1 / 20")],
    )
    tab.run(0)
    tab.run(1)
    region = tab.live(1).locator("[aria-live=polite]")
    tab.page.wait_for_function("r => r.textContent.includes('two')", arg=region.element_handle())
    assert region.inner_text().strip() == "One two."


def test_five_hundred_tokens_a_second_are_kept_up_with(lab: Any, opened: Any) -> None:
    """3,800 tokens in 8 s: the page shows word 3,000 while the answer is written, and the text is whole."""
    text = "''.join('word%d ' % i + '\\n\\n' * (i % 70 == 69) for i in range(3800))"
    tab = opened(lab, "fast.ipynb", [IMPORTS, cell(text, "delay=1 / 500", "max_tokens=3900")])
    tab.run(0)
    tab.run(1)
    live = tab.live(1)
    live.locator(".lm-text").get_by_text("word3000").wait_for()
    assert "word0 word1 word2" in live.inner_text()
    static = tab.static(1, "word3799", timeout=30_000)
    assert len(static.locator("p").all()) >= 50


def test_hostile_answers_in_the_live_view_and_reopened(lab: Any, opened: Any) -> None:
    """A hundred hostile texts live, and in the saved notebook reopened trusted: nothing runs, nothing is
    fetched, the text is there."""
    import hostile

    show = "import hostile\nfor t in hostile.TEXTS:\n    "
    show += "d.show_stream(stream(t), title='chat', model_name='m')"
    markdown = show.replace("model_name='m'", "model_name='m', format='markdown'")
    live = (
        "text = ''.join(t + '\\n\\nnext\\n\\n' for t in hostile.TEXTS)\n"
        "s = stream(Script(text, delay=1 / 60), max_tokens=3900)\n"
        "d.show_stream(s, title='chat', model_name='m')"
    )
    whole = "d.show_stream(stream(' '.join([hostile.LONG[:500000]] * 2)), title='chat', model_name='m');"
    tab = opened(lab, "hostile.ipynb", [IMPORTS, show + ";", live + ";", markdown + ";", whole])
    for index in range(2):
        tab.run(index)
    tab.finished(1, timeout=60_000)
    tab.run(2)
    tab.live(2).get_by_text("next").last.wait_for()
    tab.shot("lab-hostile-live")
    tab.finished(2, timeout=60_000)
    for index in (3, 4):
        tab.run(index)
        tab.finished(index, timeout=60_000)
    assert_dead(tab)
    shown = tab.cell(1).inner_text()
    for text in hostile.TEXTS:
        for word in hostile.words(text):
            assert word in shown
    tab.shot("lab-hostile")
    assert_saved_well_hostile(tab.save())
    again = opened(lab, "hostile.ipynb")
    again.trust()
    again.static(1, "onerror")
    again.page.wait_for_timeout(500)
    assert_dead(again)
    again.shot("lab-hostile-reopened")


def assert_dead(tab: Any) -> None:
    """Assert that no text ran, opened a dialog, fetched an address, or became an element that could."""
    assert tab.page.evaluate("() => window.pwned") is None
    assert not tab.dialogs
    assert not [address for address in tab.elsewhere if "evil" in address]
    outputs = tab.page.locator(".jp-OutputArea-output")
    assert (
        outputs.locator(
            "script, iframe, object, embed, form, img, video, audio, base, meta, svg:not(.lm *)"
        ).count()
        == 0
    )
    assert outputs.locator("mjx-container, .MathJax").count() == 0
    assert outputs.locator('a[href]:not([href^=http]):not([href^="#"])').count() == 0


def assert_saved_well_hostile(notebook: dict[str, Any]) -> None:
    """As `assert_saved_well`, but the words `<script` may stand in plain text and receipts."""
    assert "widgets" not in notebook["metadata"]
    for output in (output for one in notebook["cells"] for output in one["outputs"] if "data" in output):
        assert "application/vnd.jupyter.widget-view+json" not in output["data"]
        for kind in ("text/html", "text/markdown"):
            if kind in output["data"] and kind == "text/html":
                assert "<script" not in "".join(output["data"][kind])


@pytest.mark.parametrize("saved", [True, False])
def test_a_page_loaded_again_in_mid_run_gets_the_answer(lab: Any, opened: Any, saved: bool) -> None:
    """Whether the running cell was saved or not: when the run and a queued one have ended, both static
    outputs stand in their cells, nothing live is saved, and the kernel has closed its widgets."""
    rows = [IMPORTS, cell("''.join('slow%d ' % i for i in range(120))", "delay=1 / 20"), cell("'fine '"),
            "from llama_magic.display.live.live import LiveView\nimport time\n"
            "while LiveView.unanswered: time.sleep(0.05)\nprint('closed')"]  # fmt: skip
    tab = opened(lab, f"midway-{saved}.ipynb", rows)
    tab.run(0)
    tab.save()
    tab.run(1)
    tab.live(1).get_by_text("slow10").wait_for()
    tab.run(2)
    if saved:
        tab.save()
    tab.page.reload()
    tab.static(1, "slow119", timeout=40_000)
    tab.shot(f"lab-reload-midway-{'saved' if saved else 'unsaved'}")
    assert tab.cell(1).locator(".jp-InputPrompt").inner_text() == "[2]:"
    tab.static(2, "fine")
    tab.wait_idle()
    tab.run(3)
    tab.cell(3).get_by_text("closed", exact=True).wait_for()
    for index in (1, 2):
        assert tab.output(index).count() == 1
    assert_saved_well(tab.save(), "slow119", "fine")


def test_a_reload_in_the_middle_leaves_a_usable_notebook(lab: Any, opened: Any) -> None:
    """After a reload while a cell runs the kernel can be interrupted: the text so far comes, and the next
    cell can be run."""
    tab = opened(lab, "midway.ipynb", [IMPORTS, SLOW, cell("'fine'")])
    tab.run(0)
    tab.run(1)
    tab.live(1).get_by_text("word10").wait_for()
    tab.save()
    tab.page.reload()
    tab.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=40_000)
    tab.interrupt()
    assert "word10" in tab.static(1, "stopped before its end").inner_text()
    tab.wait_idle()
    tab.run(2)
    tab.static(2, "fine")


def test_a_stopped_answer_is_not_put_back_once_the_reader_cleared_it(lab: Any, opened: Any) -> None:
    """A page that had the answer has told the kernel so: after clearing and a reload the cell stays empty."""
    tab = opened(lab, "cleared.ipynb", [IMPORTS, cell("'once ' * 20", "delay=1 / 20")])
    tab.run(0)
    tab.run(1)
    tab.static(1, "once")
    tab.wait_idle()
    tab.command("notebook:clear-all-cell-outputs")
    tab.page.wait_for_function("() => !document.querySelector('.jp-OutputArea-output')")
    tab.save()
    tab.page.reload()
    tab.wait_idle()
    tab.page.wait_for_timeout(1000)
    assert tab.output(1).count() == 0


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_the_live_view_looks_like_its_static_output(lab: Any, opened: Any, theme: str) -> None:
    """Same place and width of the text, a key to the bar, nothing that moves, a focus ring and control of
    Stop that can be seen (3:1) and hit (24 pixels), in both themes."""
    tab = opened(lab, "looks.ipynb", [IMPORTS, cell("'word ' * 120", "delay=1 / 30")])
    tab.theme(theme)
    tab.run(0)
    tab.run(1)
    live = tab.live(1)
    live.get_by_text("word word word").wait_for()
    box = (
        "node => { const { x, y, width } = node.getBoundingClientRect();"
        " return [x, width, y - node.closest('.lm').getBoundingClientRect().y]; }"
    )
    before = live.locator(".lm-text").evaluate(box)
    assert re.search(r"template 13\s*system 19\s*user 1: 68\s*written \d+\s*reserved \d+", live.inner_text())
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
    static = tab.static(1, "ended by itself")
    after = static.locator(".lm-text").evaluate(box)
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) <= 1
    key = static.locator(".lm-legend li")
    assert key.count() == 5
    assert key.first.evaluate(box)[0] == after[0]
    assert tab.contrast(".jp-RenderedHTML .lm") >= 4.5


def ratio(one: str, two: str) -> float:
    """Return the contrast of two colours in CSS's `rgb(…)`."""
    lights = []
    for colour in (one, two):
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def test_the_demo_model_writes_in_the_live_view(lab: Any, opened: Any) -> None:
    """A seeded chat with SmolLM2: text and figures come live, and the static output is what was written; run
    again, it is the same to the letter."""
    asks = (
        "%%llama chat -n 120 --seed 7 -o r\nsystem: You are a storyteller.\nuser: Tell a story of a dragon."
    )
    watch = (
        "() => { window.seen = [];"
        " new MutationObserver(() => window.seen.push(document.querySelector('.lm-live')?.innerText ?? ''))"
        ".observe(document.body, { subtree: true, childList: true, characterData: true }); }"
    )
    tab = opened(
        lab,
        "demo.ipynb",
        ["%load_ext llama_magic", "%llama load --ctx 1024 --threads 1", asks, "print(repr(r.text))"],
    )
    tab.run(0)
    tab.run(1)
    tab.finished(1, timeout=60_000)
    tab.page.evaluate(watch)
    tab.run(2)
    tab.live(2).get_by_text("tok/s").wait_for()
    tab.shot("lab-demo-live")
    first = tab.static(2, "written of 1,024 tokens", timeout=60_000)
    answer = first.locator(".lm-text").inner_text()
    html = first.inner_html()
    assert len(answer.split()) > 30
    seen = tab.page.evaluate("() => window.seen")
    assert any(answer[:20] in text and "tok/s" in text and "prompt +" in text for text in seen)
    tab.run(3)
    tab.finished(3)
    written = ast.literal_eval(tab.output(3).inner_text().strip())
    assert re.sub(r"\W", "", written) == re.sub(r"\W", "", answer)
    tab.run(2)
    tab.live(2)
    assert tab.static(2, "written of", timeout=60_000).inner_html() == html
    tab.shot("lab-demo")
    assert_saved_well(tab.save(), answer[:20])


def test_the_prompt_pad(lab: Any, opened: Any) -> None:
    """Typing moves the gauge, Run writes, Stop stops, and the prompt becomes a cell."""
    model = "p = d.pad(answering(Script('word ' * 400, delay=1 / 40))); p"
    tab = opened(lab, "pad.ipynb", [IMPORTS, model])
    tab.run(0)
    tab.run(1)
    board = tab.cell(1).locator(".lm-board")
    board.locator("textarea").wait_for()
    board.locator("textarea").fill("one two three four")
    board.get_by_text("12 prompt + 0 written of 4,096 tokens").wait_for()
    board.get_by_role("button", name="Show sampling").click()
    board.get_by_text("temperature").wait_for()
    tab.shot("lab-pad")
    board.get_by_role("button", name="Run").click()
    board.get_by_text("word word word").wait_for()
    board.get_by_role("button", name="Stop").click()
    board.get_by_text("stopped before its end").wait_for()
    tab.shot("lab-pad-answer")
    board.get_by_role("button", name="Insert as cell").click()
    board.get_by_text("%%llama chat -n 256").wait_for()
    tab.run(0)
    tab.page.wait_for_function("() => document.querySelectorAll('.jp-Notebook .jp-Cell').length === 3")
    assert "%%llama chat -n 256" in tab.cell(1).locator(".cm-content").inner_text()
    assert_no_state(tab.save())


def assert_no_state(notebook: dict[str, Any]) -> None:
    """Assert that no widget state is stored."""
    assert "widgets" not in notebook["metadata"]


def test_notebook_7(notebook_server: Any, opened: Any) -> None:
    """Notebook 7 streams, stops and saves as JupyterLab does."""
    tab = opened(notebook_server, "seven.ipynb", [IMPORTS, SLOW], app="notebooks")
    tab.run(0)
    tab.run(1)
    live = tab.live(1)
    live.get_by_text("word20").wait_for()
    tab.shot("notebook7-live")
    live.get_by_role("button", name="Stop").click()
    tab.static(1, "stopped before its end", timeout=2000)
    tab.shot("notebook7-stopped")
    assert_saved_well(tab.save(), "stopped before its end")


@pytest.mark.parametrize("width", [420])
def test_a_narrow_window_wraps(lab: Any, opened: Any, width: int) -> None:
    """At the width of a side panel no figure is cut off."""
    tab = opened(lab, "narrow.ipynb", [IMPORTS, cell("'word ' * 100", "delay=1 / 30")])
    tab.run(0)
    tab.page.keyboard.press("Control+b")
    tab.page.set_viewport_size({"width": width, "height": 800})
    tab.run(1)
    live = tab.live(1)
    live.get_by_text("word").first.wait_for()
    tab.shot("lab-narrow")
    assert live.evaluate("node => node.scrollWidth <= node.clientWidth + 1")
