"""Make the n-th operation on disk or network fail, for every n, in the manner of SQLite's tests.

    for fault in every_fault(work, root):   # one run to count, then one for each operation
        with fault:
            work()

Counted are opens, reads, writes, truncations to a name, renames, folders and flushes below `root`, and
bytes received from sockets, on the thread that works. Removing a file never fails: a full disk allows it.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ALL = "LLAMA_MAGIC_TEST_ALL_FAULTS"  # in the environment: every n
_ERRNO = {  # by turns
    "open": (errno.EACCES, errno.EMFILE, errno.ENOSPC, errno.EROFS),
    "read": (errno.EIO, errno.ESTALE),
    "write": (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG),
    "fsync": (errno.EIO, errno.ENOSPC),
    "rename": (errno.EACCES, errno.ENOSPC, errno.EROFS),
    "mkdir": (errno.ENOSPC, errno.EACCES, errno.EROFS),
    "recv": (errno.ECONNRESET, errno.ETIMEDOUT, errno.EPIPE, errno.ENOBUFS),
}


class Fault:
    """Fail operation `at` (its kind and its number among those, from 0; None: count), once or lasting.

    Counted by kind: how many receives a body takes differs from run to run, and must not shift the others.
    """

    def __init__(self, root: Path, at: tuple[str, int] | None = None, *, lasting: bool = False) -> None:
        self.root, self.at, self.lasting = str(root), at, lasting
        self.seen: list[str] = []
        self.struck: str | None = None
        self._thread = threading.get_ident()
        self._stack = contextlib.ExitStack()

    def __repr__(self) -> str:
        return f"{self.struck} (number {self.at}{' and all after it' if self.lasting else ''})"

    def check(self, kind: str, path: object = None) -> None:
        """Count one operation; raise where it is the one to fail."""
        if threading.get_ident() != self._thread:
            return
        if isinstance(path, (str, os.PathLike)) and not os.fspath(path).startswith(self.root):
            return
        here = (kind, self.seen.count(kind))
        self.seen.append(kind)
        if here == self.at or (self.lasting and self.struck):
            self.struck = self.struck or kind
            number = _ERRNO[kind][(here[1] + self.lasting) % len(_ERRNO[kind])]
            raise OSError(number, os.strerror(number))

    def __enter__(self) -> Fault:
        put = self._put
        put(io, "open", lambda real: lambda file, *a, **k: self._opened(real, file, *a, **k))
        put(os, "open", lambda real: lambda path, *a, **k: self._first("open", path, real, *a, **k))
        put(os, "replace", lambda real: lambda path, *a, **k: self._first("rename", path, real, *a, **k))
        put(os, "rename", lambda real: lambda path, *a, **k: self._first("rename", path, real, *a, **k))
        put(os, "mkdir", lambda real: lambda path, *a, **k: self._first("mkdir", path, real, *a, **k))
        put(os, "fsync", lambda real: lambda fd: self._first("fsync", fd, real))
        put(socket.socket, "recv", lambda real: lambda sock, *a: self._first("recv", sock, real, *a))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _put(self, place: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        own = name in vars(place)
        real = getattr(place, name)
        setattr(place, name, wrap(real))
        self._stack.callback(setattr, place, name, real) if own else self._stack.callback(
            delattr, place, name
        )

    def _first(self, kind: str, path: Any, real: Any, *args: Any, **named: Any) -> Any:
        self.check(kind, path)
        return real(path, *args, **named)

    def _opened(self, real: Any, file: Any, *args: Any, **named: Any) -> Any:
        if isinstance(file, int) or not os.fspath(file).startswith(self.root):
            return real(file, *args, **named)
        self.check("open", file)
        return _File(real(file, *args, **named), self)


class _File:
    """A file whose reads and writes are counted; a write that fails has written half."""

    def __init__(self, file: Any, fault: Fault) -> None:
        self._file, self._fault = file, fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, *args: Any) -> Any:
        self._fault.check("read")
        return self._file.read(*args)

    def write(self, data: Any) -> Any:
        try:
            self._fault.check("write")
        except OSError:
            self._file.write(data[: len(data) // 2])
            raise
        return self._file.write(data)


def every_fault(work: Callable[[], object], root: Path, only: int | None = None) -> Iterator[Fault]:
    """Run `work` once to count, then yield each fault, once and lasting. `work` begins anew each time.

    With `only` so many of them, evenly chosen; all where `soak_faults.py` asks for them.
    """
    with Fault(root) as count:
        work()
    assert count.seen, "nothing was counted"
    kinds = [(kind, number) for kind in sorted(set(count.seen)) for number in range(count.seen.count(kind))]
    places = [(at, lasting) for lasting in (False, True) for at in kinds]
    step = 1.0 if only is None or ALL in os.environ else max(1.0, len(places) / only)
    for i in range(int(len(places) / step)):
        at, lasting = places[int(i * step)]
        yield Fault(root, at, lasting=lasting)
