"""Notebook 7: what JupyterLab shows, it shows."""

from __future__ import annotations

from typing import Any

from browser.cells import IMPORTS, SLOW, assert_saved_well


def test_notebook_7(notebook_7: Any) -> None:
    """It streams, stops and saves as JupyterLab does; beside a living pad its stand-in is hidden, and seen
    where the notebook is opened later, without its kernel."""
    pad = "d.pad(answering('ah'), prompt='Ahoy')"
    tab = notebook_7("seven.ipynb", [IMPORTS, SLOW, pad])
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
    pad_cell = notebook["cells"].pop()
    assert_saved_well(notebook, "stopped before its end")
    assert "Ahoy" in str(pad_cell["outputs"][0])
    again = notebook_7("seven.ipynb")
    again.static(1, "stopped before its end")
    again.cell(2).locator(".jp-OutputArea-child").nth(1).wait_for(state="hidden")
    [stand_in, widget] = again.children(2)
    assert (stand_in[1], widget[1]) == (True, False)
    assert "Ahoy" in stand_in[0]
