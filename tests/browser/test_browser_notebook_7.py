"""Notebook 7: what JupyterLab shows, it shows."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from browser.boards import branch_ended
from browser.cells import BEGUN, IMPORTS, assert_saved_well

PAD = "d.pad(answering('ah'), prompt='Ahoy')"
PEN = (
    "from llama_magic.testing import scripted_model\n"
    "m = scripted_model(['one two three', ' six seven', ' ten'])\n"
    "h = m.complete('Count', max_tokens=9)\nh.live()"
)
BRANCHES = "b = h.branches[0]\nprint(b.text, '|', b.branches[0].text)"
BOARDS = (
    "import llama_magic as lm\nmodel = lm.load(ctx=512, threads=1)",
    "model.xray('The best thing about the sea is', seed=7).live()",
    "lm.lesson.predict('Which?', ['sea', 'tea', 'broccoli'])",
    "import llama_magic.display as d\nfrom display_answers import answering\nd.pad(answering('Ah.'))",
)


@pytest.fixture(scope="module")
def tab(notebook_7: Any) -> Any:
    """One page for all: it costs five seconds of processor time, and each test has cells of its own."""
    return notebook_7("seven.ipynb", [IMPORTS, BEGUN, PAD, PEN, BRANCHES, *BOARDS])


def test_notebook_7(tab: Any, notebook_7: Any) -> None:
    """It streams, stops and saves as JupyterLab does; beside a living pad its stand-in is hidden, and seen
    where the notebook is opened later, without its kernel."""
    tab.run(0)
    tab.run(1)
    live = tab.live(1)
    live.get_by_text("word20").wait_for()
    tab.shot("notebook7-live")
    live.get_by_role("button", name="Stop").click()
    tab.static(1, "stopped before its end")
    tab.shot("notebook7-stopped")
    tab.run(2)
    tab.cell(2).locator(".lm-board textarea").wait_for()
    assert [seen for _, seen in tab.children(2)] == [False, True]
    tab.cell(0).locator(".jp-InputPrompt").click()  # ipywidgets' fields keep Ctrl+S to themselves
    notebook = tab.save()
    pad_cell = notebook["cells"][2]
    notebook["cells"] = notebook["cells"][:2]
    assert_saved_well(notebook, "stopped before its end")
    assert "Ahoy" in str(pad_cell["outputs"][0])
    shutil.copy(tab.server.root / "seven.ipynb", tab.server.root / "later.ipynb")  # it has no kernel yet
    again = notebook_7("later.ipynb")
    again.static(1, "stopped before its end")
    again.cell(2).locator(".jp-OutputArea-child").nth(1).wait_for(state="hidden")
    [stand_in, widget] = again.children(2)
    assert (stand_in[1], widget[1]) == (True, False)
    assert "Ahoy" in stand_in[0]


def test_the_pen_in_notebook_7(tab: Any) -> None:
    """A token is written over by keys and by mouse, no key is a command for the notebook, the branch is a
    value in the kernel, and the saved notebook keeps it."""
    tab.errors.clear()  # Notebook has one of its own while it loads
    tab.run(3)
    sheet = tab.cell(3).locator(".lm-page")
    sheet.wait_for()
    board = tab.cell(3).locator(".lm-board")
    cells = tab.page.locator(".jp-Notebook .jp-Cell").count()
    sheet.locator(".lm-tok").nth(1).focus()
    tab.page.keyboard.type("five")
    tab.page.keyboard.press("Enter")
    branch_ended(board, "branch 1")
    sheet.get_by_text("seven").click()
    sheet.locator("input").fill(" nine")
    sheet.locator("input").press("Enter")
    branch_ended(board, "branch 1.1")
    sheet.get_by_text("ten").wait_for()
    tab.shot("notebook7-pen")
    tab.run(4)
    tab.output(4).get_by_text("one five six seven | one five six nine ten").wait_for()
    assert tab.page.locator(".jp-Notebook .jp-Cell").count() == cells
    assert not tab.errors
    assert tab.contrast(".lm-page") >= 4.5
    tab.cell(4).locator(".jp-InputPrompt").click()
    kept, widget = ("".join(output["data"]["text/plain"]) for output in tab.save()["cells"][3]["outputs"])
    assert kept.startswith("pen: branch 1.1: token 8 “nine”")
    assert "└─ · nine ten" in kept
    assert widget == "The pen: run this cell again to use it."


def test_the_boards_keys_in_notebook_7(tab: Any) -> None:
    """As in JupyterLab: arrows move a slider and a stage, letters are no commands, Shift+Enter runs the pad
    and not its cell, Escape leaves a board for its cell, where they are commands; a kept board leaves its
    table."""
    tab.errors.clear()  # Notebook has one of its own while it loads
    keys, cells = tab.page.keyboard, tab.page.locator(".jp-Notebook .jp-Cell")
    count = cells.count()
    for index in range(5, 9):
        tab.run(index)
        tab.finished(index)
    live = tab.cell(6).locator(".lm-board")
    slider = live.get_by_role("slider", name="top_k")
    slider.press("Home")
    live.get_by_text("--top-k 0 ").wait_for()
    for key in ("b", "x", "d", "d", "Shift+Enter"):
        keys.press(key)
    assert cells.count() == count
    assert slider.evaluate("n => n === document.activeElement")
    live.locator('.lm-stage[tabindex="0"]').focus()
    keys.press("Alt+ArrowRight")
    live.get_by_text('--samplers "dry;penalties').wait_for()
    live.get_by_role("button", name="Draw 100 times").press("Enter")
    live.get_by_text("of 100 would have drawn another token").first.wait_for()
    options = tab.cell(7).locator("input[type=radio]")
    options.first.focus()
    for key in ("Space", "ArrowDown"):
        keys.press(key)
    tab.cell(7).locator(".lm-board").get_by_text("You predict: tea").first.wait_for()
    number = tab.prompt(8)
    field = tab.cell(8).locator("textarea")
    field.fill("one two")
    field.press("Shift+Enter")
    tab.cell(8).locator(".lm-board").get_by_text("Ah.").wait_for()
    assert (field.input_value(), tab.prompt(8)) == ("one two", number)
    tab.shot("notebook7-boards")
    keys.press("Escape")
    keys.press("b")
    assert cells.count() == count + 1
    live.get_by_role("button", name="Keep as output").press("Enter")
    live.wait_for(state="detached")
    assert [seen for _, seen in tab.children(6)] == [True, True]
    assert not tab.errors
