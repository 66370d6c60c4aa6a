"""Finer errors that steer this room inside, and leave it as plain `SourceError`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from llama_magic.errors import LlamaMagicError, SourceError
from llama_magic.sources.redaction import redact


class PageError(SourceError):
    """A server sent an HTML page where a model should be."""


class MissingError(SourceError):
    """The server says that there is no such thing (404)."""


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Turn the finer errors, and what a disk, a name or a library throws, into the one that users know."""
    try:
        yield
    except (PageError, MissingError) as err:
        raise SourceError(err.said[0], remedy=err.said[1]) from None
    except LlamaMagicError:
        raise
    except OSError as err:
        where = f"{os.fsdecode(err.filename)}: " if isinstance(err.filename, (str, bytes)) else ""
        why = redact(err.strerror or str(err) or type(err).__name__)
        raise SourceError(
            f"The disk or the network failed: {where}{why}.",
            remedy="Check that the disk has room and can be written (LLAMA_MAGIC_CACHE, HF_HUB_CACHE).",
        ) from None
    except (ValueError, RecursionError) as err:
        raise SourceError(
            f"The source cannot be read: {redact(str(err) or type(err).__name__)}.",
            remedy="Check the name, the address, and what the server or the cache folder holds.",
        ) from None
