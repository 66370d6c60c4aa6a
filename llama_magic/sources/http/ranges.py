"""Read a remote file by byte ranges, as much of it as is looked at."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Self
from urllib.parse import urlsplit

from llama_magic.doors import verb
from llama_magic.errors import SourceError
from llama_magic.sources.faults import plain_errors
from llama_magic.sources.http import client as _http
from llama_magic.sources.http import transfer as _transfer
from llama_magic.sources.http.client import UnreachableError
from llama_magic.sources.redaction import redact

# A header read front to back costs at most one unneeded block. Six blocks of this size hold
# 5.9 MB, more than the header of a model with 150,000 tokens; beyond, blocks grow with what was read.
BLOCK = 983_040
FAR_BLOCK = 65_536  # for a jump into the middle of the file
GROWTH = 6
_MEMORY = 64 << 20
_TRIES = 4


class RangeReader:
    """Random access to a file on a server.

    `size` is its length in bytes, `requests` and `bytes_read` are what it has cost so far.
    Redirects are followed once: later requests go straight to where the first one ended, and
    back to `url` when that address has run out.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str] | None = None, *, name: str = "", block: int = BLOCK
    ) -> None:
        self.name = name or _http.safe_name(urlsplit(url).path) or redact(url)
        self.requests = 0
        self.bytes_read = 0
        self._url, self._headers, self._block = url, dict(headers or {}), block
        self._direct: str | None = None
        self._etag: str | None = None
        self._spans: list[tuple[int, bytes]] = []  # (start, bytes), in order, never overlapping
        self._size: int | None = None
        self._client = _http.new_client()
        self._fetch(0, block)

    def __repr__(self) -> str:
        cost = f"requests={self.requests}, bytes_read={self.bytes_read}"
        return f"RangeReader({self.name!r}, size={self._size}, {cost})"

    @property
    def size(self) -> int:
        """The length of the whole file in bytes."""
        assert self._size is not None
        return self._size

    @plain_errors()
    def read_at(self, offset: int, n: int) -> bytes:
        """Return `n` bytes from `offset`, fewer only at the end of the file.

        Raises `SourceError` where the server fails or the file changed meanwhile. Small reads
        that follow each other cost one request a block; a large read is one request.
        """
        end = min(offset + n, self.size)
        if offset < 0 or n < 0:
            raise SourceError(f"{self.name}: cannot read {n} bytes at {offset}.")
        pieces = []
        while offset < end:
            piece = self._cached(offset, end)
            if not piece:
                self._fetch(offset, self._how_much(offset, end))
                continue
            pieces.append(piece)
            offset += len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _cached(self, offset: int, end: int) -> bytes:
        for start, data in reversed(self._spans):
            if start <= offset < start + len(data):
                return data[offset - start : end - start]
        return b""

    def _how_much(self, offset: int, end: int) -> int:
        """Return how many bytes to ask for: what is needed, or a block, but nothing that is here already."""
        follows = any(0 <= offset - start - len(data) < self._block for start, data in self._spans)
        block = max(self._block, self.bytes_read // GROWTH) if follows else min(FAR_BLOCK, self._block)
        wanted = max(end - offset, block)
        ahead = [start for start, _ in self._spans if start > offset]
        limit = min([self.size, *ahead])
        return min(wanted, limit - offset)

    def _fetch(self, offset: int, length: int) -> None:
        for attempt in range(1, _TRIES + 1):
            try:
                data = self._request(offset, length)
                break
            except UnreachableError as err:
                if attempt == _TRIES or err.fresh:
                    raise SourceError(
                        f"{self.name} cannot be read from the server: {err}.",
                        remedy="Check the network, then try again.",
                    ) from None
                time.sleep(_transfer.BACKOFF_S * 2 ** (attempt - 1))
        self.bytes_read += len(data)
        self._spans.append((offset, data))
        self._spans.sort(key=lambda span: span[0])
        while sum(len(kept) for _, kept in self._spans) > _MEMORY and len(self._spans) > 1:
            oldest = self._spans[0] if self._spans[0][0] != offset else self._spans[1]
            self._spans.remove(oldest)

    def _request(self, offset: int, length: int) -> bytes:
        self.requests += 1
        headers = {"Range": f"bytes={offset}-{offset + length - 1}"}
        if self._direct is None:
            headers |= self._headers
        with _http.open_stream(self._client, self._direct or self._url, headers) as response:
            if self._direct is not None and response.status_code in (400, 401, 403, 404, 410):
                self._direct = None  # a signed address has run out: ask for a new one
                raise UnreachableError("the address ran out", retry_after=0.0)
            if response.status_code == 416:
                raise SourceError(f"{self.name} is shorter than it says.", remedy="Check the address.")
            _http.check_status(response, self._url)
            start, total = _http.content_range(response)
            if response.status_code != 206 or start != offset or total is None:
                raise SourceError(
                    f"The server of {self.name} serves no byte ranges, so its header cannot be read alone.",
                    remedy=f"Download it first: {verb('pull', 'SOURCE')}.",
                )
            etag = response.headers.get("etag")
            if (self._size, self._etag) not in ((None, None), (total, etag)):
                raise SourceError(f"{self.name} changed while it was read.", remedy="Read it again.")
            self._size, self._etag = total, etag
            if _http.origin(str(response.url)) != _http.origin(self._url):
                self._direct = str(response.url)  # spare the redirect next time
            return _exactly(response.iter_bytes(), min(length, total - offset))


def _exactly(chunks: Iterable[bytes], length: int) -> bytes:
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) >= length:
            break
    if len(data) < length:
        raise UnreachableError(f"the connection closed after {len(data)} of {length} bytes")
    return bytes(data[:length])
