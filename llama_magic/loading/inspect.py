"""`inspect`: the header of a model file, here or remote, without its weights."""

from __future__ import annotations

import os

from llama_magic import gguf, sources
from llama_magic.errors import shown_briefly
from llama_magic.gguf import GGUFInfo


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
    located = sources.locate(source, revision=revision, offline=offline)
    if located.path is not None:
        return gguf.inspect(located.path, parts=located.parts)
    readers = sources.open_parts(source, revision=revision)
    return gguf.inspect(readers[0], parts=readers[1:])
