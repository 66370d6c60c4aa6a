"""Where a model comes from: a package, an alias, a path, a URL or the hub.

`resolve` turns any of them into a complete, checked file on this disk; `locate` says what a
source is and how large without fetching it; `open_parts` reads a remote file by byte ranges.
Light to import: HTTP and hub libraries are loaded when a source needs them.

- What is meant: `notation` reads it, by the `meanings` of names; `redaction` keeps secrets out of what is
  shown.
- `resolver` goes from there to a file, `locator` says what it is, `listing` what a repository holds.
- By kind: `disk/`, `http/`, `hub/`. `types` are what the room gives, `faults` its errors inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llama_magic.sources.disk.cache import cache_dir, cache_note, cached_repos, hub_cache, on_disk
from llama_magic.sources.disk.files import read_whole, user_path, write_whole
from llama_magic.sources.listing import HubModel, HubModels, hub_models
from llama_magic.sources.locator import locate, open_parts
from llama_magic.sources.meanings import Meaning, add_alias, aliases, own_aliases, remove_alias
from llama_magic.sources.notation import hidden, meaning, parse
from llama_magic.sources.redaction import redact
from llama_magic.sources.resolver import check, doubt, doubting, resolve
from llama_magic.sources.types import Kind, Located, OnDisk, ParsedSource, RemoteFile, Resolved
from llama_magic.words.lazy import lazily

if TYPE_CHECKING:
    from llama_magic.sources.http.ranges import RangeReader

__all__ = [
    "HubModel",
    "HubModels",
    "Kind",
    "Located",
    "Meaning",
    "OnDisk",
    "ParsedSource",
    "RangeReader",
    "RemoteFile",
    "Resolved",
    "add_alias",
    "aliases",
    "cache_dir",
    "cache_note",
    "cached_repos",
    "check",
    "doubt",
    "doubting",
    "hidden",
    "hub_cache",
    "hub_models",
    "locate",
    "meaning",
    "on_disk",
    "open_parts",
    "own_aliases",
    "parse",
    "read_whole",
    "redact",
    "remove_alias",
    "resolve",
    "user_path",
    "write_whole",
]

__getattr__ = lazily(__name__, {"RangeReader": "llama_magic.sources.http.ranges"})
