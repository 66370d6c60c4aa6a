"""Boards in a notebook: what makes them, where they stand, what is saved of them."""

from __future__ import annotations

import re
from typing import Any

LOAD = "import llama_magic as lm\nmodel = lm.load(ctx=512, threads=1)"
TRACE = "model.xray('The best thing about the sea is', seed=7).live()"
STEPS = "model.complete('Once upon a time', max_tokens=4, seed=5).xray(1).live()"
PAD = (
    "import llama_magic.display as d\nfrom display_answers import answering\n"
    "d.pad(answering('The answer.', name='fake'))"
)
WIDGET = "application/vnd.jupyter.widget-view+json"


def board(tab: Any, index: int = 1) -> Any:
    """Wait for a cell's board, named by its script, and return it."""
    found = tab.cell(index).locator(".lm-board")
    found.locator('[role=slider][aria-label="temperature"]').wait_for(state="attached")
    return found


def saved(tab: Any, index: int = 1) -> list[dict[str, str]]:
    """Save; return the bundles of a cell's outputs, every text whole; assert that no state is stored."""
    tab.cell(0).locator(".jp-InputPrompt").click()  # ipywidgets' fields keep Ctrl+S to themselves
    notebook = tab.save()
    assert "widgets" not in notebook["metadata"]
    outputs = notebook["cells"][index]["outputs"]
    return [
        {k: v if isinstance(v, dict) else "".join(v) for k, v in output["data"].items()} for output in outputs
    ]


def branch_ended(board: Any, label: str) -> None:
    """Wait until the pen's branch of that name is written and shown; its name alone stands there before."""
    board.locator(".lm-head", has_text=re.compile(rf"{re.escape(label)}\b.* · \d+ tokens?")).wait_for()
    board.locator(".lm-last", has_text="▸").wait_for()
