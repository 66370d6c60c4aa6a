"""`inspect`: the header of a model file, here or remote, without its weights."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from llama_magic import gguf, sources
from llama_magic.errors import shown_briefly
from llama_magic.gguf import GGUFInfo
from llama_magic.loading import hooks
from llama_magic.words.signature import checked

if TYPE_CHECKING:
    from llama_magic.sources import Located


@checked
@shown_briefly("The inspection")
def inspect(
    source: str | os.PathLike[str] | None = None,
    *,
    revision: str | None = None,
    offline: bool | None = None,
) -> GGUFInfo:
    """Read the header of a model file, here or remote, without loading weights.

    `source` is anything that `load` takes; of a remote file only the header travels.
    Raises `SourceError` and `InvalidGGUFError`.
    """
    if source is None and revision is None:
        source = hooks.usual_source()
    return header(source, revision, offline)[1]


def header(
    source: str | os.PathLike[str] | None, revision: str | None, offline: bool | None
) -> tuple[Located, GGUFInfo]:
    """Return where a model file is, and its header."""
    located = sources.locate(source, revision=revision, offline=offline)
    if located.path is not None:
        return located, gguf.inspect(located.path, parts=located.parts)
    readers = sources.open_parts(source, revision=revision)
    return located, gguf.inspect(readers[0], parts=readers[1:])
