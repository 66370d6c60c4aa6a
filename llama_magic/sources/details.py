"""Finer errors that steer this room inside, and leave it as plain `SourceError`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from llama_magic.errors import SourceError


class PageError(SourceError):
    """A server sent an HTML page where a model should be."""


class MissingError(SourceError):
    """The server says that there is no such thing (404)."""


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Turn the finer errors into the one that users know."""
    try:
        yield
    except (PageError, MissingError) as err:
        raise SourceError(err.message, remedy=err.remedy) from None
