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
BEGUN = cell("''.join('word%d ' % i for i in range(40))", f"at=30, {HELD}")  # goes on until it is stopped
# The live view of the next answer, of whatever model, stands until the test says `tab.release()`.
LINGERS = """from display_answers import Gate
from llama_magic.display.live.live import Live
def later(self, *given, finish=Live.finish, gate=Gate()):
    Live.finish = finish
    while not gate.wait(0.1): pass
    finish(self, *given)
Live.finish = later"""


def assert_saved_well(notebook: dict[str, Any], *texts: str) -> str:
    """Assert that nothing live is stored; return the notebook as text."""
    raw = json.dumps(notebook)
    assert "widgets" not in notebook["metadata"]
    assert "widget-view" not in raw
    assert "<script" not in raw
    for text in texts:
        assert text in raw
    return raw
