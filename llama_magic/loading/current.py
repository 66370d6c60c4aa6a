"""What `load` takes where it is given nothing: the current default model, as whoever keeps one says.

A session, which stands above, gives its answer to `ask`; light to import, so that it can. What the
environment names comes after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from llama_magic import environment

if TYPE_CHECKING:
    from llama_magic.model.model import Model

_asked: list[tuple[Callable[[], Model | None], Callable[[str], Model | None]]] = []

_openers: list[Callable[..., Model]] = []


def ask(answer: Callable[[], Model | None], known: Callable[[str], Model | None]) -> None:
    """Ask `answer` from now on for the current model, `known` for one by its name; None: there is none."""
    _asked[:] = [(answer, known)]


def current() -> Model | None:
    """Return the current model, None where there is none."""
    return _asked[0][0]() if _asked else None


def usual_source() -> str | None:
    """Return what is loaded where nothing is named and no model is current, None for the demo model.

    Raises `OptionError` for an environment variable of ours that holds what it cannot mean.
    """
    return environment.read().source


def open_by(opener: Callable[..., Model] | None) -> None:
    """Let `load` give what `opener(source, name=…, **options)` gives, and open no file; None ends that."""
    _openers[:] = [] if opener is None else [opener]


def opener() -> Callable[..., Model] | None:
    """Return what opens models in place of `load`, None where nothing does."""
    return _openers[0] if _openers else None


def named(name: str) -> Model | None:
    """Return the loaded model that is kept under a name, None where there is none."""
    return _asked[0][1](name) if _asked else None
