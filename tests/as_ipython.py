"""What IPython asks of an object that is shown or raised: the underscored names of its protocol."""

from __future__ import annotations

from typing import Any


def show(shown: Any) -> None:
    """Show a widget as `display` does."""
    shown._ipython_display_()


def traceback_of(error: Any) -> list[str]:
    """Return the lines that stand below a cell which raised this error."""
    lines: list[str] = error._render_traceback_()
    return lines
