"""The text under the pen: every token can be focused, opened, picked over and written over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from llama_magic.model.branching import Alternative
from llama_magic.words.harmless import visible

_HERE = Path(__file__).parent
Ask = tuple[str, int, int, int | str | None]  # "open" or "pick", of which version, at which step, what


class Sheet(anywidget.AnyWidget):
    """What the page shows of one version, and what it asks for.

    `tokens` are `[text, probability or None, whether it was given]`, `end` says how the text ends (while it
    is written: what is done), `of` is the number of the version. What may stand at a step is a message, the
    last one `offered`: `step`, `of`, `rows` of `[id, text, probability, whether it stands there]`, and
    `problem` where that is not known.
    """

    # Text, not a path: anywidget keeps every widget whose script it may have to reload.
    _esm = (_HERE / "sheet.js").read_text("utf-8")
    _css = (_HERE.parent / "static" / "base.css").read_text("utf-8") + (_HERE / "sheet.css").read_text(
        "utf-8"
    )
    tokens: Any = traitlets.List().tag(sync=True)
    end = traitlets.Unicode().tag(sync=True)
    of = traitlets.Int().tag(sync=True)
    writing = traitlets.Bool().tag(sync=True)

    def __init__(self, asked: Callable[[Ask], None]) -> None:
        """Make it; `asked` is told what the page asks for."""
        super().__init__()
        self._asked = asked
        self.offered: dict[str, Any] = {}
        self.on_msg(self._told)

    def show(
        self,
        pieces: Sequence[str],
        shares: Sequence[float | None] = (),
        *,
        given: int = 0,
        end: str = "",
    ) -> None:
        """Show the tokens of a text; the first `given` were not drawn."""
        known = [*shares, *[None] * len(pieces)]
        self.tokens = [
            [visible(text), None if share is None else round(share, 4), at < given]
            for at, (text, share) in enumerate(zip(pieces, known, strict=False))
        ]
        self.end = end

    def offer(self, of: int, step: int, found: Sequence[Alternative], problem: str = "") -> None:
        """Show what may stand at a step."""
        rows = [[one.token_id, visible(one.text), one.probability, one.drawn] for one in found]
        self.offered = {"of": of, "step": step, "rows": rows, "problem": problem}
        self.send(self.offered)

    def _told(self, widget: Any, content: Any, buffers: Any) -> None:
        """Take what the page asks for; what is no such message is ignored."""
        if not isinstance(content, dict):
            return
        of, text, token = content.get("of"), content.get("text"), content.get("token")
        for what in ("open", "pick"):
            step = content.get(what)
            if type(step) is int and type(of) is int:
                choice = text if isinstance(text, str) else token if type(token) is int else None
                if what == "open" or choice is not None:
                    self._asked((what, of, step, choice))
