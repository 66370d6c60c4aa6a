"""A model hub and a plain file host on 127.0.0.1, with faults on demand.

The hub part answers as huggingface.co does where that matters: `/api/models/…`, `HEAD` and
`GET /owner/repo/resolve/revision/file` with `X-Repo-Commit`, `X-Linked-Etag`, `X-Linked-Size`
and a redirect to a CDN on another port, and the `X-Error-Code` of gated and missing things.
"""

from __future__ import annotations

import hashlib
import json
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def gguf_bytes(size: int = 5000, seed: int = 1) -> bytes:
    """Return `size` bytes that begin as a GGUF does and then follow no pattern."""
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 0)
    out, counter = bytearray(head), 0
    while len(out) < size:
        out += hashlib.sha256(f"{seed}/{counter}".encode()).digest()
        counter += 1
    return bytes(out[:size])


@dataclass
class Seen:
    """One request as the server saw it. `sent` counts body bytes."""

    method: str
    path: str
    headers: dict[str, str]
    host: str
    sent: int = 0
    status: int = 0


@dataclass
class Faults:
    """What goes wrong; counters run down as the fault is used."""

    drop_after: list[int] = field(
        default_factory=list
    )  # body bytes before the connection is cut, one a request
    status: list[int] = field(default_factory=list)  # answer these first
    ignore_range: bool = False
    no_length: bool = False
    zero_size: bool = False  # the hub's metadata says 0 bytes
    flip_byte: int | None = None
    weak_etag: bool = False
    no_validators: bool = False
    short_by: int = 0  # Content-Length is right for a file this much shorter
    gate: threading.Event | None = None  # wait for it in the middle of a body
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None  # send this in place of the file
    redirect: str | None = None
    on_body: Callable[[], None] | None = None  # called in the middle of a body


@dataclass
class Repo:
    files: dict[str, bytes]
    gated: bool = False
    private: bool = False
    revisions: tuple[str, ...] = ("main", "v1", COMMIT)
    list_lfs: bool = True  # the file list carries sizes and digests
    plain_etag: bool = False  # the file's ETag is no digest
    listed: dict[str, bytes] | None = None  # what the list says, where that differs
    unlisted: bool = False


class FakeHub:
    """Two servers (hub and CDN). `repos` are on the hub, `files` are plain files on the hub's host."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.files: dict[str, bytes] = {}
        self.faults = Faults()
        self.tokens = {"hf_goodtoken"}
        self.seen: list[Seen] = []
        self.down = False
        self._servers = [self._serve(), self._serve()]

    def _serve(self) -> ThreadingHTTPServer:
        hub = self

        class Handler(_Handler):
            owner = hub

        server = _QuietServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._servers[0].server_address[1]}"

    @property
    def cdn(self) -> str:
        return f"http://127.0.0.1:{self._servers[1].server_address[1]}"

    def gets(self, ending: str = "") -> list[Seen]:
        """Return the GET requests that carried a body, or tried to, for paths with this ending."""
        return [
            s for s in self.seen if s.method == "GET" and s.path.endswith(ending) and s.status in (200, 206)
        ]

    def close(self) -> None:
        if self.faults.gate is not None:
            self.faults.gate.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # fifty threads connect at once

    def handle_error(self, *_: object) -> None:
        """Clients that break off are what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    owner: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = urlsplit(self.path).path
        self.record = Seen(self.command, unquote(path), headers, self.headers.get("host", ""))
        self.owner.seen.append(self.record)
        if self.owner.down:
            self._cut()
            return
        try:
            if path.startswith("/api/models/"):
                self._api(unquote(path.removeprefix("/api/models/")))
            elif path.startswith("/cdn/"):
                _, _, repo_owner, repo_name, name = unquote(path).split("/", 4)
                self._body(self.owner.repos[f"{repo_owner}/{repo_name}"].files[name])
            elif "/resolve/" in path and (parts := unquote(path).strip("/").split("/", 4))[2] == "resolve":
                self._resolve(f"{parts[0]}/{parts[1]}", parts[3], parts[4])
            elif unquote(path) in self.owner.files:
                self._body(self.owner.files[unquote(path)])
            else:
                self._plain(404, b"not here")
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.close()

    def _plain(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.record.status = status
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _error(self, status: int, code: str | None, message: str = "") -> None:
        headers = {"X-Error-Message": message or str(code)}
        if code:
            headers["X-Error-Code"] = code
        self._plain(status, json.dumps({"error": message}).encode(), headers)

    def _authorised(self, repo: Repo | None) -> bool:
        token = self.headers.get("authorization", "").removeprefix("Bearer ").strip()
        if token and token not in self.owner.tokens:
            self._error(401, None, "Invalid credentials in Authorization header")
            return False
        if repo is None or (repo.private and not token):
            self._error(404 if token else 401, "RepoNotFound", "Repository not found")
            return False
        if repo.gated and "/resolve/" in self.path and not token:
            self._error(401, "GatedRepo", "Access to model is restricted")
            return False
        return True

    def _api(self, rest: str) -> None:
        parts = rest.split("/")
        repo = self.owner.repos.get("/".join(parts[:2]))
        if self.owner.faults.status:
            self._plain(self.owner.faults.status.pop(0), b"busy")
            return
        if repo is not None and repo.unlisted:
            self._plain(404, b"no lists here")
            return
        if not self._authorised(repo):
            return
        assert repo is not None
        revision = "/".join(parts[3:]) if len(parts) > 3 else "main"
        if revision not in repo.revisions:
            self._error(404, "RevisionNotFound")
            return
        siblings = []
        for name, data in (repo.listed if repo.listed is not None else repo.files).items():
            entry: dict[str, object] = {"rfilename": name}
            if repo.list_lfs:
                lfs = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
                entry |= {"size": len(data), "lfs": lfs}
            siblings.append(entry)
        info = {
            "id": "/".join(parts[:2]),
            "sha": COMMIT,
            "siblings": siblings,
            "gated": repo.gated,
            "private": repo.private,
        }
        self._plain(200, json.dumps(info).encode(), {"Content-Type": "application/json"})

    def _resolve(self, repo_id: str, revision: str, name: str) -> None:
        repo = self.owner.repos.get(repo_id)
        if self.command == "HEAD" and self.owner.faults.status:
            self._plain(self.owner.faults.status.pop(0), b"")
            return
        if not self._authorised(repo):
            return
        assert repo is not None
        if revision not in repo.revisions:
            self._error(404, "RevisionNotFound")
            return
        if name not in repo.files:
            self._error(404, "EntryNotFound")
            return
        data = repo.files[name]
        etag = hashlib.sha256(data).hexdigest() if not repo.plain_etag else hashlib.md5(data).hexdigest()
        headers = {
            "X-Repo-Commit": COMMIT,
            "X-Linked-Etag": f'"{etag}"',
            "X-Linked-Size": "0" if self.owner.faults.zero_size else str(len(data)),
            "ETag": '"pointer"',
            "Location": self.owner.faults.redirect
            or f"{self.owner.cdn}/cdn/{repo_id}/{name}?X-Amz-Signature=s3cr3t",
        }
        headers |= self.owner.faults.headers
        self._plain(302, b"", headers)

    def _body(self, data: bytes) -> None:
        faults = self.owner.faults
        if faults.status:
            self._plain(faults.status.pop(0), b"busy", faults.headers)
            return
        if faults.redirect is not None and "/moved" in self.path:
            self._plain(302, b"", {"Location": faults.redirect})
            return
        if faults.body is not None:
            self._plain(200, faults.body, {"Content-Type": "text/html", **faults.headers})
            return
        etag = f'"{hashlib.md5(data).hexdigest()}"'
        if faults.flip_byte is not None:
            at = faults.flip_byte
            data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        data = data[: len(data) - faults.short_by]
        etag = f"W/{etag}" if faults.weak_etag else etag
        start, end, status = 0, len(data), 200
        asked = self.headers.get("range")
        condition = self.headers.get("if-range")
        if asked and not faults.ignore_range and condition in (None, etag):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end, status = int(first), min(int(last) + 1 if last else len(data), len(data)), 206
            if start >= len(data):
                self._plain(416, b"", {"Content-Range": f"bytes */{len(data)}"})
                return
        self.record.status = status
        self.send_response(status)
        if not faults.no_validators:
            self.send_header("ETag", etag)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        for name, value in faults.headers.items():
            self.send_header(name, value)
        if faults.no_length:
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(end - start))
        self.end_headers()
        if self.command != "HEAD":
            self._send(data[start:end])

    def _send(self, body: bytes) -> None:
        faults = self.owner.faults
        limit = faults.drop_after.pop(0) if faults.drop_after else None
        step = max(1, min(65536, len(body) // 4))
        for at in range(0, len(body), step):
            piece = body[at : at + step]
            if limit is not None and at + len(piece) > limit:
                self.wfile.write(piece[: limit - at])
                self.record.sent += limit - at
                self.wfile.flush()
                self.close_connection = True
                self.connection.shutdown(2)
                return
            self.wfile.write(piece)
            self.record.sent += len(piece)
            if at and faults.on_body is not None:
                on_body, faults.on_body = faults.on_body, None
                self.wfile.flush()
                on_body()
            if at and faults.gate is not None:
                self.wfile.flush()
                faults.gate.wait(600)
