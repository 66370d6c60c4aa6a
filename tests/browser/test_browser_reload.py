"""Pages that are loaded again while a cell runs, and after it."""

from __future__ import annotations

from typing import Any

import pytest

from browser.cells import BEGUN, HELD, IMPORTS, assert_saved_well, cell

UNANSWERED = "from llama_magic.display.live.live import LiveView\nprint(len(LiveView.unanswered))"


def all_answered(tab: Any, index: int) -> None:
    """Run the cell `UNANSWERED` until a page has answered for each view: that is heard between cells."""
    for _ in range(100):
        tab.run(index)
        tab.finished(index)
        if tab.output(index).inner_text().strip() == "0":
            return
    raise AssertionError("a view still waits for the page")


@pytest.mark.parametrize("saved", [True, False])
def test_a_page_loaded_again_in_mid_run_gets_the_answer(opened: Any, saved: bool) -> None:
    """Whether the running cell was saved or not: when the run and a queued one have ended, both static
    outputs stand in their cells, nothing live is saved, and the kernel has closed its widgets."""
    rows = [IMPORTS, cell("''.join('slow%d ' % i for i in range(120))", HELD), cell("'fine '"), UNANSWERED]
    tab = opened(f"midway-{saved}.ipynb", rows, own_kernel=True)
    tab.run(0)
    tab.save()
    tab.run(1)
    tab.live(1).get_by_text("slow119").wait_for()
    tab.run(2)
    if saved:
        tab.save()
    else:  # the server has answered after the request: one still in the page would be lost with it
        tab.page.evaluate("() => fetch(location.href).then((answer) => answer.text())")
    tab.reload()
    tab.release()
    tab.static(1, "slow119")
    tab.shot(f"lab-reload-midway-{'saved' if saved else 'unsaved'}")
    assert tab.prompt(1) == "[2]:"
    tab.static(2, "fine")
    tab.wait_idle()
    all_answered(tab, 3)
    for index in (1, 2):
        assert tab.output(index).count() == 1
    assert_saved_well(tab.save(), "slow119", "fine")


def test_a_reload_in_the_middle_leaves_a_usable_notebook(opened: Any) -> None:
    """After a reload while a cell runs the kernel can be interrupted: the text so far comes, and the next
    cell can be run."""
    tab = opened("midway.ipynb", [IMPORTS, BEGUN, cell("'fine'")])
    tab.run(0)
    tab.run(1)
    tab.live(1).get_by_text("word10").wait_for()
    tab.save()
    tab.reload()
    tab.interrupt()
    assert "word10" in tab.static(1, "stopped before its end").inner_text()
    tab.wait_idle()
    tab.run(2)
    tab.static(2, "fine")


def test_an_answer_is_not_put_back_once_the_reader_cleared_it(opened: Any) -> None:
    """A page that had the answer has told the kernel so: after clearing and a reload the cell stays empty."""
    tab = opened("cleared.ipynb", [IMPORTS, cell("'once ' * 20"), UNANSWERED], own_kernel=True)
    tab.run(0)
    tab.run(1)
    tab.static(1, "once")
    all_answered(tab, 2)
    tab.command("notebook:clear-all-cell-outputs")
    tab.page.wait_for_function("() => !document.querySelector('.jp-OutputArea-output')")
    tab.save()
    tab.reload()
    tab.wait_idle()
    all_answered(tab, 2)
    assert tab.output(1).count() == 0
