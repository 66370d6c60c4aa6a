"""A server of OpenAI's format on 127.0.0.1 that answers each question with given bytes, whatever they are."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any

MODELS = json.dumps({"data": [{"id": "m", "max_model_len": 4096}]}).encode()


def response(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """Return an answer with its length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class RawServer:
    """`heads` are the headers of each request, in lower case; `questions` how many were to be answered."""

    def __init__(self, answer: bytes, context: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self.trickles = ""  # a path whose answer comes byte by byte, its last byte again and again
        self.heads: list[dict[str, str]] = []
        self.questions = 0
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection:  # a client that left, or speaks no HTTP
            talk = connection if self._context is None else self._context.wrap_socket(connection, True)
            with talk, talk.makefile("rb") as lines:
                for path, head in _requests(lines):
                    self.heads.append(head)
                    if path == self.trickles:
                        _trickle(talk, self.answer)
                    if path == "/v1/models":
                        talk.sendall(response(MODELS))
                    elif path == "/v1/chat/completions":
                        self.questions += 1
                        talk.sendall(self.answer)
                        if b"Connection: close" in self.answer:
                            return
                    else:
                        talk.sendall(response(b"{}", status="404 Not Found"))


def _trickle(talk: socket.socket, answer: bytes) -> None:
    """Send it until the client has gone."""
    quiet = threading.Event()
    for place in itertools.count():
        talk.sendall(answer[place : place + 1] or answer[-1:])
        quiet.wait(0.002)


def _requests(lines: Any) -> Iterator[tuple[str, dict[str, str]]]:
    while line := lines.readline():
        head: dict[str, str] = {}
        while (more := lines.readline()) not in (b"\r\n", b""):
            name, _, value = more.decode().partition(":")
            head[name.lower()] = value.strip()
        lines.read(int(head.get("content-length", 0)))
        yield line.decode().split()[1], head
