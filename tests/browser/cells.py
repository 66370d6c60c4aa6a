"""Cells of the notebooks that the browser tests show, and what holds for every saved one."""

from __future__ import annotations

import json
from typing import Any

IMPORTS = """import threading
from display_answers import Gate, Script, answering, stream
import llama_magic.display as d"""


def cell(text: str, script: str = "", options: str = "") -> str:
    """Return the source of a cell that shows a scripted answer; all three are expressions of it."""
    made = f"s = stream(Script({text}, {script}), {options})"
    return f"{made}\nr = d.show_stream(s, title='chat', model_name='smollm2')"


HELD = "hold=Gate()"  # the answer is written, and ends when the test says `tab.release()`
SLOW = cell("''.join('word%d ' % i for i in range(2000))", "delay=1 / 40", "max_tokens=2000")


HELD = "hold=Gate()"  # the answer is written, and ends when the test says `tab.release()`
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
