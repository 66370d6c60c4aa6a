"""What huggingface-hub's cache holds, and whether the network may be asked at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from llama_magic.sources.disk.cache import hub_cache
from llama_magic.sources.disk.shards import shard_names
from llama_magic.sources.disk.verify import verify_once
from llama_magic.sources.hub.quants import choose
from llama_magic.sources.types import ParsedSource
from llama_magic.words.progress import ProgressCallback

_SHA256 = re.compile(r"[0-9a-f]{64}")


def is_offline(offline: bool | None) -> bool:
    """Return whether the network is off limits: by argument, or by huggingface-hub's switch, read now."""
    switches = (os.environ.get(name, "") for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    return bool(offline) or any(value.strip().upper() in ("1", "ON", "YES", "TRUE") for value in switches)


def cached_hub(parsed: ParsedSource, revision: str | None) -> tuple[Path, ...]:
    """Return the model's files from huggingface-hub's cache, in order; empty where they are not all there.

    Raises `SourceError` where several cached models fit the name.
    """
    here = cached_files(parsed, revision)
    if parsed.file is not None:
        names = shard_names(parsed.file)
    elif here:
        sizes = {name: path.stat().st_size for name, path in here.items()}
        names = choose(f"{parsed.repo} (cached)", sizes, parsed.quant)
    else:
        return ()
    if not all(name in here for name in names):
        return ()
    return tuple(here[name] for name in names)


def cached_files(parsed: ParsedSource, revision: str | None) -> dict[str, Path]:
    """Return the GGUF files of a repository's snapshot by their names in it; empty where there is none."""
    snapshot = _snapshot(parsed, revision)
    if snapshot is None:
        return {}
    return {path.relative_to(snapshot).as_posix(): path for path in _ggufs(snapshot)}


def verify_cached(path: Path, progress: ProgressCallback | None) -> None:
    """Raise `SourceError` where a file of the hub's cache is damaged. Its blob is named by its digest."""
    blob = path.resolve()
    if _SHA256.fullmatch(blob.name):
        verify_once(blob, blob.name, progress)


def _ggufs(snapshot: Path) -> Iterable[Path]:
    return (path for path in snapshot.rglob("*") if path.suffix.lower() == ".gguf" and path.is_file())


def _snapshot(parsed: ParsedSource, revision: str | None) -> Path | None:
    from huggingface_hub import CacheNotFound, constants, scan_cache_dir

    wanted = revision or parsed.revision or constants.DEFAULT_REVISION
    try:
        repos = scan_cache_dir(hub_cache()).repos
    except CacheNotFound:
        return None
    for repo in repos:
        if repo.repo_id == parsed.repo and repo.repo_type == "model":
            for found in repo.revisions:
                if found.commit_hash == wanted or wanted in found.refs:
                    return Path(found.snapshot_path)
    return None
