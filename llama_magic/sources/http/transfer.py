"""Fetch one file so that a break costs nothing and nothing unfinished is ever taken for a file.

Bytes go to `NAME.partial`, with what the server said about the file in `NAME.partial.json`.
A later try asks for the rest by `Range` and `If-Range`; length and SHA-256 are checked;
then the file takes its name in one step. The caller holds the lock.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from typing import BinaryIO

from llama_magic.errors import SourceError
from llama_magic.sources.disk.cache import read_json, write_json
from llama_magic.sources.disk.sniff import SNIFF_BYTES, not_gguf
from llama_magic.sources.faults import PageError
from llama_magic.sources.http import client as _http
from llama_magic.sources.http.client import UnreachableError, httpx
from llama_magic.sources.http.job import Digest, Download, Fetched, discard, size_of
from llama_magic.sources.http.meter import TransferMeter
from llama_magic.sources.redaction import redact
from llama_magic.words import amounts

RETRIES = 5  # tries in a row that bring no new byte
BACKOFF_S = 0.5  # doubles with each try
MAX_WAIT_S = 30.0
STALL_S = 60.0  # fewer than STALL_BYTES in this time is a connection that hangs
STALL_BYTES = 6_000


def fetch(job: Download, meter: TransferMeter) -> Fetched:
    """Fetch `job.url` to `job.target` and return what came.

    Raises `SourceError` where the server refuses, what it sends is not a GGUF, the length or
    digest is wrong, or the disk is full; `UnreachableError` where the connection fails `RETRIES`
    times without a new byte. A KeyboardInterrupt leaves the `.partial` for the next try.
    """
    try:
        return _fetch(job, meter)
    except OSError as err:
        size = size_of(job.partial)
        with contextlib.suppress(OSError):
            discard(job)  # a full disk is freed again, and the cache stays usable
        removed = f" The unfinished {amounts.size(size)} were removed." if size else ""
        raise SourceError(
            f"{job.label} cannot be written to {job.target.parent}: {err.strerror or err}.{removed}",
            remedy="Free some space, or set LLAMA_MAGIC_CACHE (for the hub HF_HUB_CACHE) to another disk.",
        ) from None


def _fetch(job: Download, meter: TransferMeter) -> Fetched:
    job.target.parent.mkdir(parents=True, exist_ok=True)
    digest = Digest()
    tries, best = 0, size_of(job.partial)
    with _http.new_client() as client:
        while True:
            try:
                name = _attempt(client, job, meter, digest)
                break
            except UnreachableError as broken:
                have = size_of(job.partial)
                tries = 1 if have > best and not broken.stalled else tries + 1
                best = max(best, have)
                if tries > (1 if broken.fresh and not have else RETRIES):
                    raise
                wait = broken.retry_after if broken.retry_after is not None else BACKOFF_S * 2 ** (tries - 1)
                time.sleep(min(wait, MAX_WAIT_S))
    return _finish(job, digest, name)


def _attempt(client: httpx.Client, job: Download, meter: TransferMeter, digest: Digest) -> str | None:
    """Ask once, from where the partial file ends. Return the server's name for the file."""
    have = size_of(job.partial)
    known = read_json(job.state)
    if have and (not known or (job.size is not None and have > job.size)):
        discard(job)
        have, known = 0, {}
    headers = dict(job.headers)
    if have:
        headers["Range"] = f"bytes={have}-"
        if validator := _validator(known):
            headers["If-Range"] = validator
    with _http.open_stream(client, job.url, headers) as response:
        if response.status_code == 416 and have:
            _settle_416(job, response, have)
            return known.get("name")
        _http.check_status(response, job.url)
        offset, total = _where(response, have, known)
        if offset < 0:
            discard(job)
            raise UnreachableError("the file on the server changed while it was fetched", retry_after=0.0)
        _check_total(job, total, response)
        _check_space(job, offset, total)
        name = _http.server_name(response)
        if offset == 0:
            discard(job)
            write_json(job.state, _describe(response, total, name))
        digest.catch_up(job.partial, offset)
        _receive(response, job, meter, digest, offset, total)
    return name if name is not None else known.get("name") if have else None


def _where(response: httpx.Response, have: int, known: dict[str, object]) -> tuple[int, int | None]:
    """Return where the body starts in the file (-1: it is another file now) and the file's length."""
    if response.status_code == 200:
        return 0, _http.body_length(response)
    start, total = _http.content_range(response)
    now = _describe(response, total, None)
    both = [key for key in ("etag", "modified", "total") if known.get(key) and now[key]]
    changed = any(known[key] != now[key] for key in both)
    if not have or start != have or changed:
        return -1, total
    return have, total


def _describe(response: httpx.Response, total: int | None, name: str | None) -> dict[str, object]:
    etag, modified = response.headers.get("etag"), response.headers.get("last-modified")
    return {"etag": etag, "modified": modified, "total": total, "name": name}


def _validator(known: dict[str, object]) -> str | None:
    etag = known.get("etag")
    if isinstance(etag, str) and not etag.startswith("W/"):  # RFC 9110 §13.1.5: a weak one may not be sent
        return etag
    modified = known.get("modified")
    return modified if isinstance(modified, str) else None


def _settle_416(job: Download, response: httpx.Response, have: int) -> None:
    """The server has no byte at `have`: the partial is the whole file, or of another one."""
    _, total = _http.content_range(response)
    if total == have and (job.size is None or job.size == have):
        return
    discard(job)
    raise UnreachableError("the file on the server is another one than before", retry_after=0.0)


def _check_total(job: Download, total: int | None, response: httpx.Response) -> None:
    if total is not None and job.size is not None and total != job.size:
        discard(job)
        if response.status_code == 200:  # say "a login page" rather than "too short", where it is one
            _checked_head(next(response.iter_bytes(), b""), response, job)
        raise SourceError(
            f"{job.label} should have {job.size} bytes; the server offers {total}.",
            remedy="Try again later; if it stays so, the server's copy is broken.",
        )


def _check_space(job: Download, offset: int, total: int | None) -> None:
    total = total if total is not None else job.size
    if total is None:
        return
    usage = shutil.disk_usage(job.target.parent)
    needed = total - offset
    if usage.total and usage.free < needed:  # a volume that reports a size of 0 tells nothing
        raise SourceError(
            f"{job.label} needs {amounts.size(needed)} more, and {job.target.parent} has "
            f"{amounts.size(usage.free)} free.",
            remedy="Free some space, or set LLAMA_MAGIC_CACHE (for the hub HF_HUB_CACHE) to a larger disk.",
        )


def _receive(
    response: httpx.Response,
    job: Download,
    meter: TransferMeter,
    digest: Digest,
    offset: int,
    total: int | None,
) -> None:
    meter.start(offset)
    watch = _StallWatch()
    expected = total if total is not None else job.size
    head = b"" if offset == 0 else None
    done = offset
    with job.partial.open("ab", buffering=0) as file:
        for data in response.iter_bytes():
            if head is not None:
                head += data
                if len(head) < SNIFF_BYTES:
                    continue
                data, head = _checked_head(head, response, job), None
            done += _write(file, data, digest)
            watch.count(len(data))
            meter.report(done, expected)
        if head is not None:
            done += _write(file, _checked_head(head, response, job, whole=total), digest)
        os.fsync(file.fileno())
    if expected is not None and done < expected:
        raise UnreachableError(f"the connection closed after {done} of {expected} bytes")
    meter.report(done, expected, last=True)


def _write(file: BinaryIO, data: bytes, digest: Digest) -> int:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
    digest.add(data)
    return len(data)


def _checked_head(head: bytes, response: httpx.Response, job: Download, whole: int | None = -1) -> bytes:
    """Return the first bytes of a body, or raise by what they are. `whole` is given at the body's end."""
    if whole != -1 and whole is not None and len(head) < whole:
        return head  # cut off: the next try tells
    found = not_gguf(head, len(head) if whole != -1 else None)
    if found is None:
        return head
    discard(job)
    kind = response.headers.get("content-type", "").partition(";")[0]
    error = PageError if found.startswith("an HTML page") else SourceError
    raise error(
        f"{redact(job.url)} sent {redact(found)} (declared as {kind or 'nothing'}), not a GGUF model.",
        remedy="Open the address in a browser: it may be a page about the file, a login or an error message.",
    )


class _StallWatch:
    """Break off a connection that drips: each read is in time, and the file never comes."""

    def __init__(self) -> None:
        self._since, self._bytes = time.monotonic(), 0

    def count(self, size: int) -> None:
        self._bytes += size
        elapsed = time.monotonic() - self._since
        if elapsed < STALL_S:
            return
        if self._bytes < STALL_BYTES:
            raise UnreachableError(
                f"the server sent only {self._bytes} bytes in {elapsed:.0f} s", stalled=True
            )
        self._since, self._bytes = time.monotonic(), 0


def _finish(job: Download, digest: Digest, name: str | None) -> Fetched:
    size = size_of(job.partial)
    digest.catch_up(job.partial, size)
    if job.size is not None and size != job.size:
        discard(job)
        raise SourceError(
            f"{job.label} should have {job.size} bytes; {size} came.",
            remedy="Try again; the copy was removed.",
        )
    if job.sha256 is not None and digest.hex() != job.sha256.lower():
        discard(job)
        raise SourceError(
            f"{job.label} has the wrong bytes: SHA-256 should be {job.sha256.lower()}, is {digest.hex()}.",
            remedy="The copy was removed. Try again; if it stays so, the server's file is another one.",
        )
    known = read_json(job.state)
    os.replace(job.partial, job.target)
    with contextlib.suppress(OSError):
        job.state.unlink(missing_ok=True)
    return Fetched(size, digest.hex(), name, known.get("etag"), known.get("modified"))
