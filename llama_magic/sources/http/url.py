"""Models by plain URL: one folder for each model in the cache.

    urls/<sha256 of the address>/model.gguf               appears only when complete
    urls/<sha256 of the address>/model.gguf.entry.json    name, size, sha256, etag, modified, url

A finished file is used again without asking the server, unless it turned out to be no sound model
(`doubt`): then the next load asks whether the server has another one by now.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from llama_magic.doors import option
from llama_magic.errors import SourceError
from llama_magic.sources.disk.cache import cache_dir, is_plain, read_json, write_json
from llama_magic.sources.disk.lock import only_one
from llama_magic.sources.disk.shards import shard_names
from llama_magic.sources.disk.sniff import SNIFF_BYTES, not_gguf
from llama_magic.sources.disk.verify import check_one_digest, digest_of, remember
from llama_magic.sources.faults import PageError
from llama_magic.sources.http import client as _http
from llama_magic.sources.http import transfer as _transfer
from llama_magic.sources.http.client import UnreachableError, httpx
from llama_magic.sources.http.job import Download, Fetched
from llama_magic.sources.http.meter import TransferMeter
from llama_magic.sources.redaction import redact
from llama_magic.sources.types import ParsedSource, RemoteFile
from llama_magic.words.progress import ProgressCallback

_CHECK = "Check the network and the address."


def shard_urls(url: str) -> list[str]:
    """Return the addresses of all shards of the model that `url` is a part of; itself where it is whole."""
    parts = urlsplit(url)
    folder, slash, name = parts.path.rpartition("/")
    return [urlunsplit(parts._replace(path=folder + slash + shard)) for shard in shard_names(name)]


def cached_url(url: str) -> tuple[Path, ...] | None:
    """Return the finished download of `url`, all shards, or None. No network."""
    urls = shard_urls(url)
    found = [_good_copy(_Place(urls[0], each), None) for each in urls]
    return None if None in found else tuple(path for path in found if path is not None)


class _Place:
    """Where in the cache the file of one address lies; shards share the first one's folder."""

    def __init__(self, first_url: str, url: str) -> None:
        self.url = url
        self.name = _http.safe_name(urlsplit(url).path) or "model.gguf"
        self.folder = cache_dir() / "urls" / hashlib.sha256(first_url.encode()).hexdigest()[:32]
        self.entry = self.folder / f"{self.name}.entry.json"
        self.target = self.folder / self.name


def fetch_url(
    parsed: ParsedSource, *, offline: bool, sha256: str | None, progress: ProgressCallback | None
) -> tuple[Path, ...]:
    """Return the files of a model by URL, in order, fetched where they are not here yet."""
    assert parsed.url is not None
    urls = shard_urls(parsed.url)
    check_one_digest(sha256, len(urls))
    paths: list[Path] = []
    for number, url in enumerate(urls, 1):
        place = _Place(urls[0], url)
        label = f"{place.name} ({number} of {len(urls)})" if len(urls) > 1 else place.name
        meter = TransferMeter(progress, label, before=sum(path.stat().st_size for path in paths))
        paths.append(_fetch_one(place, label, offline, sha256, meter))
    return tuple(paths)


def _fetch_one(place: _Place, label: str, offline: bool, sha256: str | None, meter: TransferMeter) -> Path:
    if (path := _good_copy(place, sha256)) is not None and (offline or not _is_outdated(place)):
        return path
    if offline:
        raise SourceError(
            f"{redact(place.url)} is not in the cache, and offline mode is on.",
            remedy=f"Unset HF_HUB_OFFLINE, or leave {option('offline')} out, to fetch it.",
        )
    job = Download(place.url, place.target, label, sha256=sha256)
    lock = place.folder / f"{place.name}.lock"

    def here() -> Path | None:
        return None if read_json(place.entry).get("doubted") else _good_copy(place, sha256)

    with only_one(lock, job.sign_of_life, lambda: here() is not None):
        if (path := here()) is not None:
            return path
        return _transfer_to(job, place, meter)


def _transfer_to(job: Download, place: _Place, meter: TransferMeter) -> Path:
    try:
        fetched = _fetch_or_beside(job, meter)
    except UnreachableError as err:
        kept = job.partial.exists()
        raise SourceError(
            f"{job.label} could not be fetched: {err}.",
            remedy="What came so far is kept; run it again to go on." if kept else _CHECK,
        ) from None
    path = job.target
    named = fetched.server_name
    if named and named.lower().endswith(".gguf") and not path.name.lower().endswith(".gguf"):
        path = place.folder / named
        os.replace(job.target, path)
    write_json(
        place.entry,
        {
            "name": path.name,
            "size": fetched.size,
            "sha256": fetched.sha256,
            "etag": fetched.etag,
            "modified": fetched.modified,
            "url": redact(place.url),
        },
    )
    remember(path, fetched.sha256)
    return path


def _fetch_or_beside(job: Download, meter: TransferMeter) -> Fetched:
    """Fetch; where a `/blob/` address brings a page, fetch the file that the page is about."""
    try:
        return _transfer.fetch(job, meter)
    except PageError:
        raw = raw_address(job.url)
        if raw is None:
            raise
        return _transfer.fetch(replace(job, url=raw), meter)


def raw_address(url: str) -> str | None:
    """Return the file's address for a hub-like `/owner/repo/blob/revision/file` page, else None."""
    parts = urlsplit(url)
    path, found = re.subn(r"^(/[^/]+/[^/]+)/blob/", r"\1/resolve/", parts.path)
    return urlunsplit(parts._replace(path=path)) if found else None


def _good_copy(place: _Place, sha256: str | None) -> Path | None:
    entry = read_json(place.entry)
    name = entry.get("name")
    if not is_plain(name):
        return None
    path = place.folder / name
    if not os.path.isfile(path) or path.stat().st_size != entry.get("size"):
        return None
    return path if sha256 is None or digest_of(path, sha256, None) == sha256.lower() else None


def doubt(parts: Sequence[Path]) -> bool:
    """Note of downloads by URL that they are no sound model: the next load asks the server again.

    A server can send a cut file with an agreeing length, and nothing in the transfer tells.
    Returns whether `parts` are such downloads.
    """
    noted = False
    for path in parts:
        for file in path.parent.glob("*.entry.json") if path.parent.parent == cache_dir() / "urls" else ():
            entry = read_json(file)
            if entry.get("name") == path.name:
                with contextlib.suppress(OSError):
                    write_json(file, entry | {"doubted": True})
                    noted = True
    return noted


def _is_outdated(place: _Place) -> bool:
    """Return whether a copy that is in doubt is another file than the server's; asks for one kilobyte.

    The server that still has that very file (by its ETag or date, and length) is not asked for it again.
    """
    entry = read_json(place.entry)
    if not entry.get("doubted"):
        return False
    try:
        with _http.new_client() as client:
            now = _peek(client, place.url)
    except SourceError:
        return False  # what is here is named by the reader of the file; the server adds nothing
    marks = [(entry.get(key), now[key]) for key in ("etag", "modified") if entry.get(key) and now[key]]
    same = (
        bool(marks) and all(then == here for then, here in marks) and now["size"] in (None, entry.get("size"))
    )
    return not same


def locate_url(parsed: ParsedSource) -> tuple[list[RemoteFile], tuple[str, ...]]:
    """Return the files behind a URL with their sizes, a first block of each asked for and no more."""
    assert parsed.url is not None
    files, notes = [], []
    with _http.new_client() as client:
        for url in shard_urls(parsed.url):
            found: dict[str, Any] = _peek(client, url)
            name = found["name"] or _http.safe_name(urlsplit(url).path) or "model.gguf"
            files.append(RemoteFile(name, found["size"], url=found["url"]))
            if found["size"] is None:
                notes.append(f"{name}: the server does not say how long it is.")
    return files, tuple(notes)


def _peek(client: httpx.Client, url: str) -> dict[str, Any]:
    for address in filter(None, (url, raw_address(url))):
        try:
            with _http.open_stream(client, address, {"Range": f"bytes=0-{SNIFF_BYTES - 1}"}) as response:
                _http.check_status(response, address)
                ranged = response.status_code == 206
                size = _http.content_range(response)[1] if ranged else _http.body_length(response)
                head = b""
                for data in response.iter_bytes():
                    head += data
                    if len(head) >= SNIFF_BYTES:
                        break
                found = not_gguf(head[:SNIFF_BYTES], size)
                name = _http.server_name(response)
                etag, modified = (response.headers.get(key) for key in ("etag", "last-modified"))
        except UnreachableError as err:
            raise SourceError(f"{redact(address)}: {err}.", remedy=_CHECK) from None
        if found is None:
            return {"size": size, "name": name, "url": address, "etag": etag, "modified": modified}
        if not found.startswith("an HTML page"):
            break
    raise SourceError(
        f"{redact(url)} sent {redact(found or 'nothing')}, not a GGUF model.",
        remedy="Open the address in a browser: it may be a page about the file, a login or an error message.",
    )
