"""SHA-256 of files on disk, each file hashed once: the verdict is remembered by path, length and time."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llama_magic.doors import option
from llama_magic.errors import SourceError
from llama_magic.sources.disk.cache import cache_dir, read_json, write_json
from llama_magic.words.progress import Progress, ProgressCallback

_CHUNK = 4 << 20


def check_one_digest(sha256: str | None, parts: int) -> None:
    """Raise `SourceError` where one digest is to stand for several files."""
    if sha256 is not None and parts > 1:
        raise SourceError(
            f"One SHA-256 was given for a model of {parts} parts.",
            remedy=f"Leave {option('sha256')} out for split models.",
        )


def verify_once(path: Path, sha256: str, progress: ProgressCallback | None) -> None:
    """Raise `SourceError` where a file's SHA-256 is another than `sha256`."""
    found = digest_of(path, sha256, progress)
    if found != sha256.lower():
        raise SourceError(
            f"{path} has the wrong bytes: SHA-256 should be {sha256.lower()}, is {found}.",
            remedy="Remove the file and fetch it again.",
        )


def digest_of(path: Path, expected: str, progress: ProgressCallback | None) -> str:
    """Return a file's SHA-256; `expected`, unread, where this very file had it when it was last hashed."""
    if read_json(_stamp(path)) == _verdict(path, expected):
        return expected.lower()
    total = path.stat().st_size

    def report(done: int) -> None:
        if progress is not None:
            progress(Progress("verify", done, total, path.name))

    found = sha256_of(path, report)
    remember(path, found)
    return found


def remember(path: Path, sha256: str) -> None:
    """Note that the file at `path`, as it is now, has this digest."""
    with contextlib.suppress(OSError):  # on a full or read-only disk it is hashed again next time
        _stamp(path).parent.mkdir(exist_ok=True)
        write_json(_stamp(path), _verdict(path, sha256))


def _verdict(path: Path, sha256: str) -> dict[str, Any]:
    found = path.stat()
    return {
        "path": os.path.realpath(path),
        "sha256": sha256.lower(),
        "size": found.st_size,
        "mtime_ns": found.st_mtime_ns,
    }


def _stamp(path: Path) -> Path:
    key = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()
    return cache_dir() / "verified" / f"{key[:32]}.json"


def sha256_of(path: Path, progress: Callable[[int], None]) -> str:
    """Return the SHA-256 of a file as 64 hex digits; `progress` is told the bytes read so far."""
    sha, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            sha.update(data)
            done += len(data)
            progress(done)
    return sha.hexdigest()
