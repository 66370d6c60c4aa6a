"""One transfer at a time for one file, across threads and processes."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from llama_magic.errors import SourceError
from llama_magic.sources.disk.cache import read_json, write_json

STALLED_S = 300.0  # how long the owner may show no sign of progress before a waiter gives up
_POLL_S = 0.05


@contextlib.contextmanager
def only_one(lock_path: Path, sign_of_life: Callable[[], object], done: Callable[[], bool]) -> Iterator[None]:
    """Hold the lock at `lock_path`; wait for another owner while `sign_of_life()` keeps changing.

    The lock belongs to an open file (flock, `filelock`), so it dies with its owner: a file
    left by a killed process locks nothing. Leaves early, without the lock, once `done()`.
    Raises `SourceError` naming the owner where nothing has changed for `STALLED_S`.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(lock_path)
    owner = lock_path.with_name(lock_path.name + ".owner")
    last, since = sign_of_life(), time.monotonic()
    while True:
        try:
            lock_path.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=_POLL_S * 4, poll_interval=_POLL_S)
            break
        except Timeout:
            if done():
                yield
                return
            now = sign_of_life()
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > STALLED_S:
                raise _stalled(lock_path, owner) from None
        except OSError as err:
            raise SourceError(
                f"The lock {lock_path} cannot be taken: {err.strerror}.",
                remedy="Set LLAMA_MAGIC_CACHE (for the hub HF_HUB_CACHE) to a folder on a local disk.",
            ) from None
    try:
        with contextlib.suppress(OSError):  # a full disk is for the transfer to name; this is a courtesy
            write_json(owner, {"pid": os.getpid(), "host": socket.gethostname()})
        yield
    finally:
        with contextlib.suppress(OSError):
            owner.unlink(missing_ok=True)
        lock.release()


def _stalled(lock_path: Path, owner: Path) -> SourceError:
    who = read_json(owner)
    named = f"process {who.get('pid')} on {who.get('host')}" if who else "another process"
    return SourceError(
        f"{named} holds {lock_path} and has fetched nothing for {STALLED_S:.0f} s.",
        remedy="Stop that process (its lock goes with it), then try again.",
    )
