"""The models of an experiment: given, named, or the current one; a name is loaded when its turn comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING, Any

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.loading import hooks
from llama_magic.words.given import items_of

if TYPE_CHECKING:
    from llama_magic.model.model import Model

Opener = Callable[[str | None], Any]


class Models:
    """Models by name, in order. `open` gives one; `leave` closes what was loaded for this alone."""

    def __init__(self, given: Mapping[str, Model | str | None], opener: Opener | None = None) -> None:
        self._given = dict(given)
        self._opener = opener or _load
        self._own: dict[str, Model] = {}

    @property
    def names(self) -> list[str]:
        return list(self._given)

    def open(self, name: str) -> Model:
        """Return the model; loads it where only a name was given. Raises as `llama_magic.load`."""
        given = self._given[name]
        if given is not None and not isinstance(given, str):
            return given
        known = hooks.named_model(given) if given is not None else None
        if known is not None:
            return known
        before = hooks.loaded()
        model: Model = self._opener(given)
        if given is not None and not any(model is one for one in before):
            self._own[name] = model
        return model

    def leave(self, name: str) -> None:
        """Close the model where it was loaded here: the next one needs its memory."""
        model = self._own.pop(name, None)
        if model is not None:
            model.close()


def read_models(model: Any, models: Any) -> Models:
    """Return the models of a call; with neither argument, the current one or the only one loaded.

    `models` is a list of models and names, a dict of names to such, or `Models` as they are.
    """
    if isinstance(models, Models):
        return models
    if models is None:
        only = _checked(model) if model is not None else hooks.model_at_hand()
        return Models({_name_of(only): only})
    if model is not None:
        raise OptionError("model and models are given together.", remedy="Give all of them in models.")
    if isinstance(models, Mapping):
        named = {str(name): _checked(one) for name, one in models.items()}
    else:
        if isinstance(models, str) or not isinstance(models, Iterable):
            raise InputTypeError(
                f"models is a {type(models).__name__}; expected a list of models and names.",
                remedy="One model goes into model=.",
            )
        named = by_name(items_of("The models", models))
    if not named:
        raise OptionError("models is empty.", remedy="Give at least one, or leave it out.")
    return Models(named)


def by_name(models: Iterable[Any]) -> dict[str, Any]:
    """Return models by what tables and axes call them, each another; a file without its folder."""
    named: dict[str, Any] = {}
    for one in models:
        name = _name_of(_checked(one))
        name = base = PureWindowsPath(name).stem if name.endswith(".gguf") and "://" not in name else name
        number = 2
        while name in named:
            name, number = f"{base}-{number}", number + 1
        named[name] = one
    return named


def _checked(one: Any) -> Any:
    if isinstance(one, str) or (hasattr(one, "backend") and hasattr(one, "structured")):
        return one
    raise InputTypeError(
        f"A model is a {type(one).__name__}; expected a loaded Model, or a name or source to load."
    )


def _name_of(one: Any) -> str:
    return "" if one is None else one if isinstance(one, str) else str(one.name)


def _load(name: str | None) -> Model:
    from llama_magic.loading.load import load  # for weight: llama.cpp

    return load(name)
