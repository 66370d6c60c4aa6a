"""One file to fetch, what lies of it already, its digest as it grows, and what came in the end."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

_CHUNK = 1 << 20


@dataclass
class Download:
    """One file to fetch. `size` and `sha256` are what it must have, where known."""

    url: str = field(repr=False)
    target: Path
    label: str
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    size: int | None = None
    sha256: str | None = None

    @property
    def partial(self) -> Path:
        return self.target.with_name(self.target.name + ".partial")

    @property
    def state(self) -> Path:
        return self.target.with_name(self.target.name + ".partial.json")

    def sign_of_life(self) -> int:
        """Return what changes while somebody fetches this file."""
        return size_of(self.partial)


@dataclass(frozen=True)
class Fetched:
    """A finished transfer: length, digest, the name that the server proposed, its marks of this version."""

    size: int
    sha256: str
    server_name: str | None
    etag: str | None = None
    modified: str | None = None


class Digest:
    """SHA-256 of the partial file, which follows along as it grows."""

    def __init__(self) -> None:
        self._sha, self.count = hashlib.sha256(), 0

    def add(self, data: bytes) -> None:
        self._sha.update(data)
        self.count += len(data)

    def catch_up(self, path: Path, size: int) -> None:
        if self.count == size:
            return
        self._sha, self.count = hashlib.sha256(), 0
        if size:
            with path.open("rb") as file:
                while data := file.read(_CHUNK):
                    self.add(data)

    def hex(self) -> str:
        return self._sha.hexdigest()


def discard(job: Download) -> None:
    """Remove the unfinished file of `job`."""
    job.partial.unlink(missing_ok=True)
    job.state.unlink(missing_ok=True)


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
