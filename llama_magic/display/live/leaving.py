"""Widgets that are replaced by static output at their end: that output is in them until a page has it.

A page that is loaded again in the middle of a run gets no more of its output from JupyterLab (4.6), but once
the kernel is idle it asks for all widgets. One whose kernel ends before it the page replaces (`settle.js`).
"""

from __future__ import annotations

import contextlib
import re
from collections import deque
from pathlib import Path
from typing import Any, ClassVar

import anywidget
import traitlets

from llama_magic.display.static import inline

_KEPT = 50  # ended views that no page has answered for: a tab that was closed, cells run one after the other
_HERE = Path(__file__).parent


def script(name: str) -> str:
    """Return a view's modules as the one that anywidget takes: each after those that it imports."""
    modules = ((_HERE / module).read_text("utf-8") for module in ("nodes.js", "parts.js", "settle.js", name))
    return "".join(re.sub(r"^import .*\n", "", text, flags=re.MULTILINE) for text in modules)


def style() -> str:
    """Return the views' style sheet: it outweighs JupyterLab's, as do the styles of saved elements."""
    base = re.sub(r"^\.lm \.", ".lm.lm-live .", inline.sheet(), flags=re.MULTILINE)
    return base + (_HERE / "live.css").read_text("utf-8")


class Leaving(anywidget.AnyWidget):
    """The base of those widgets. `unanswered` are those that hold their static output, the oldest first."""

    _css = style()
    left = traitlets.Dict().tag(sync=True)

    unanswered: ClassVar[deque[Leaving]] = deque()

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.left = {"view": self.model_id}  # by which a page finds its place where the kernel ends before it

    def bundle(self, text: str) -> dict[str, Any]:
        """Return what Jupyter stores of it, with the text of a page that has no such widget."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        return {"application/vnd.jupyter.widget-view+json": view, "text/plain": text}

    def leave(self, cell: str | None, run: int | None, bundle: dict[str, Any]) -> None:
        """Hold the static output of a cell's run until a page says that it stands there."""
        self.on_msg(self._answered)
        self.unanswered.append(self)
        self.left = {"cell": cell, "run": run, "view": self.model_id, "bundle": bundle}
        while len(self.unanswered) > _KEPT:
            self.unanswered.popleft().close()

    def _answered(self, widget: Any, content: Any, buffers: Any) -> None:
        if isinstance(content, dict) and content.get("settled"):
            self.close()

    def close(self) -> None:
        """Close the widget, and the layout that ipywidgets gave it, which would stay behind."""
        with contextlib.suppress(ValueError):
            self.unanswered.remove(self)
        layout = self.layout
        super().close()
        if layout is not None:
            layout.close()
