"""Check what lies at a local path before anything opens it."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from pathlib import Path

from llama_magic.errors import InvalidGGUFError, SourceError
from llama_magic.sources.disk.shards import is_shard, shard_names
from llama_magic.sources.disk.sniff import SNIFF_BYTES, not_gguf
from llama_magic.sources.types import ParsedSource
from llama_magic.words.names import nearest

_SPECIAL = (
    (stat.S_ISFIFO, "a named pipe (fifo)"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def local_parts(parsed: ParsedSource) -> tuple[Path, ...]:
    """Return all shards of a local model, in order, each one looked at.

    Raises `SourceError` where there is no such file or it is not a regular one,
    `InvalidGGUFError` where its first bytes are not those of a GGUF.
    """
    path = parsed.path
    assert path is not None
    _check_regular(path, parsed.text)
    parts = _with_siblings(path)
    for part in parts:
        _check_regular(part, str(part))
        check_magic(part)
    return parts


def check_magic(path: Path) -> None:
    """Raise `InvalidGGUFError` that says what the file is, where it does not begin as a GGUF does."""
    try:
        with path.open("rb") as file:
            head = file.read(SNIFF_BYTES)
        found = not_gguf(head, path.stat().st_size)
    except OSError as err:
        raise _os_error(err, path, str(path)) from None
    if found:
        raise InvalidGGUFError(
            f"{path.name} is {found}.",
            field="header.magic",
            offset=0,
            remedy=f"A model file begins with the four letters GGUF. Look at {path}, or download it again.",
        )


def _check_regular(path: Path, text: str) -> None:
    try:
        mode = os.stat(path).st_mode  # never opens: opening a fifo would wait for a writer
    except OSError as err:
        raise _os_error(err, path, text) from None
    except ValueError:
        raise SourceError(f"{text!r} is not a path.") from None
    if stat.S_ISDIR(mode):
        raise _directory(path)
    for test, meaning in _SPECIAL:
        if test(mode):
            raise SourceError(f"{path} is {meaning}, not a file.", remedy="Name a .gguf file on disk.")


def _directory(path: Path) -> SourceError:
    try:
        inside = sorted(entry.name for entry in path.iterdir() if entry.name.lower().endswith(".gguf"))
    except OSError:
        inside = []
    shown = ", ".join(inside[:8]) + (f" and {len(inside) - 8} more" if len(inside) > 8 else "")
    remedy = f"Name one of its files: {shown}." if inside else "Name a .gguf file; this folder holds none."
    return SourceError(f"{path} is a directory, not a file.", remedy=remedy)


def _with_siblings(path: Path) -> tuple[Path, ...]:
    for start in (path, Path(os.path.realpath(path))):  # a link may carry another name than its shard
        if not is_shard(start.name):
            continue
        parts = tuple(start.with_name(name) for name in shard_names(start.name))
        missing = [part.name for part in parts if not part.exists()]
        if not missing:
            return parts
        if start == path and path.is_symlink():
            continue
        raise SourceError(
            f"{path.name} is one of {len(parts)} parts; missing beside it: {', '.join(missing[:5])}"
            f"{'' if len(missing) <= 5 else f' and {len(missing) - 5} more'}.",
            remedy=f"Put all {len(parts)} parts into {start.parent}.",
        )
    return (path,)


def _os_error(err: OSError, path: Path, text: str) -> SourceError:
    if err.errno in (errno.ENOENT, errno.ENOTDIR):
        return _missing(path, text)
    if err.errno == errno.ELOOP:
        return SourceError(f"{path} is a link that leads in a circle.", remedy="Name the file itself.")
    if err.errno == errno.EACCES:
        return SourceError(
            f"{path} may not be read: permission denied.", remedy="Change its permissions, or copy it."
        )
    return SourceError(f"{path} cannot be read: {err.strerror}.", remedy="Check the disk and the path.")


def _missing(path: Path, text: str) -> SourceError:
    if os.path.islink(path):
        target = os.readlink(path)
        return SourceError(f"{path} is a link to {target}, which does not exist.", remedy="Mend the link.")
    if unset := [name for name in re.findall(r"\$\{?(\w+)", text) if name not in os.environ]:
        return SourceError(f"There is no file {text}: ${unset[0]} is not set.", remedy="Set it first.")
    if sys.platform != "win32" and re.match(r"^[A-Za-z]:[\\/]|^\\\\|.*\\", text):
        return SourceError(
            f"There is no file {text}: a Windows path, and this kernel runs on {sys.platform}.",
            remedy="Write the path as this machine knows it, with forward slashes (in WSL: /mnt/c/…).",
        )
    parent = path.parent
    if not parent.is_dir():
        return SourceError(f"There is no file {path}: no folder {parent} either.", remedy="Check the path.")
    near = _near(path)
    known = "Check it; relative paths start at the working folder."
    remedy = f"Did you mean {' or '.join(near)}?" if near else known
    return SourceError(f"There is no file {path}.", remedy=remedy)


def _near(path: Path) -> list[str]:
    names = [entry.name for entry in path.parent.iterdir() if entry.name.lower().endswith(".gguf")]
    return nearest(path.name, names, n=3)
