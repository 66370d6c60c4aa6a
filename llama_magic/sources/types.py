"""What this room takes and gives, plain frozen data. Addresses that may hold secrets stay out of a repr."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Kind = Literal["demo", "alias", "path", "url", "hub"]
Identity = tuple[tuple[str, int, int], ...]  # of each file: its path, its size, when it was changed (ns)
Sizes = Mapping[str, int | None]  # files of a repository, by name; None where the server does not say
Fits = Callable[[int], bool]  # whether a model of so many bytes would fit this machine


def total(sizes: Iterable[int | None]) -> int | None:
    """Return the bytes of several files, None where those of one are not known."""
    known = list(sizes)
    return None if None in known else sum(size for size in known if size is not None)


@dataclass(frozen=True)
class ParsedSource:
    """Which kind of source a text is, and its pieces; nothing has been looked up yet.

    `text` is what to print. `alias` is set where an alias led here; the other fields then
    belong to what the alias stands for.
    """

    kind: Kind
    text: str
    alias: str | None = None
    path: Path | None = None
    url: str | None = field(default=None, repr=False)
    repo: str | None = None
    file: str | None = None
    quant: str | None = None
    revision: str | None = None


@dataclass(frozen=True)
class RemoteFile:
    """One file on a server. `size` is in bytes, None where the server does not say."""

    name: str
    size: int | None
    sha256: str | None = None
    url: str = field(default="", repr=False)


@dataclass(frozen=True)
class Located:
    """What a source turned out to be, before anything large is downloaded.

    `parts` are the shards on this disk, in order, empty where they would have to be
    downloaded first; `files` are the shards on the server. `size` is the bytes of all shards.
    """

    kind: Kind
    name: str
    origin: str
    size: int | None
    parts: tuple[Path, ...] = ()
    files: tuple[RemoteFile, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def path(self) -> Path | None:
        """The first shard on this disk, or None where it is not here yet."""
        return self.parts[0] if self.parts else None


@dataclass(frozen=True)
class Resolved:
    """A model file on this disk, complete and checked.

    `path` is the first shard, `parts` all of them in order, `size` the bytes of all;
    `name` is short, for the session; `origin` says where it came from, without secrets.
    """

    path: Path
    parts: tuple[Path, ...]
    kind: Kind
    name: str
    origin: str
    size: int
    notes: tuple[str, ...] = ()

    @property
    def identity(self) -> Identity:
        """What tells these files from all others, and from themselves once somebody has changed them."""
        stats = ((part, part.stat()) for part in self.parts)
        return tuple((str(part.resolve()), stat.st_size, stat.st_mtime_ns) for part, stat in stats)


@dataclass(frozen=True)
class OnDisk:
    """A model that needs no network. `path` is the first shard, `size` the bytes of all shards.

    `helps_as` says what a file is that is no model of its own: projector, draft head; empty for a model.
    """

    name: str
    path: Path
    size: int
    kind: Kind
    helps_as: str = ""
