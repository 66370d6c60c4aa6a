"""The keyboard in real JupyterLab: a board's keys are its own, nothing is a trap, and no focus is lost."""

from __future__ import annotations

from typing import Any

from browser.boards import branch_ended
from browser.cells import HELD, IMPORTS, cell

LOAD = "%load_ext llama_magic\n%llama load --ctx 512 --threads 1"
PREDICT = "import llama_magic as lm\nlm.lesson.predict('Which?', ['sea', 'tea', 'broccoli'])"
XRAY = "%%llama xray --live --seed 7\nThe best thing about the sea is"
PEN = "%%llama chat --session s --live --seed 7 -n 8\nWhat is the capital of France?"
CHAT = "%llama chat s show"
TENSORS = "%llama inspect --tensors"
FOCUSED = "() => document.activeElement.textContent"
# What has the focus: a field by what stands in it while it is empty, or its label; a button by its words.
NAME = """() => {
  const node = document.activeElement;
  const label = node.closest(".widget-inline-hbox")?.querySelector(".widget-label")?.innerText;
  if (label) return label + (node.classList.contains("widget-readout") ? " =" : "");
  return node.placeholder || node.innerText.trim();
}"""
IN_CELL = "() => document.activeElement.classList.contains('jp-Cell')"


def boards(opened: Any, name: str, *sources: str) -> Any:
    """Open a notebook with a model loaded, and run its cells."""
    tab = opened(name, [LOAD, *sources])
    for index in range(len(sources) + 1):
        tab.run(index)
        tab.finished(index)
    return tab


def test_keys_on_a_board_are_no_commands_for_its_cell(opened: Any) -> None:
    """Arrows choose among answers, letters do nothing to cells, Escape leaves the board for its cell, from a
    field too; a board that is kept leaves the focus on the cell."""
    tab = boards(opened, "keys.ipynb", PREDICT, XRAY, "%llama pad")
    keys, cells = tab.page.keyboard, tab.page.locator(".jp-Notebook .jp-Cell")
    options = tab.cell(1).locator("input[type=radio]")
    options.first.focus()
    for key, chosen in (("Space", 0), ("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1)):
        keys.press(key)
        assert [one.is_checked() for one in options.all()].index(True) == chosen, key
    tab.cell(1).locator(".lm-board").get_by_text("You predict: tea").first.wait_for()
    slider = tab.cell(2).get_by_role("slider", name="temperature")
    slider.focus()
    for key in ("b", "a", "x", "d", "d", "Shift+Enter"):
        keys.press(key)
    assert cells.count() == 4
    assert slider.evaluate("n => n === document.activeElement")
    keys.press("Escape")
    assert tab.page.evaluate(IN_CELL)
    field = tab.cell(3).locator("textarea")
    field.focus()
    keys.press("Escape")
    assert tab.page.evaluate(IN_CELL)
    keys.press("b")  # there it is a command
    assert cells.count() == 5
    tab.cell(2).get_by_role("button", name="Keep as output").press("Enter")
    tab.cell(2).locator(".lm-board").wait_for(state="detached")
    tab.page.wait_for_function(IN_CELL)
    assert not tab.errors


def test_a_prediction_is_judged_by_the_next_cell_or_by_asking(opened: Any) -> None:
    """Options are one stop of Tab. Nothing says whether the choice is right until the cell below has
    run, and then the file, too; the button says it at once, and leaves the focus on the cell."""
    asked = f"{PREDICT.removesuffix(')')}, answer='tea', why='It is hot.')"
    tab = opened("predict.ipynb", [asked, "1 + 1", asked])
    keys = tab.page.keyboard

    def choose(index: int, key: str) -> Any:
        tab.run(index)
        tab.finished(index)
        board = tab.cell(index).locator(".lm-board")
        board.locator("input[type=radio]").first.focus()
        keys.press(key)
        board.get_by_text("You predict: ").first.wait_for()
        assert "hot" not in tab.cell(index).locator(".jp-OutputArea").inner_text()
        return board

    first = choose(0, "Space")
    tab.run(1)
    said = "You predicted: sea. It is: tea. It is hot."
    first.get_by_text(said).first.wait_for()
    board = choose(2, "ArrowDown")
    assert board.get_by_role("radiogroup", name="predict: Which?").is_visible()
    keys.press("Tab")
    assert tab.page.evaluate(FOCUSED) == "Show the answer"
    keys.press("Enter")
    board.get_by_text("You predicted: tea. So it is. It is hot.").first.wait_for()
    tab.page.wait_for_function(IN_CELL)
    assert tab.contrast(".lm-board") >= 4.5
    tab.shot("predict-told")
    saved, *_ = tab.save()["cells"][0]["outputs"]
    assert "".join(saved["data"]["text/plain"]).endswith(said)
    assert not tab.errors


def test_a_branch_is_put_into_its_chat_by_keys(opened: Any) -> None:
    """From the picked token Tab comes to the seed, then to the button; Enter makes it the turn."""
    tab = boards(opened, "keys-pen.ipynb", PEN)
    keys, board = tab.page.keyboard, tab.cell(1).locator(".lm-board")
    board.locator(".lm-tok").nth(1).focus()
    keys.press("Enter")
    tab.page.wait_for_function("() => document.activeElement.classList.contains('lm-may')")
    keys.press("ArrowDown")
    keys.press("Enter")
    branch_ended(board, "branch 1")
    board.get_by_role("button", name="Use in chat s", disabled=False).wait_for()
    text = "".join(board.locator(".lm-tok:not(.lm-last)").all_inner_texts())
    assert text != "The capital of France is Paris."
    seen = []
    for _ in range(2):
        keys.press("Tab")
        seen.append(tab.page.evaluate(FOCUSED))
    assert seen == ["", "Use in chat s"]
    keys.press("Enter")
    board.get_by_text("This is the answer of turn 1 of the chat “s” now").first.wait_for()
    board.get_by_role("button", name="Stands in chat s").wait_for()
    tab.shot("pen-in-chat")
    tab.page.evaluate("() => window.jupyterapp.commands.execute('notebook:insert-cell-below')")
    tab.cell(2).locator(".cm-content").click()
    keys.type(CHAT)
    tab.run(2)
    tab.static(2, text.strip())


def test_folds_and_stop_by_keys(opened: Any) -> None:
    """Enter and Space open and close a fold, also while a cell writes; Stop by Enter keeps the focus."""
    held = cell("'word ' * 30", HELD, "n=7")
    tab = opened("keys-folds.ipynb", [LOAD, TENSORS, IMPORTS, held])
    keys = tab.page.keyboard
    for index in range(3):
        tab.run(index)
        tab.finished(index)
    fold = tab.cell(1).locator(".jp-OutputArea details").first
    summary = fold.locator("summary").first
    summary.focus()
    keys.press("Enter")
    assert fold.evaluate("n => n.open")
    assert summary.evaluate("n => getComputedStyle(n).outlineStyle") == "solid"
    keys.press("Space")
    assert not fold.evaluate("n => n.open")
    tab.run(3)
    live = tab.live(3)
    fold = live.locator("details").first
    fold.locator("summary").focus()
    keys.press("Enter")
    assert fold.evaluate("n => n.open")
    keys.press("Shift+Tab")
    assert tab.page.evaluate(FOCUSED) == "Stop"
    keys.press("Enter")
    tab.finished(3)
    live.wait_for(state="detached")
    tab.page.wait_for_function(IN_CELL)


def test_tab_goes_through_the_pad_from_top_to_bottom_and_out(opened: Any) -> None:
    """System prompt, prompt, the buttons that can be pressed, the fold; what it opens comes behind it, and
    behind its last field the page goes on. Shift+Tab goes the same way back."""
    tab = boards(opened, "keys-pad.ipynb", "%llama pad")
    keys, pad = tab.page.keyboard, tab.cell(1).locator(".lm-board")

    def pressed(key: str, times: int) -> list[str]:
        seen = []
        for _ in range(times):
            keys.press(key)
            seen.append(tab.page.evaluate(NAME))
        return seen

    pad.locator("input[placeholder^=System]").focus()
    shut = ["Prompt (Shift+Enter runs)", "Run", "Insert as cell", "Keep as output", "Show sampling"]
    assert pressed("Tab", 5) == shut
    keys.press("Space")
    pad.get_by_text("Hide sampling").wait_for()
    sliders = ["temperature", "top_k", "top_p", "min_p", "repeat_penalty"]
    fields = [name for slider in sliders for name in (slider, f"{slider} =")]
    inside = pressed("Tab", len(fields) + 2)
    assert inside == [*fields, "seed", "max_tokens"]
    assert pressed("Shift+Tab", len(inside)) == [*inside[-2::-1], "Hide sampling"]
    assert pressed("Shift+Tab", 4) == shut[-2::-1]
    pad.locator("input[type=number]").focus()
    keys.press("Tab")
    assert not pad.evaluate("n => n.contains(document.activeElement)")
    assert not tab.errors
