"""Files of the user's own, read whole and written whole: the old content or the new, nothing beside it."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Iterable
from pathlib import Path

from llama_magic.errors import InputTypeError, SourceError
from llama_magic.words.files import expanded
from llama_magic.words.given import quoted


def user_path(path: object) -> Path:
    """Return a path that a user gave, `~` and variables filled in. Raises `InputTypeError` for no path."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputTypeError(f"The path is {quoted(path)}; expected a path as text.")
    return Path(expanded(text))


def read_whole(path: Path, what: str) -> bytes:
    """Return a file's bytes; `what` names it in the `SourceError` where it cannot be read or is no file."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would wait for ever, a device never end
            raise SourceError(f"{what} {path} cannot be read: it is no regular file.")
        return path.read_bytes()
    except FileNotFoundError:
        known = "Check it; relative paths start at the working folder."
        raise SourceError(f"{what} {path} cannot be read: there is no such file.", remedy=known) from None
    except (OSError, ValueError) as error:
        raise SourceError(f"{what} {path} cannot be read: {_why(error)}.") from None
    except MemoryError:
        raise SourceError(f"{what} {path} cannot be read: it is larger than the memory there is.") from None


def write_whole(path: Path, pieces: Iterable[bytes | memoryview], what: str) -> None:
    """Write a file that appears whole, on the disk, or not at all. Raises `SourceError` where it cannot."""
    partial = path.parent / f".{os.getpid()}-{threading.get_ident()}.partial"
    try:
        try:
            with partial.open("wb") as file:
                for piece in pieces:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        raise SourceError(
            f"{what} cannot be written to {path}: {_why(error)}.",
            remedy="Choose a file in a folder that exists, can be written to, and has room.",
        ) from None


def _why(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
