"""What IPython and ipywidgets ask of an object: the underscored names of their protocols."""

from __future__ import annotations

from typing import Any


def show(shown: Any) -> None:
    """Show a widget as `display` does."""
    shown._ipython_display_()


def traceback_of(error: Any) -> list[str]:
    """Return the lines that stand below a cell which raised this error."""
    lines: list[str] = error._render_traceback_()
    return lines


def bundle_of(shown: Any) -> dict[str, Any]:
    """Return what an object is shown as, by MIME type."""
    bundle: dict[str, Any] = shown._repr_mimebundle_()
    return bundle


def page_says(widget: Any, content: dict[str, Any]) -> None:
    """Give a widget a message, as when one comes from a page."""
    widget._handle_custom_msg(content, [])
