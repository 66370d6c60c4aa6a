"""Notice that a file which is mapped into memory was written over, before its pages are read.

A read beyond the end of a mapped file that was truncated ends the process (SIGBUS), and another
model copied over it gives answers of no model at all. Nothing can be caught then, so the files are
looked at before each request: their length and time, some microseconds. A file that is replaced by a
rename, or removed, keeps its mapped bytes and harms nothing: the open file is looked at, not its name.
What is written over in the middle of a call cannot be seen in time; without mmap there is no such danger.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from llama_magic.doors import option
from llama_magic.errors import BackendError

_SAMPLES, _SAMPLE_BYTES = 16, 1 << 14
_REMEDY = (
    "Unload it and load it again. To replace a file that is in use, write the new one beside it and rename "
    f"it (mv), or load with {option('mmap', False)}."
)


class MappedFiles:
    """Hold files open as they were when they were mapped. Any thread may call, no lock is taken."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._files: list[tuple[Path, int]] = []
        with contextlib.suppress(OSError):  # what cannot be opened, the load itself will name
            for path in paths:
                self._files.append((path, os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))))
        self._stamps = [_stamp(fd) for _, fd in self._files]
        self._samples = [
            _sample(fd, size) for (_, fd), (size, _) in zip(self._files, self._stamps, strict=True)
        ]

    def check(self) -> None:
        """Raise `BackendError` where a file has another length now, or another time and other bytes."""
        with contextlib.suppress(OSError):  # closed meanwhile: whoever closed it says so
            for number, (path, fd) in enumerate(self._files):
                now, before = _stamp(fd), self._stamps[number]
                if now == before:
                    continue
                if now[0] != before[0]:
                    how = f"it had {before[0]:,} bytes and has {now[0]:,}"
                elif _sample(fd, now[0]) != self._samples[number]:
                    how = "its bytes are others now"
                else:
                    self._stamps[number] = now  # touched, its bytes the same
                    continue
                raise BackendError(
                    f"{path.name} was written over while its model was loaded: {how}. The model is mapped "
                    "from that file and cannot be used any more.",
                    remedy=_REMEDY,
                )

    def close(self) -> None:
        """Let go of the files; safe to call twice."""
        files, self._files = self._files, []
        for _, fd in files:
            os.close(fd)


def _stamp(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_size, found.st_mtime_ns


def _sample(fd: int, size: int) -> bytes:
    """Return a digest of 16 stretches of 16 kB, spread over the file."""
    total = hashlib.sha256()
    for i in range(_SAMPLES):
        total.update(_read(fd, max(0, size - _SAMPLE_BYTES) * i // (_SAMPLES - 1)))
    return total.digest()


def _read(fd: int, place: int) -> bytes:
    if hasattr(os, "pread"):  # which moves no place that another thread reads from
        return os.pread(fd, _SAMPLE_BYTES, place)
    os.lseek(fd, place, os.SEEK_SET)
    return os.read(fd, _SAMPLE_BYTES)
