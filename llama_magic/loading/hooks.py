"""What stands above tells `load`: the current model, models by name, who opens models in its place.

Light to import, so that a session can set them. What the environment names comes after a current model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from llama_magic import environment

if TYPE_CHECKING:
    from llama_magic.model.model import Model

_models: list[tuple[Callable[[], Model | None], Callable[[str], Model | None]]] = []
_openers: list[Callable[..., Model]] = []


def set_models(current: Callable[[], Model | None], named: Callable[[str], Model | None]) -> None:
    """Ask `current` from now on for the current model, `named` for one by its name; None: there is none."""
    _models[:] = [(current, named)]


def current_model() -> Model | None:
    """Return the current model, None where there is none."""
    return _models[0][0]() if _models else None


def model_at_hand() -> Model | None:
    """Return the current model; where there is none, as in a script, the only one that is in memory."""
    current = current_model()
    here = loaded()
    return here[0] if current is None and len(here) == 1 else current


def named_model(name: str) -> Model | None:
    """Return the loaded model that is kept under a name, None where there is none."""
    return _models[0][1](name) if _models else None


def usual_source() -> str | None:
    """Return what is loaded where nothing is named and no model is current, None for the demo model.

    Raises `OptionError` for an environment variable of ours that holds what it cannot mean.
    """
    return environment.read().source


def set_opener(opener: Callable[..., Model] | None) -> None:
    """Let `load` give what `opener(source, name=…, **options)` gives, and open no file; None ends that."""
    _openers[:] = [] if opener is None else [opener]


def opener() -> Callable[..., Model] | None:
    """Return what opens models in place of `load`, None where nothing does."""
    return _openers[0] if _openers else None


def loaded() -> list[Model]:
    """Return the models that are in memory now, whoever loaded them; nothing is imported for it."""
    opening = sys.modules.get("llama_magic.loading.opening")
    return opening.loaded() if opening is not None else []
