"""Where downloads lie, and what is there already. Nothing here touches the network."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from llama_magic.doors import escaped
from llama_magic.sources.disk.demo import demo_path
from llama_magic.sources.disk.helpers import helpers_in
from llama_magic.sources.disk.shards import group_shards, short_name
from llama_magic.sources.types import Kind, OnDisk


def cache_dir() -> Path:
    """Return the folder for downloads and for what is remembered of models, made where it can be.

    `$LLAMA_MAGIC_CACHE`, or the platform's cache folder (`$XDG_CACHE_HOME` or `~/.cache`,
    `~/Library/Caches`, `%LOCALAPPDATA%`) with `llama_magic` in it. Read at call time. Where it
    cannot be made a local file loads all the same (`cache_note` says what that costs); a download
    that has to lie there raises `SourceError`.
    """
    chosen = os.environ.get("LLAMA_MAGIC_CACHE")
    folder = os.path.expandvars(chosen) if chosen else os.path.join(_platform_cache(), "llama_magic")
    path = Path(os.path.abspath(os.path.expanduser(folder)))
    with contextlib.suppress(OSError):
        path.mkdir(parents=True, exist_ok=True)
    return path


def _platform_cache() -> str:
    if sys.platform == "win32":
        return os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    if sys.platform == "darwin":
        return "~/Library/Caches"
    return os.environ.get("XDG_CACHE_HOME") or "~/.cache"


def cache_note() -> str | None:
    """Say in one line what is not remembered where the cache folder cannot be written; None where it can."""
    folder = cache_dir()
    if os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK):
        return None
    what = "cannot be written" if os.path.isdir(folder) else "cannot be made"
    return (
        f"The cache folder {folder} {what}: the trial of this file and the measured speed are not "
        "remembered. Set LLAMA_MAGIC_CACHE to a folder that can be written."
    )


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
        for group in group_shards(str(folder / name) for name in names if is_plain(name)):
            parts = [Path(part) for part in group]
            if all(os.path.isfile(part) for part in parts):
                found.append(_model(short_name(parts[0]), parts, "url"))
    seen: set[Path] = set()
    for repo, files in _hub_snapshots():
        helpers = helpers_in({_inside(file): os.path.getsize(file) for file in files})
        for group in group_shards([str(file) for file in files]):
            parts = [Path(part) for part in group]
            blob = parts[0].resolve()
            if blob in seen or not all(os.path.exists(part) for part in parts):
                continue  # another revision of the same bytes, or an unfinished set of shards
            seen.add(blob)
            found.append(_model(f"hf:{repo}:{_inside(parts[0])}", parts, "hub", helpers))
    return found


def _model(name: str, parts: list[Path], kind: Kind, helpers: Mapping[str, str] | None = None) -> OnDisk:
    size = sum(part.stat().st_size for part in parts)
    helpers = helpers_in({parts[0].name: size}) if helpers is None else helpers
    helps_as = helpers.get(_inside(parts[0]) if kind == "hub" else parts[0].name, "")
    return OnDisk(escaped(name), parts[0], size, kind, helps_as)


def _inside(snapshot_file: Path) -> str:
    """Return the name inside the repository: what follows `snapshots/<commit>/`."""
    parts = snapshot_file.parts
    return "/".join(parts[len(parts) - parts[::-1].index("snapshots") + 1 :])


def _hub_snapshots() -> Iterator[tuple[str, list[Path]]]:
    for repo_folder in sorted(hub_cache().glob("models--*")):
        repo = repo_folder.name.removeprefix("models--").replace("--", "/", 1)
        for snapshot in sorted((repo_folder / "snapshots").glob("*/")):
            found = (path for pattern in ("*.gguf", "*/*.gguf") for path in snapshot.glob(pattern))
            files = sorted(path for path in found if os.path.exists(path))
            if files:
                yield repo, files


def read_json(path: Path) -> dict[str, Any]:
    """Return the object stored at `path`; empty where there is none or it was cut short."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Store `value` so that a reader sees the old file or the new one, never half of it."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        temporary.write_text(json.dumps(value), "utf-8")
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def is_plain(name: object) -> TypeGuard[str]:
    """Return whether `name`, read from a file, can be a file's name: no folder in it, 255 bytes at most."""
    return (
        isinstance(name, str) and name == os.path.basename(name) and "\0" not in name
        and 0 < len(os.fsencode(name)) <= 255 and name not in (".", "..")
    )  # fmt: skip
