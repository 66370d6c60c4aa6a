"""Names that stand for sources, as long as the kernel lives."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from llama_magic.errors import InputTypeError, SourceError
from llama_magic.sources.redaction import redact

DEMO_ALIAS = "smollm2"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


class Meaning(NamedTuple):
    """What an alias stands for: a source, and options to load it with."""

    source: str
    options: Mapping[str, Any]


ALIASES: dict[str, Meaning] = {}


def add_alias(name: str, source: str | os.PathLike[str], **options: Any) -> None:
    """Let `name` stand for `source`, loaded with `options`, in this kernel.

    A name given again stands for the newer source. The options are not looked at here.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SourceError(
            f"{name!r} cannot be an alias.",
            remedy="Use letters, digits, '.', '_' and '-', a letter or digit first, and no '/' or ':'.",
        )
    if not isinstance(source, str | os.PathLike):
        raise InputTypeError(f"An alias stands for a str or a path, not for {type(source).__name__}.")
    ALIASES[name] = Meaning(os.fspath(source), options)


def remove_alias(name: str) -> bool:
    """Let a name stand for nothing again; return whether it stood for something."""
    return ALIASES.pop(name, None) is not None


def aliases() -> dict[str, str]:
    """Return all aliases and what each stands for; `smollm2` is the demo model unless you redefined it."""
    return {DEMO_ALIAS: "the demo model", **{name: redact(to.source) for name, to in ALIASES.items()}}


def own_aliases() -> Mapping[str, Meaning]:
    """Return what the aliases that were added in this kernel stand for."""
    return ALIASES
