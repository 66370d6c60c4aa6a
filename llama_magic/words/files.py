"""Files as people name them, and texts in them as editors write them."""

from __future__ import annotations

import codecs
import contextlib
import os
import stat

_BOMS = (
    ("utf-8-sig", codecs.BOM_UTF8),
    ("utf-32", codecs.BOM_UTF32_LE),  # begins as UTF-16's does
    ("utf-32", codecs.BOM_UTF32_BE),
    ("utf-16", codecs.BOM_UTF16_LE),
    ("utf-16", codecs.BOM_UTF16_BE),
)


def expanded(path: str) -> str:
    """Return a path with its `~` and variables filled in, as it is where that names no home.

    (`Path.expanduser` raises RuntimeError there, and both raise ValueError for a NUL.)
    """
    with contextlib.suppress(ValueError):
        return os.path.expanduser(os.path.expandvars(path))
    return path


def whole_file(path: str | os.PathLike[str]) -> bytes:
    """Return a file's bytes. Raises OSError for what is none: a pipe waits for ever, a device has no end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError("it is no regular file")
    with open(path, "rb") as file:
        return file.read()


def decoded(data: bytes, errors: str = "strict") -> str:
    """Return the text of a file: PowerShell marks UTF-8 and writes UTF-16. Raises UnicodeDecodeError.

    For a NUL, too, but where all `errors` are replaced: no text that is written by hand holds one.
    """
    encoding = next((name for name, mark in _BOMS if data.startswith(mark)), "utf-8")
    text = data.decode(encoding, errors).replace("\r\n", "\n")
    if "\0" in text and errors == "strict":
        at = data.index(b"\0")
        raise UnicodeDecodeError(encoding, data, at, at + 1, "a NUL, as in UTF-16 without its mark")
    return text
