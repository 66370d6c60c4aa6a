"""The HTTP server: uvicorn, on a loop of its own, with its limits."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from llama_magic.serving.app import application
from llama_magic.serving.exchange import as_json
from llama_magic.serving.refusals import Refusal

if TYPE_CHECKING:
    from llama_magic.serving.guard import Rules
    from llama_magic.serving.state import State

_KEEP_ALIVE_S = 15
_CONNECTIONS = 2048
_END_S = 3  # for what is under way, once it was cancelled


# What a scanner of ports sends is answered, and no output of a cell: whoever wants it listens to the logger.
logging.getLogger("uvicorn").addHandler(logging.NullHandler())


class _Connection(H11Protocol):
    """Answers what is no HTTP in the form of all errors."""

    def send_400_response(self, msg: str) -> None:
        body = as_json(Refusal(400, msg).body())
        head = [
            ("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close"),
        ]  # fmt: skip
        response = h11.Response(status_code=400, headers=head, reason="Bad Request")
        for part in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(part) or b"")
        self.transport.close()


class _Server(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._say = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._say()


def make(state: State, rules: Rules, started: Callable[[], None]) -> uvicorn.Server:
    """Return a server of `state`; `started` is called once it listens."""
    config = uvicorn.Config(
        application(state, rules),
        log_config=None,
        access_log=False,
        lifespan="off",
        http=_Connection,
        ws="none",
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_END_S,
        limit_concurrency=_CONNECTIONS,
        h11_max_incomplete_event_size=rules.most_header_bytes,
    )
    return _Server(config, started)
