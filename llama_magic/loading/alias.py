"""A task's name (`quick`, `careful`) for a model and its options: `lm.alias`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

from llama_magic import sources
from llama_magic.doors import here, verb
from llama_magic.errors import InputTypeError, OptionError, shown_briefly
from llama_magic.loading import hooks
from llama_magic.loading.keywords import LoadKeywords
from llama_magic.words.names import meant
from llama_magic.words.shown import Shown
from llama_magic.words.signature import checked, spelled_out

_OF_FILES = ("sha256", "revision", "offline")


@dataclass(frozen=True)
class Alias(Shown):
    """A name, and what is loaded when it is first asked for. `notes` say what stands in its way now."""

    name: str
    source: str
    options: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The options as they are written in Python."""
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())

    def __str__(self) -> str:
        options = f", {self.words}" if self.options else ""
        return "\n".join((f"{self.name}: {self.source}{options}", *self.notes))


@spelled_out(LoadKeywords, {}, "None")
@checked
@shown_briefly("The alias")
def alias(
    name: str,
    source: str | os.PathLike[str] | None,
    *,
    sha256: str | None = None,
    revision: str | None = None,
    offline: bool | None = None,
    **options: Any,
) -> Alias | None:
    """Let a name stand for a model and its load options in this kernel; it is loaded when first asked for.

    `source` and options are those of `load`, looked at now; of `server:URL` they are those of `connect`.
    A relative path is taken from here. Options given at a load go before these, and these before
    `%config`. None as the source takes the name away. A name that a file or a loaded model has too is
    noted, for it goes first.

    Raises `SourceError`, `OptionError`.
    """
    if not isinstance(name, str):
        raise InputTypeError(f"An alias is a str, not {type(name).__name__}.")
    if source is None:
        if not sources.remove_alias(name):
            known = ", ".join(sources.own_aliases()) or "none"
            raise OptionError(f"There is no alias {name!r} to take away.", remedy=f"Aliases: {known}.")
        return None
    given = {"sha256": sha256, "revision": revision, "offline": offline, **options}
    given = {key: value for key, value in given.items() if value is not None}
    meaning = _checked(name, source, given)
    sources.add_alias(name, meaning, **given)
    return Alias(name, sources.redact(meaning), given, tuple(_in_the_way(name)))


def aliases() -> list[Alias]:
    """Return the aliases that were made in this kernel."""
    return [
        Alias(name, sources.redact(to.source), to.options, tuple(_in_the_way(name)))
        for name, to in sources.own_aliases().items()
    ]


def _checked(name: str, source: str | os.PathLike[str], given: Mapping[str, Any]) -> str:
    """Return the source to keep. Raises for one, or for options, that could not be loaded."""
    if not isinstance(source, (str, os.PathLike)):
        raise InputTypeError(f"An alias stands for a str or a path, not for {type(source).__name__}.")
    text = os.fspath(source)
    if text == name:
        raise OptionError(f"The alias {name!r} would stand for itself.", remedy="Choose another name.")
    scheme, colon, rest = text.partition(":")
    if colon and scheme == "server":
        from llama_magic.remote.address import Address  # weight: httpx, with what connects
        from llama_magic.remote.connection import connect

        Address.read(rest)
        known = set(signature(connect).parameters) - {"url", "name"}
        for key in given:
            if key not in known:
                raise OptionError(f"A server is not connected to with {key!r}. {meant(key, known, {})}")
        return text
    from llama_magic.loading.options import LoadOptions  # weight: llama.cpp

    parsed = sources.check(source, revision=given.get("revision"), sha256=given.get("sha256"))
    LoadOptions.read({key: value for key, value in given.items() if key not in _OF_FILES})
    return str(parsed.path) if parsed.kind == "path" and parsed.alias is None else text


def _in_the_way(name: str) -> list[str]:
    """Say what is taken in place of an alias."""
    notes = []
    if sources.hidden(name):
        notes.append(f"There is a file called {name} here, which is loaded in its place: rename one of them.")
    if hooks.named_model(name) is not None:
        free = f"{verb('unload', name)} frees the name."
        notes.append(f"A model called {name} is loaded, which is asked in its place. {free}")
    return list(map(here, notes))
