"""The pen in real JupyterLab: picked and written over by mouse and by keys, heard, saved and read later."""

from __future__ import annotations

import re
from typing import Any

import pytest

from browser.boards import branch_ended

LOAD = "import llama_magic as lm\n%load_ext llama_magic\nmodel = lm.load(ctx=512, threads=1)"
ASK = "%%llama complete --live -o a -n 24 --seed 7\nThe best thing about the sea is"
BRANCHES = "print([b.text[:30] for one in (a, *a.branches) for b in one.branches])"
HELD = (
    "from display_answers import Gate\nfrom llama_magic.testing import Script, scripted_model\n"
    "m = scripted_model(['one two three', Script(' six seven eight', at=2, hold=Gate()), ' ten'])\n"
    "w = scripted_model([Script('one two three four', at=3, hold=Gate()), ' ten'])\n"
    "h = m.complete('Count', max_tokens=9)\nh.live()"
)
WRITES = "%%llama complete --live -m {w} -o s -n 9\nCount"  # until it is stopped, however late that is
FOCUSED = "() => document.activeElement.getAttribute('aria-label')"


@pytest.fixture
def tab(opened: Any, request: pytest.FixtureRequest) -> Any:
    """A notebook with a model loaded, an answer and the pen in its second cell."""
    name = re.sub(r"\W+", "-", request.node.name)
    made = opened(f"{name}.ipynb", [LOAD, ASK, BRANCHES, HELD, WRITES])
    made.run(0)
    made.finished(0)
    made.run(1)
    made.finished(1)
    page(made)
    return made


def page(tab: Any, index: int = 1) -> Any:
    """Wait for the pen of a cell and return the text under it."""
    found = tab.cell(index).locator(".lm-page")
    found.wait_for()
    return found


def token(sheet: Any, step: int) -> Any:
    """Return the element of a token."""
    return sheet.locator(".lm-tok").nth(step)


def rows(sheet: Any) -> Any:
    """Wait for what may stand at the open token, and return its rows."""
    found = sheet.locator(".lm-may")
    found.nth(7).wait_for()
    return found


def text_of(sheet: Any) -> str:
    """Return the text on the page, without its end."""
    return "".join(sheet.locator(".lm-tok:not(.lm-last)").all_inner_texts())


def ended(sheet: Any, label: str) -> None:
    """Wait until a branch is written and shown."""
    branch_ended(sheet.locator("xpath=ancestor::*[contains(@class, 'lm-board')]"), label)


def printed(tab: Any, index: int, text: str) -> None:
    """Run a cell and wait for what it prints."""
    tab.run(index)
    tab.output(index).get_by_text(text).wait_for()


def test_by_mouse(tab: Any) -> None:
    """A click shows what else may stand there, a second picks it; the branch is a value in the kernel."""
    sheet = page(tab)
    assert text_of(sheet).startswith(" that it offers a unique")
    token(sheet, 4).click()
    found = rows(sheet)
    assert found.first.get_attribute("aria-selected") == "true"
    assert found.all_inner_texts()[1].split() == ["·wide", "5.1%"]
    box, last = sheet.bounding_box(), found.nth(7).bounding_box()
    assert last["y"] + last["height"] <= box["y"] + box["height"]  # the output has room for all of it
    tab.shot("pen-open")
    found.nth(1).click()
    ended(sheet, "branch 1")
    assert text_of(sheet).startswith(" that it offers a wide")
    tab.shot("pen-branch")
    token(sheet, 5).click()
    sheet.locator("input").press_sequentially("choice")  # behind the blank that the token begins with
    sheet.locator("input").press("Enter")
    ended(sheet, "branch 1.1")
    assert text_of(sheet).startswith(" that it offers a wide choice")
    printed(tab, 2, "' that it offers a wide")
    tab.cell(1).get_by_label("version").select_option(label="the answer")
    sheet.get_by_text("unique").wait_for()
    assert not tab.errors
    assert not tab.elsewhere


def test_by_keys(tab: Any) -> None:
    """Tab comes into the text, arrows move, Enter opens and picks, Escape closes, typing replaces; no key
    is a command for the cell."""
    sheet, keys = page(tab), tab.page.keyboard
    cells = tab.page.locator(".jp-Notebook .jp-Cell").count()
    token(sheet, 0).focus()
    keys.press("ArrowRight")
    assert tab.page.evaluate(FOCUSED) == "it, 79%"
    assert token(sheet, 1).evaluate("n => getComputedStyle(n).outlineStyle") == "solid"
    keys.press("End")
    assert tab.page.evaluate(FOCUSED).startswith("the end, cut at max_tokens 24")
    keys.press("Home")
    keys.press("ArrowDown")
    where = "() => { const n = document.activeElement; return [...n.parentElement.children].indexOf(n); }"
    assert tab.page.evaluate(where) > 10
    keys.press("ArrowUp")
    keys.press("Home")
    for _ in range(4):
        keys.press("ArrowRight")
    keys.press("Enter")
    rows(sheet)
    tab.page.wait_for_function("() => document.activeElement.classList.contains('lm-may')")
    assert tab.page.evaluate(FOCUSED) == "unique, 36%, stands here"
    keys.press("Escape")
    assert tab.page.evaluate(FOCUSED) == "unique, 36%"
    assert not sheet.locator(".lm-panel").is_visible()
    keys.press("Enter")
    tab.page.wait_for_function("() => document.activeElement.classList.contains('lm-may')")
    keys.press("ArrowDown")
    keys.press("Enter")
    ended(sheet, "branch 1")
    assert text_of(sheet).startswith(" that it offers a wide")
    assert tab.page.evaluate(FOCUSED) == "wide, 5.1%, given"  # the focus stays where it was picked
    keys.type("deep")
    assert sheet.locator("input").input_value() == " deep"
    tab.shot("pen-typed")
    keys.press("Enter")
    ended(sheet, "branch 1.1")
    assert text_of(sheet).startswith(" that it offers a deep")
    printed(tab, 2, "' that it offers a deep")
    assert tab.page.locator(".jp-Notebook .jp-Cell").count() == cells
    assert not tab.errors


def test_tab_comes_into_the_text_once(tab: Any) -> None:
    """The version, the text (one stop), seed and buttons, each with a name."""
    sheet = page(tab)
    token(sheet, 0).focus()
    seen = []
    name = "n => n.getAttribute('aria-label') || n.textContent || n.labels?.[0]?.textContent"
    for _ in range(2):
        tab.page.keyboard.press("Tab")
        seen.append(tab.page.evaluate(f"() => ({name})(document.activeElement)"))
    assert seen == ["seed", "Keep as output"]
    tab.page.keyboard.press("Shift+Tab")
    tab.page.keyboard.press("Shift+Tab")
    assert tab.page.evaluate(FOCUSED) == "that, 28%"
    words = sheet.locator(".lm-words")
    assert words.get_attribute("role") == "listbox"
    assert "Arrows move" in words.get_attribute("aria-label")
    region = tab.cell(1).locator(".lm-voice [role=status]").element_handle()
    token(sheet, 24).click()
    sheet.locator("input").press("Enter")
    ended(sheet, "branch 1")
    tab.page.wait_for_function("r => r.textContent.startsWith('branch 1: that it offers')", arg=region)
    token(sheet, 0).focus()
    tab.page.keyboard.press("Shift+Tab")
    ring = "() => [document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle]"
    assert tab.page.evaluate(ring) == ["SELECT", "solid"]


def test_a_pick_while_a_branch_is_written(tab: Any) -> None:
    """The text grows on the board while the kernel is free; a pick stops it and goes on from there."""
    tab.run(3)
    tab.finished(3)
    sheet = page(tab, 3)
    token(sheet, 1).focus()
    tab.page.keyboard.type("five")
    tab.page.keyboard.press("Enter")
    sheet.get_by_text("seven").wait_for()
    assert sheet.locator(".lm-last").inner_text() == "… is being written"
    assert tab.cell(3).get_by_role("button", name="Stop").is_enabled()
    printed(tab, 2, "[]")  # other cells run meanwhile
    sheet.get_by_text("seven").click()
    sheet.locator("input").fill(" nine")
    sheet.locator("input").press("Enter")
    ended(sheet, "branch 1.1")
    assert text_of(sheet) == "one five six nine ten"


def test_while_the_cell_writes_stop_brings_the_pen(tab: Any) -> None:
    """A cell that writes hears no pick; stopped, its text is under the pen."""
    tab.run(3)
    tab.finished(3)
    tab.run(4)
    live = tab.live(4)
    live.get_by_text("three").wait_for()
    live.get_by_role("button", name="Stop").click()
    sheet = page(tab, 4)
    assert "stopped before its end" in sheet.locator(".lm-last").inner_text()
    token(sheet, 1).click()
    sheet.locator("input").fill(" nine")
    sheet.locator("input").press("Enter")
    ended(sheet, "branch 1")
    assert text_of(sheet) == "one nine ten"


def test_the_pen_follows_the_theme_and_a_narrow_window(tab: Any) -> None:
    """Every text of it has a contrast of 4.5 or more, in the panel too, in both themes; at the width of a
    side panel nothing is cut off."""
    sheet = page(tab)
    token(sheet, 4).click()
    rows(sheet)
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        tab.theme(theme)
        tab.shot(f"pen-{theme[-5:].strip().lower()}")
        assert tab.contrast(".lm-page") >= 4.5, theme
        assert tab.contrast(".lm-board .lm") >= 4.5, theme
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("Control+b")
    tab.page.set_viewport_size({"width": 420, "height": 900})
    token(sheet, 6).click()
    rows(sheet)
    tab.shot("pen-narrow")
    box, panel = sheet.bounding_box(), sheet.locator(".lm-panel").bounding_box()
    assert panel["x"] + panel["width"] <= box["x"] + box["width"] + 1
    assert panel["x"] >= box["x"]


def test_saved_and_reopened_without_its_kernel(tab: Any) -> None:
    """Tree and tokens stand in the saved notebook, without a widget's state; kept, without a widget."""
    sheet = page(tab)
    token(sheet, 4).click()
    rows(sheet).nth(1).click()
    ended(sheet, "branch 1")
    tab.cell(0).locator(".jp-InputPrompt").click()
    notebook = tab.save()
    assert "widgets" not in notebook["metadata"]
    texts = ["".join(output["data"]["text/plain"]) for output in notebook["cells"][1]["outputs"]]
    assert "└─ wide 5%" in texts[1]
    assert texts[2] == "The pen: run this cell again to use it."
    tab.cell(1).get_by_role("button", name="Keep as output").click()
    sheet.wait_for(state="detached")
    assert [shown for _, shown in tab.children(1)] == [True, True, True]
    tab.shot("pen-kept")
    tab.reopen()
    tab.cell(1).get_by_text("└─ wide 5%").wait_for()
    tab.cell(1).locator(".jp-OutputArea-child").nth(2).wait_for(state="hidden")
    tab.shot("pen-reopened")
