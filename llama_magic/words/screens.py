"""Where words go: to a terminal, or to what is none."""

from __future__ import annotations

from typing import Any


def is_screen(out: Any) -> bool:
    """Say whether an output is a terminal; one that cannot be asked is none, and so is none at all."""
    try:
        return bool(out.isatty())
    except Exception:
        return False
