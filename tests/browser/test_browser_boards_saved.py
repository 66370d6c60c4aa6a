"""What a saved notebook shows later of a board, and of a pad."""

from __future__ import annotations

from typing import Any

from browser.boards import PAD, WIDGET, board, saved


def test_saved_as_it_is_and_reopened_without_its_kernel(tab: Any) -> None:
    """The stand-in with the last move is seen in place of JupyterLab's error for a lost widget."""
    live = board(tab)
    live.get_by_role("slider", name="top_k").press("Home")
    live.get_by_text("--top-k 0 ").wait_for()
    [stand_in, widget] = tab.children(1)
    assert (stand_in[1], widget[1]) == (False, True)
    view, fallback = saved(tab)
    assert "--top-k 0" in view["text/plain"]
    assert WIDGET not in view
    assert "run this cell again" in fallback["text/plain"]
    assert "run this cell again" in fallback["text/html"]
    tab.restart()
    [stand_in, widget] = tab.children(1)
    assert (stand_in[1], widget[1]) == (True, False)
    tab.shot("board-restarted")
    tab.reopen()
    tab.cell(1).get_by_text("--top-k 0 ").wait_for()
    tab.cell(1).locator(".jp-OutputArea-child").nth(1).wait_for(state="hidden")
    [stand_in, widget] = tab.children(1)
    assert "left of 49,152" in stand_in[0]
    assert (stand_in[1], widget[1]) == (True, False)
    tab.shot("board-reopened")


def test_kept_as_output_there_is_no_widget_left(tab: Any) -> None:
    """Two static outputs: the table and the line to paste; nothing of the widget, also after reopening."""
    live = board(tab)
    live.get_by_role("slider", name="top_k").press("Home")
    live.get_by_text("--top-k 0 ").wait_for()
    live.get_by_role("button", name="Keep as output").press("Enter")
    live.wait_for(state="detached")
    assert [seen for _, seen in tab.children(1)] == [True, True]
    view, line = saved(tab)
    assert WIDGET not in view.keys() | line.keys()
    assert "left of 49,152" in view["text/plain"]
    assert "--top-k 0" in line["text/plain"]
    tab.shot("board-kept")
    tab.reopen()
    tab.cell(1).get_by_text("--top-k 0 ").wait_for()
    assert [seen for _, seen in tab.children(1)] == [True, True]


def test_after_a_reload_the_board_goes_on_and_says_that_it_cannot_be_kept(tab: Any) -> None:
    """The kernel still has the widget, but the page has lost the place that it would be replaced in."""
    saved(tab)
    tab.reload()
    tab.wait_idle()
    live = board(tab)
    assert [seen for _, seen in tab.children(1)] == [False, True]
    live.get_by_role("slider", name="top_k").press("Home")
    live.get_by_text("--top-k 0 ").wait_for()
    live.get_by_role("button", name="Keep as output").click()
    live.get_by_text("The page was reloaded since this cell ran").wait_for()
    assert "--top-k 0" in live.inner_text()
    tab.run(1)
    live.get_by_role("slider", name="temperature").wait_for()


def test_the_steps_of_an_answer_are_walked_on_the_board(tab: Any) -> None:
    """A slider chooses the token, counted from 1 as everywhere on a page; the table is that token's."""
    tab.run(3)
    live = board(tab, 3)
    live.get_by_text("token 2 (step 1) after").wait_for()
    live.get_by_role("slider", name="token").press("ArrowRight")
    live.get_by_text("token 3 (step 2) after").wait_for()
    tab.shot("board-steps")


def test_a_pad_that_was_saved_is_read_later(tab: Any) -> None:
    """What was typed stands in the saved notebook, and is seen where the widget is lost."""
    tab.run(2)
    pad = tab.cell(2).locator(".lm-board")
    pad.locator("textarea").fill("one two three")
    pad.get_by_text("11 prompt + 0 written of 4,096 tokens").wait_for()
    assert pad.locator("textarea").get_attribute("aria-label") == "Prompt"
    view, fallback = saved(tab, 2)
    assert "one two three" in view["text/plain"]
    assert "The prompt pad: run this cell again to use it." in fallback["text/plain"]
    tab.shot("board-pad")
    tab.reopen()
    tab.cell(2).get_by_text("one two three").first.wait_for()
    tab.cell(2).locator(".jp-OutputArea-child").nth(1).wait_for(state="hidden")
    assert [seen for _, seen in tab.children(2)] == [True, False]


def test_shift_enter_in_the_pad_runs_the_pad(opened: Any) -> None:
    """The answer stands below the prompt, which stays; the cell of the pad is not run again. In Presentation
    Mode the letters grow with the notebook's; at 1,000 pixels nothing is cut off."""
    tab = opened("shift.ipynb", [PAD])
    tab.run(0)
    tab.finished(0)
    number = tab.prompt(0)
    pad = tab.cell(0).locator(".lm-board")
    pad.locator("textarea").fill("one two thre")
    pad.locator("textarea").press("e")
    pad.locator("textarea").press("Shift+Enter")
    pad.get_by_text("The answer.").wait_for()
    assert pad.locator("textarea").input_value() == "one two three"
    pad.get_by_text("user 1: 3").nth(1).wait_for()  # in the gauge of what is typed, and the answer's
    assert tab.prompt(0) == number
    tab.page.set_viewport_size({"width": 1000, "height": 900})
    pad.get_by_role("button", name="Show sampling").press("Enter")
    size = "n => parseFloat(getComputedStyle(n).fontSize)"
    before = pad.locator("textarea").evaluate(size)
    tab.command("application:toggle-presentation-mode")
    larger = "n => parseFloat(getComputedStyle(n).getPropertyValue('--jp-content-font-size1')) === 17"
    tab.page.wait_for_function(larger, arg=pad.element_handle())
    tab.shot("board-presentation")
    for part in pad.locator("button, input, textarea, .widget-label, .widget-readout, .lm").all():
        assert part.evaluate("n => n.scrollWidth <= n.clientWidth + 1"), part.evaluate("n => n.outerHTML")
        if part.is_visible():
            assert part.evaluate(size) > 0.85 * before * 17 / 14, part.evaluate("n => n.outerHTML")
    tab.command("application:toggle-presentation-mode")
