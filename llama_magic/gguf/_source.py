"""Where header bytes come from: a local file, or anything that reads ranges."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Protocol, runtime_checkable

from llama_magic.errors import SourceError


@runtime_checkable
class ByteRanges(Protocol):
    """Something that gives bytes by range: a file, or a URL read by HTTP ranges."""

    @property
    def size(self) -> int:
        """Return the length of the whole file in bytes."""
        ...

    def read_at(self, offset: int, n: int) -> bytes:
        """Return up to `n` bytes from `offset`; fewer only at the end of the file."""
        ...


class FileReader:
    """A local file, read by position. Refuses what is not a regular file, without opening it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            mode = os.stat(self.path).st_mode
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise SourceError(
                f"The file {str(self.path)!r} cannot be read: {why}.",
                remedy="Check the path; paths are relative to the notebook's folder.",
            ) from None
        if not stat.S_ISREG(mode):
            kind = _kind(mode)
            raise SourceError(
                f"{str(self.path)!r} is {kind}; expected a file that ends in .gguf.",
                remedy="Name the .gguf file itself.",
            )
        try:
            self._fd = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise SourceError(f"The file {str(self.path)!r} cannot be opened: {error.strerror}.") from None
        self._size = os.fstat(self._fd).st_size

    @property
    def size(self) -> int:
        return self._size

    def read_at(self, offset: int, n: int) -> bytes:
        os.lseek(self._fd, offset, os.SEEK_SET)
        parts: list[bytes] = []
        while n > 0 and (part := os.read(self._fd, n)):
            parts.append(part)
            n -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        os.close(self._fd)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    return "a device or socket"
