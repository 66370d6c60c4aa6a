"""What a request has to pass before anything is read: where it is sent to, where it comes from, its key.

A page of any site can make a browser send requests to this machine. Its requests bear the site's `Origin`,
and after a rebinding of its name (DNS) to this machine, its `Host`: neither is taken.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llama_magic.serving.log import Log
from llama_magic.serving.refusals import Refusal

OPEN = ("/health", "/v1/health")  # to anybody, without a key
_LOCAL = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(
    r"""\[(?P<address>[0-9a-f:.]+)\](:\d*)?  # an address of IPv6
      | (?P<name>[0-9a-f:]*:[0-9a-f:]*:[0-9a-f:.]*  # so, as it is sometimes sent
      | [^\s\[\]:@/]+?)\.?(:\d*)?""",
    re.VERBOSE,
)
_ABSOLUTE = re.compile(rb"https?://(?P<host>[^/?#]+)(?P<path>/[^?#]*)?", re.IGNORECASE)
_METHODS = "GET, POST, OPTIONS"


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Rules:
    """Who may ask. `key` is a digest of the key, never the key; `cors` the origins of pages that may ask.

    `hosts` are the names by which this machine may be called; those of a loopback address are known.
    """

    host: str
    key: bytes | None = None
    hosts: frozenset[str] = frozenset()
    cors: frozenset[str] = frozenset()
    most_header_bytes: int = 16_384

    def check(self, path: str, headers: Headers, *, asks_first: bool = False) -> None:
        """Raise `Refusal` for a request that may not be answered.

        `asks_first`: a browser asks whether a page may send it, without the key that it will send.
        """
        size = sum(len(name) + len(value) for name, value in headers.raw)
        if size > self.most_header_bytes:
            raise Refusal(
                431, f"The headers have {size:,} bytes; expected {self.most_header_bytes:,} at most."
            )
        host = headers.get("host", "")
        name = name_of(host)
        if name is None or not self._is_ours(name):
            words = f"This server is not called {host[:100]!r}." if host else "The request names no Host."
            raise Refusal(403, words, param="Host")
        for origin in headers.getlist("origin"):
            if not self._may_ask(origin, host):
                raise Refusal(403, f"Pages of {origin[:100]!r} may not ask this server.", param="Origin")
        if self.key is not None and path not in OPEN and not asks_first and not self._has_key(headers):
            raise Refusal(
                401,
                "The key is missing or wrong: send it as Authorization: Bearer KEY.",
                headers={"www-authenticate": "Bearer"},
            )

    def _is_ours(self, name: str) -> bool:
        if name in self.hosts:
            return True
        if is_loopback(self.host):
            return name in _LOCAL or name == self.host
        return (
            name == self.host or _is_address(name) or name in _LOCAL or name == socket.gethostname().lower()
        )

    def _may_ask(self, origin: str, host: str) -> bool:
        return self._is_let_in(origin) or origin.partition("://")[2] == host

    def _is_let_in(self, origin: str) -> bool:
        return "*" in self.cors or origin.lower() in self.cors

    def _has_key(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        given = given.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        assert self.key is not None
        # A key beyond ASCII is sent as UTF-8 by some clients and as Latin-1 by others; it is read as Latin-1.
        latin = hmac.compare_digest(digest(given.encode("latin-1")), self.key)
        return hmac.compare_digest(digest(given.encode()), self.key) or latin

    def cors_headers(self, headers: Headers) -> Mapping[str, str]:
        """Return what lets a page read the answer, where that was asked for."""
        origin = headers.get("origin")
        if origin is None or not self._is_let_in(origin):
            return {}
        return {"access-control-allow-origin": "*" if "*" in self.cors else origin, "vary": "Origin"}


def digest(key: bytes) -> bytes:
    """Return what is kept of a key, and compared in constant time."""
    return hashlib.sha256(key).digest()


def name_of(host: str) -> str | None:
    """Return the name in a `Host` header, without the port, as it is compared; None where it is none."""
    found = _HOST.fullmatch(host.strip().lower())
    return (found["address"] or found["name"]) if found else None


def _of_absolute(scope: Scope) -> Scope:
    """Return a request for `http://host/path`, as proxies are asked, as one for the path at that host."""
    found = _ABSOLUTE.fullmatch(scope["raw_path"])
    if found is None:
        return scope
    path = found["path"] or b"/"
    headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
    headers.append((b"host", found["host"]))
    return {**scope, "headers": headers, "raw_path": path, "path": unquote(path.decode("latin-1"))}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class RequestGuard:
    """Checks each request by the rules; answers a browser's question (OPTIONS) itself."""

    def __init__(self, app: ASGIApp, rules: Rules, log: Log) -> None:
        self._app = app
        self._rules = rules
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if not scope["raw_path"].startswith(b"/"):
            scope = _of_absolute(scope)
        headers = Headers(scope=scope)
        allowed = self._rules.cors_headers(headers)
        asks_first = scope["method"] == "OPTIONS" and "access-control-request-method" in headers
        try:
            self._rules.check(scope["path"], headers, asks_first=asks_first)
        except Refusal as refusal:
            self._log.refused(scope.get("client"), scope["path"], refusal.status)
            response: Response = JSONResponse(refusal.body(), refusal.status, {**refusal.headers, **allowed})
            await response(scope, receive, send)
            return
        if asks_first:
            more = {"access-control-allow-methods": _METHODS, "access-control-allow-headers": "*"}
            response = Response(
                status_code=200 if allowed else 403, headers={**more, **allowed} if allowed else {}
            )
            await response(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(allowed)
            await send(message)

        await self._app(scope, receive, sending if allowed else send)
