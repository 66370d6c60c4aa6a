"""The HTTP server: uvicorn, on a loop of its own, with its limits."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from llama_magic.serving.app import application
from llama_magic.serving.exchange import as_json
from llama_magic.serving.refusals import Refusal, busy

try:
    import resource
except ImportError:  # Windows bounds no files
    resource = None  # type: ignore[assignment]  # a module, or none

if TYPE_CHECKING:
    from llama_magic.serving.guard import Rules
    from llama_magic.serving.state import State

_KEEP_ALIVE_S = 15
_TOLD = 64  # connections beyond the bound that are told so; more are closed without a word
_END_S = 3  # for what is under way, once it was cancelled
_REFUSED_S = 0.02  # until what was sent to one who has gone comes back as refused


# What a scanner of ports sends is answered, and no output of a cell: whoever wants it listens to the logger.
logging.getLogger("uvicorn").addHandler(logging.NullHandler())


class _Quiet:
    """A transport to which nothing is written once the client has gone: asyncio warns of that on stderr."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


class _Connection(H11Protocol):
    """Answers what is no HTTP in the form of all errors; closes what asks for nothing.

    `head_s`: seconds in which the head of a request has to come; `most`: connections at a time.
    """

    head_s: float
    most: int
    _waits: asyncio.TimerHandle | None = None
    _asks: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as theirs
        super().connection_made(_Quiet(transport))  # type: ignore[arg-type]  # as good as one
        if len(self.connections) > self.most + _TOLD:
            transport.abort()
        elif len(self.connections) > self.most:
            self.app = _full
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._asks is not None:
            self._asks.cancel()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio has it
        """Say whether one who sends nothing more is still to be answered.

        Who has gone and who closed his own side alone look the same here, until something is sent. Where no
        answer has begun, that is "100 Continue", which every client skips: who has gone refuses it, and the
        next is an error. HTTP/1.0 has no such word: there it is taken for staying, so an answer is written to
        its end, or a stream to its first piece. Later it is taken for going, so that what is written for
        nobody stops at once.
        """
        self.conn.receive_data(b"")
        cycle = self.cycle
        asked = cycle is not None and self.conn.their_state in (h11.DONE, h11.MUST_CLOSE)
        if not asked or cycle.response_started:
            return False
        cycle.keep_alive = False
        if self.scope["http_version"] == "1.1":
            self._ask_whether_there(2)
        return True

    def _ask_whether_there(self, times: int) -> None:
        self._asks = None
        if self.conn.our_state is h11.SEND_RESPONSE and not self.transport.is_closing():
            word = h11.InformationalResponse(status_code=100, headers=[], reason="Continue")
            self.transport.write(self.conn.send(word) or b"")
            if times > 1:
                self._asks = self.loop.call_later(_REFUSED_S, self._ask_whether_there, times - 1)

    def _wait_for_head(self) -> None:
        """Close the connection where the head is not whole in time, however its bytes trickle."""
        if self._waits is None:
            self._waits = self.loop.call_later(self.head_s, self._give_up)

    def _give_up(self) -> None:
        self._waits = None
        if self.conn.their_state is h11.IDLE:
            self.transport.close()

    def _stop_waiting(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None

    def send_400_response(self, msg: str) -> None:
        body = as_json(Refusal(400, msg).body())
        head = [
            ("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close"),
        ]  # fmt: skip
        response = h11.Response(status_code=400, headers=head, reason="Bad Request")
        for part in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(part) or b"")
        self.transport.close()


async def _full(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a request because too many connections are open; this one is closed."""
    refusal = busy("The server has as many connections as it takes.", 1)
    headers = {**refusal.headers, "connection": "close"}
    body = as_json(refusal.body())
    await Response(body, refusal.status, headers, "application/json")(scope, receive, send)


def _bounded(connections: int) -> int:
    """Return how many connections may be open: never more than half of the files that this process may."""
    if resource is None:
        return connections
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return connections if files == resource.RLIM_INFINITY else min(connections, files // 2)


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
    limits = state.limits
    bounds = {"head_s": limits.head_s, "most": _bounded(limits.connections)}
    config = uvicorn.Config(
        application(state, rules),
        log_config=None,
        access_log=False,
        lifespan="off",
        http=type("_Bounded", (_Connection,), bounds),
        ws="none",
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_END_S,
        h11_max_incomplete_event_size=rules.most_header_bytes,
    )
    return _Server(config, started)
