"""The table of an experiment that runs: its Stop, and what stays where the kernel or the page goes."""

from __future__ import annotations

import json
import re
from typing import Any

from browser.cells import assert_saved_well

# The last row holds until the test lets it go.
ASKS = """import llama_magic as lm
from display_answers import Gate, Script
from llama_magic.testing import scripted_model
def said(request):
    text = request.messages[-1]["content"]
    return Script(f"A text about {text}.", at=0, hold=Gate() if text == "row 4" else None)
model = scripted_model(said)
rows = [f"row {i}" for i in range(5)]"""
RUNS = "runs = lm.map(rows, model=model)"


def under_way(tab: Any, index: int) -> Any:
    """Run the cell; return its output once four rows are there, and it has a Stop."""
    tab.run(index)
    tab.cell(index).locator(".lm", has_text="A text about row 3.").last.wait_for()
    tab.cell(index).get_by_role("button", name="Stop").wait_for()
    return tab.cell(index)


def test_stop_ends_an_experiment_and_keeps_what_is_done(opened: Any) -> None:
    """The time left and Stop stand above the table while it fills; Stop leaves one line, and the rows."""
    tab = opened("experiment.ipynb", [ASKS, RUNS, "[run.text for run in runs]"])
    tab.run(0)
    cell = under_way(tab, 1)
    assert "so far: 4 of 5 rows" in cell.inner_text()
    tab.shot("lab-experiment")
    button = cell.get_by_role("button", name="Stop")
    button.focus()
    tab.page.keyboard.press("Enter")
    tab.static(1, "stopped: 4 of 5 rows")
    tab.finished(1)
    assert "left" not in cell.inner_text()
    assert cell.locator("table").count() == 0
    tab.shot("lab-experiment-stopped")
    tab.run(2)
    assert "A text about row 3." in tab.output(2).inner_text()
    assert_saved_well(tab.save(), "stopped: 4 of 5 rows", "runs.resume() goes on")


def test_a_table_whose_kernel_ended_keeps_its_rows_and_no_time_left(opened: Any) -> None:
    """A restart leaves the rows, and says that it was one. What was saved in the middle is true for whoever
    opens it with another kernel: no error of a widget stands above the rows."""
    tab = opened("experiment-lost.ipynb", [ASKS, RUNS], own_kernel=True)
    tab.run(0)
    cell = under_way(tab, 1)
    midway = json.dumps(tab.save())
    tab.restart()
    tab.static(1, "The kernel ended before the experiment did.")
    assert "so far: 4 of 5 rows" in cell.inner_text()
    assert cell.locator(".lm-live").count() == 0
    tab.shot("lab-experiment-lost")
    raw = assert_saved_well(tab.save(), "A text about row 3.")
    assert not re.search(r"\d s left", raw + midway)
    (tab.server.root / tab.name).write_text(midway)
    tab.reopen()
    tab.cell(1).locator(".jp-OutputArea-child").first.wait_for(state="hidden")
    [shown] = [words for words, seen in tab.children(1) if seen]
    assert shown.strip().startswith("so far: 4 of 5 rows")
    tab.shot("lab-experiment-midway")


def test_a_page_loaded_again_is_told_that_it_ended(opened: Any) -> None:
    """How it ended stands in place of the table, though the page that began it is gone."""
    tab = opened("experiment-reload.ipynb", [ASKS, RUNS])
    tab.run(0)
    under_way(tab, 1)
    tab.save()
    tab.reload()
    tab.release()
    tab.static(1, "done: 5 of 5 rows")
    assert tab.cell(1).locator("table").count() == 0
    tab.shot("lab-experiment-reload")
