"""Where downloads lie, and what is there already. Nothing here touches the network."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llama_magic.errors import SourceError
from llama_magic.sources.disk.demo import demo_path
from llama_magic.sources.disk.shards import group_shards, short_name
from llama_magic.sources.types import Kind, OnDisk


def cache_dir() -> Path:
    """Return the folder for downloads, made on demand.

    `$LLAMA_MAGIC_CACHE`, or the platform's cache folder (`$XDG_CACHE_HOME` or `~/.cache`,
    `~/Library/Caches`, `%LOCALAPPDATA%`) with `llama_magic` in it. Read at call time.
    """
    chosen = os.environ.get("LLAMA_MAGIC_CACHE")
    folder = Path(os.path.expandvars(chosen)).expanduser() if chosen else _platform_cache() / "llama_magic"
    folder = Path(os.path.abspath(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise SourceError(
            f"The cache folder {folder} cannot be made: {err.strerror}.",
            remedy="Set LLAMA_MAGIC_CACHE to a folder that can be written.",
        ) from None
    return folder


def _platform_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser()
    if sys.platform == "darwin":
        return Path("~/Library/Caches").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


def hub_cache() -> Path:
    """Return huggingface-hub's cache folder, its variables read at call time."""
    if chosen := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        folder = Path(os.path.expandvars(chosen))
    elif home := os.environ.get("HF_HOME"):
        folder = Path(os.path.expandvars(home)) / "hub"
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface" / "hub"
    return Path(os.path.abspath(folder.expanduser()))


def cached_repos() -> list[str]:
    """Return the hub repositories with a GGUF in the cache, as `owner/repo`, sorted. Made for Tab: fast."""
    return sorted({repo for repo, _ in _hub_snapshots() if repo})


def on_disk() -> list[OnDisk]:
    """Return every model that loads without network: the demo model, downloads by URL, the hub's cache."""
    found = []
    if demo := demo_path():
        found.append(_model("smollm2", [demo], "demo"))
    for folder in sorted((cache_dir() / "urls").glob("*/")):
        names = (read_json(entry).get("name") for entry in folder.glob("*.entry.json"))
        for group in group_shards(str(folder / str(name)) for name in names if name):
            parts = [Path(part) for part in group]
            if all(part.is_file() for part in parts):
                found.append(_model(short_name(parts[0]), parts, "url"))
    seen: set[Path] = set()
    for repo, files in _hub_snapshots():
        for group in group_shards([str(file) for file in files]):
            parts = [Path(part) for part in group]
            blob = parts[0].resolve()
            if blob in seen or not all(part.exists() for part in parts):
                continue  # another revision of the same bytes, or an unfinished set of shards
            seen.add(blob)
            found.append(_model(f"hf:{repo}:{_inside(parts[0])}", parts, "hub"))
    return found


def _model(name: str, parts: list[Path], kind: Kind) -> OnDisk:
    return OnDisk(name, parts[0], sum(part.stat().st_size for part in parts), kind)


def _inside(snapshot_file: Path) -> str:
    """Return the name inside the repository: what follows `snapshots/<commit>/`."""
    parts = snapshot_file.parts
    return "/".join(parts[len(parts) - parts[::-1].index("snapshots") + 1 :])


def _hub_snapshots() -> Iterator[tuple[str, list[Path]]]:
    for repo_folder in sorted(hub_cache().glob("models--*")):
        repo = repo_folder.name.removeprefix("models--").replace("--", "/", 1)
        for snapshot in sorted((repo_folder / "snapshots").glob("*/")):
            found = (path for pattern in ("*.gguf", "*/*.gguf") for path in snapshot.glob(pattern))
            files = sorted(path for path in found if path.exists())
            if files:
                yield repo, files


def read_json(path: Path) -> dict[str, Any]:
    """Return the object stored at `path`; empty where there is none or it was cut short."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Store `value` so that a reader sees the old file or the new one, never half of it."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    temporary.write_text(json.dumps(value), "utf-8")
    os.replace(temporary, path)
