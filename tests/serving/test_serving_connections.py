"""Connections that ask for nothing cost the others nothing: they are bounded in time and in number."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from serving.conftest import Served, check_error
from settled import until

from llama_magic.serving import http
from llama_magic.serving.state import Limits

HEAD = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def _open(here: Served, sent: bytes = b"") -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", here.server.port), timeout=600)
    sock.sendall(sent)
    return sock


@pytest.mark.parametrize("sent", [b"", HEAD[:9], HEAD])
@pytest.mark.parametrize("trickles", [False, True])
def test_a_head_that_never_ends_is_given_up(
    served: Callable[..., Served], sent: bytes, trickles: bool
) -> None:
    """Its connection is closed, also where a byte comes now and then; who asks is answered meanwhile."""
    here = served(limits=Limits(head_s=0.3))
    with _open(here, sent) as sock:
        until(lambda: _answers(here))
        sock.settimeout(0.02 if trickles else 30)
        closed = False
        while not closed:
            try:
                closed = sock.recv(4096) == b""
            except TimeoutError:
                sock.sendall(b"a")
            except ConnectionError:
                closed = True


def test_a_connection_that_is_kept_is_given_up_too(served: Callable[..., Served]) -> None:
    """A head that does not end after an answer is one as the first; whole ones are answered as they come."""
    here = served(limits=Limits(head_s=0.3))

    def found() -> bytes:
        with _open(here, HEAD + b"\r\n" + HEAD + b"\r\n" + HEAD) as sock:
            return sock.makefile("rb").read()

    until(lambda: found().count(b"HTTP/1.1 200 OK") == 2)


def _answers(here: Served) -> bool:
    """Whether it answers: not to one whom a busy machine kept from ending his head in time."""
    try:
        return here.client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def _answer(here: Served) -> httpx.Response:
    with httpx.Client(timeout=600) as client:
        return client.get(f"{here.server.url}/health")


def _fill(here: Served, count: int) -> list[socket.socket]:
    return [_open(here) for _ in range(count)]


@pytest.mark.parametrize("bound", ["limits", "files"])
def test_connections_are_bounded(
    served: Callable[..., Served], bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One too many is told so as all errors are; half of the files that may be open are the process's own."""
    if bound == "files":
        if http.resource is None:
            return  # Windows bounds no files
        monkeypatch.setattr(http.resource, "getrlimit", lambda _what: (6, 6))
    here = served(limits=Limits(connections=3) if bound == "limits" else Limits())
    held = _fill(here, 3)
    answer = _answer(here)
    check_error(answer.json(), 503)
    assert (answer.headers["retry-after"], answer.headers["connection"]) == ("1", "close")
    held.pop().close()
    while _answer(here).status_code != 200:
        pass
    for sock in held:
        sock.close()


def test_far_too_many_are_closed(served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a word, for words would take as many files."""
    monkeypatch.setattr(http, "_TOLD", 2)
    here = served(limits=Limits(connections=1))
    held = _fill(here, 3)
    with pytest.raises(httpx.TransportError):
        _answer(here)
    for one in held:
        one.close()


def test_each_header_of_an_origin_counts(served: Callable[..., Served]) -> None:
    """A page cannot hide behind another one's name."""
    here = served(cors=["http://mine.org"])
    headers: Any = [("Origin", "http://mine.org"), ("Origin", "http://evil.com")]
    assert here.client.get("/v1/models", headers=headers).status_code == 403
    assert here.client.get("/v1/models", headers=headers[:1]).status_code == 200


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("version", "more"), [(b"1.1", b""), (b"1.1", b"Connection: close\r\n"), (b"1.0", b"")]
)
def test_who_closes_his_own_side_is_answered(
    served: Callable[..., Served], version: bytes, more: bytes, streams: bool
) -> None:
    """As `nc -N` does it: a page, and what a model writes; the connection ends with the answer."""
    here = served(answers=["It is cold in winter."] * 2)
    body = json.dumps({"prompt": "Tell", "stream": streams, "max_tokens": 50}).encode()
    for sent, wanted in (
        (HEAD + more + b"\r\n", b'{"status":"ok"}'),
        (POST + more + b"Content-Length: %d\r\n\r\n" % len(body) + body, b"winter"),
    ):
        with _open(here, sent.replace(b"HTTP/1.1", b"HTTP/" + version)) as sock:
            sock.shutdown(socket.SHUT_WR)
            found = sock.makefile("rb").read()
        status = [line for line in found.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
        assert set(status[:-1]) <= {b"HTTP/1.1 100 Continue"}
        assert status[-1] == b"HTTP/1.1 200 OK"
        assert wanted in found


def test_a_body_that_is_too_large_is_not_asked_for(served: Callable[..., Served]) -> None:
    """A client that waits to be told to send it is told that it is too large, and the connection ends."""
    here = served()
    sent = POST + b"Expect: 100-continue\r\nContent-Length: 100000000\r\n\r\n"
    with _open(here, sent) as sock:
        assert sock.makefile("rb").read().startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("sent", [HEAD, POST + b"Content-Length: 9\r\n\r\nhalf"])
def test_who_closes_his_side_in_the_middle_of_a_request_has_gone(
    served: Callable[..., Served], sent: bytes
) -> None:
    """Nothing more can come of it."""
    here = served()
    with _open(here, sent) as sock:
        sock.shutdown(socket.SHUT_WR)
        assert sock.makefile("rb").read() == b""
    assert here.client.get("/health").status_code == 200


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://127.0.0.1:{port}/health", "127.0.0.1", 200),
        ("HTTP://localhost/v1/models?x=1", "elsewhere.org", 200),
        ("http://127.0.0.1/v1%2Fmodels", "127.0.0.1", 200),
        ("http://127.0.0.1", "127.0.0.1", 404),
        ("http://elsewhere.org/health", "127.0.0.1", 403),
        ("http://user@127.0.0.1/health", "127.0.0.1", 403),
        ("ftp://127.0.0.1/health", "127.0.0.1", 404),
        ("*", "127.0.0.1", 404),
    ],
)
def test_an_absolute_request_line_names_host_and_path(
    served: Callable[..., Served], target: str, host: str, status: int
) -> None:
    """As one sends to a proxy; its host counts, not that of the header."""
    here = served()
    line = f"GET {target.format(port=here.server.port)} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    with _open(here, line.encode()) as sock:
        assert sock.makefile("rb").readline().split()[1] == str(status).encode()


def test_nothing_is_written_to_one_who_has_gone(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or asyncio warns of it on stderr, in a notebook below its latest cell."""
    lost: list[int] = []
    quiet = http._Quiet.write

    def write(self: Any, data: bytes) -> None:
        self._transport.abort()
        quiet(self, data)
        lost.append(self._transport._conn_lost)

    monkeypatch.setattr(http._Quiet, "write", write)
    body = json.dumps(
        {"prompt": "x", "stream": True, "n": 8, "stream_options": {"include_usage": True}}
    ).encode()
    here = served(answers=lambda _request: "a b c")
    with _open(here, POST + b"Content-Length: %d\r\n\r\n" % len(body) + body) as sock:
        while not any(row.ended for row in here.server.log):
            pass
        assert lost
        assert max(lost) == lost[0]
        sock.close()
