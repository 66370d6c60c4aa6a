"""What `load` takes where it is given nothing: the current default model, as whoever keeps one says.

A session, which stands above, gives its answer to `ask`; light to import, so that it can.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llama_magic.model.model import Model

_asked: list[Callable[[], Model | None]] = []


def ask(answer: Callable[[], Model | None]) -> None:
    """Ask `answer` from now on; it returns None where there is no current model."""
    _asked[:] = [answer]


def current() -> Model | None:
    """Return the current model, None where there is none."""
    return _asked[0]() if _asked else None
