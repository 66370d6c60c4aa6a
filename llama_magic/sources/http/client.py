"""One GET over HTTP: redirects checked hop by hop, secrets kept to the host they are for."""

from __future__ import annotations

import contextlib
import contextvars
import ipaddress
import logging
import re
import socket
from collections.abc import Iterator, Mapping
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from llama_magic.errors import SourceError
from llama_magic.sources.faults import MissingError
from llama_magic.sources.http.settings import certificates, httpx, read_settings
from llama_magic.sources.redaction import redact

__all__ = [
    "TRANSIENT_STATUS",
    "UnreachableError",
    "body_length",
    "check_status",
    "content_range",
    "host_reach",
    "httpx",
    "new_client",
    "open_stream",
    "origin",
    "redacted_logs",
    "safe_name",
    "server_name",
]
MAX_REDIRECTS = 10
CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 30.0
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_INVALID_URL: tuple[type[Exception], ...] = (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError)
TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


class UnreachableError(Exception):
    """The other end could not be reached, or broke off; asking again may help.

    `fresh` tells that not even a connection was made, `stalled` that bytes came, but too
    slowly to count; `retry_after` is in seconds.
    """

    def __init__(
        self, reason: str, *, fresh: bool = False, stalled: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(redact(reason))
        self.fresh = fresh
        self.stalled = stalled
        self.retry_after = retry_after


def new_client() -> httpx.Client:
    """Return a client with timeouts on every step; proxies come from the environment."""
    timeout = httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    agent = {"User-Agent": "llama-magic"}
    with read_settings():
        return httpx.Client(follow_redirects=False, timeout=timeout, headers=agent, verify=certificates())


@contextlib.contextmanager
def open_stream(client: httpx.Client, url: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
    """GET `url`, follow redirects, yield the last response with its body unread.

    Raises `SourceError` for a redirect that must not be followed, `UnreachableError` for a
    connection that fails here or while the caller reads.
    """
    with redacted_logs(), _transport_errors(url), contextlib.ExitStack() as stack:
        yield _follow(client, url, dict(headers), stack)


def _follow(
    client: httpx.Client, url: str, headers: dict[str, str], stack: contextlib.ExitStack
) -> httpx.Response:
    seen = [url]
    headers.setdefault("Accept-Encoding", "identity")  # lengths and ranges must count the file's own bytes
    while True:
        response = client.send(client.build_request("GET", url, headers=headers), stream=True)
        stack.callback(response.close)
        if response.status_code not in _REDIRECTS:
            return response
        target = _next_hop(url, response, seen)
        if origin(target) != origin(url):
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        response.close()
        url = target
        seen.append(url)


def _next_hop(url: str, response: httpx.Response, seen: list[str]) -> str:
    location = response.headers.get("location")
    if not location:
        raise SourceError(
            f"{redact(url)} answered {response.status_code}, a redirect without a target.",
            remedy="Open the address in a browser and use the one it ends at.",
        )
    try:
        target = urljoin(url, location)
        origin(target)  # reads host and port, which a server may have written in any way
    except ValueError as err:
        raise SourceError(
            f"{redact(url)} redirects to {redact(location[:200])}, which is no web address: {err}.",
            remedy="Open the address in a browser and use the one it ends at.",
        ) from None
    if target in seen or len(seen) > MAX_REDIRECTS:
        what = "redirects in a circle" if target in seen else f"redirects more than {MAX_REDIRECTS} times"
        raise SourceError(f"{redact(seen[0])} {what}.", remedy="Use the address it should end at.")
    check_redirect([urlsplit(hop) for hop in seen], target)
    return target


def check_redirect(hops: list[SplitResult], target: str) -> None:
    """Refuse a redirect by its scheme, or because it leads from outside to a more private place."""
    parts = urlsplit(target)
    why = None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        why = f"an address with {parts.scheme or 'no scheme'}:"
    elif parts.scheme == "http" and hops[-1].scheme == "https":
        why = "http:, which anyone on the way can change, although the start was https:"
    else:
        reach = host_reach(parts.hostname)
        if reach == "link-local" or _RANK[reach] < max(_RANK[host_reach(hop.hostname or "")] for hop in hops):
            why = f"a {reach} address of your own network or machine"
    if why:
        raise SourceError(
            f"{redact(hops[0].geturl())} redirects to {redact(target)}: {why}. This is not followed.",
            remedy="If you trust that address, give it as the source yourself.",
        )


_RANK = {"link-local": 0, "loopback": 1, "private": 2, "public": 3}


def host_reach(host: str) -> str:
    """Return how far away a host is: the nearest of all addresses that its name has.

    A name that does not resolve here counts as public: behind a proxy that is the rule.
    """
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return "public"
    reaches = [_address_reach(str(address).partition("%")[0]) for address in found]
    return min(reaches, key=_RANK.__getitem__, default="public")


def _address_reach(text: str) -> str:
    address = ipaddress.ip_address(text)
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped if mapped is not None else address
    if address.is_link_local or address.is_multicast:
        return "link-local"  # cloud metadata services live there
    if address.is_loopback or address.is_unspecified:
        return "loopback"
    return "public" if address.is_global else "private"


def origin(url: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port: what a credential is meant for."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


@contextlib.contextmanager
def _transport_errors(url: str) -> Iterator[None]:
    host = redact(urlsplit(url).netloc)
    try:
        yield
    except _INVALID_URL as err:
        raise SourceError(
            f"{redact(url)} cannot be opened: {redact(str(err))}.", remedy="Check it."
        ) from None
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as err:
        reason = redact(str(err)) or type(err).__name__
        raise UnreachableError(f"{host} cannot be reached ({reason})", fresh=True) from None
    except httpx.TimeoutException:
        raise UnreachableError(f"{host} sent nothing for {READ_TIMEOUT_S:.0f} s") from None
    except (httpx.HTTPError, httpx.StreamError) as err:
        raise UnreachableError(f"{host} broke off ({redact(str(err)) or type(err).__name__})") from None


def check_status(response: httpx.Response, url: str) -> None:
    """Raise what a status other than 200 and 206 means: `UnreachableError` where a second try may help."""
    status = response.status_code
    if status in (200, 206):
        return
    shown = redact(url)
    if status in TRANSIENT_STATUS:
        raise UnreachableError(
            f"{shown} answered {status} {response.reason_phrase}", retry_after=_retry_after(response)
        )
    meanings = {
        401: ("asks for a login (401)", "Check that the address is public."),
        403: ("refuses access (403)", "Check that the address is public; a signed link may have expired."),
        404: ("does not exist (404)", "Check the address."),
        410: ("is gone for good (410)", "Look for another address."),
    }
    text, remedy = meanings.get(status, (f"answered {status} {response.reason_phrase}", "Check the address."))
    error = MissingError if status == 404 else SourceError
    raise error(f"{shown} {text}.", remedy=remedy)


def _retry_after(response: httpx.Response) -> float | None:
    value = response.headers.get("retry-after", "")
    return float(value) if value.isdigit() else None


def content_range(response: httpx.Response) -> tuple[int | None, int | None]:
    """Return (first byte, whole length) from `Content-Range`, None for what it does not say."""
    header = response.headers.get("content-range", "").strip()
    match = re.fullmatch(r"bytes\s+(?:(\d+)-\d+|\*)/(\d+|\*)", header)
    if match is None:
        return None, None
    return (int(match[1]) if match[1] else None), (int(match[2]) if match[2] != "*" else None)


def body_length(response: httpx.Response) -> int | None:
    """Return the length of a body; None where it is absent, unreadable, 0 (mirrors do that) or compressed."""
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        return None
    value = response.headers.get("content-length", "")
    return int(value) or None if value.isdigit() else None


def server_name(response: httpx.Response) -> str | None:
    """Return the file name that the server proposes, made safe; None where it proposes none."""
    header = response.headers.get("content-disposition", "")
    if match := re.search(r"filename\*\s*=\s*[\w-]*'[^']*'([^;\s]+)", header, re.IGNORECASE):
        return safe_name(match[1])
    if match := re.search(r"filename\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^;\s]+))", header, re.IGNORECASE):
        return safe_name(match[1] if match[1] is not None else match[2])
    return None


_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)


def safe_name(text: str) -> str | None:
    """Return the last part of a foreign name as a plain file name, or None where nothing is left.

    Percent-escapes are undone first, so `..%2f..%2fa.gguf` is `a.gguf`.
    """
    for _ in range(3):
        text = unquote(text)
    text = re.split(r"[/\\]", text)[-1]
    text = "".join(char for char in text if ord(char) >= 32 and char not in '<>:"|?*\x7f').strip(" .")
    if not text or _RESERVED.match(text):
        return None
    stem, dot, ending = text.rpartition(".")
    if len(text.encode()) > 150:  # file systems take 255 bytes, and `.partial.json` is added
        text = stem.encode()[: 150 - len(ending.encode()) - 1].decode("utf-8", "ignore") + dot + ending
        text = text if len(text.encode()) <= 150 else text.encode()[:150].decode("utf-8", "ignore")
    return text


_OURS: contextvars.ContextVar[bool] = contextvars.ContextVar("llama_magic_request", default=False)


class _RedactLog(logging.Filter):
    """Redact the HTTP library's own log lines about our requests; it writes whole addresses at INFO."""

    def filter(self, record: logging.LogRecord) -> bool:
        if _OURS.get():
            record.msg, record.args = redact(record.getMessage()), ()
        return True


_REDACT_LOG = _RedactLog()


@contextlib.contextmanager
def redacted_logs() -> Iterator[None]:
    """Keep secrets of the requests made inside out of the HTTP library's log."""
    core = httpx.__name__.replace("httpx", "httpcore")
    for name in (httpx.__name__, *(f"{core}.{part}" for part in ("connection", "http11", "http2", "proxy"))):
        logging.getLogger(name).addFilter(_REDACT_LOG)  # the same filter object is never added twice
    marker = _OURS.set(True)
    try:
        yield
    finally:
        _OURS.reset(marker)
