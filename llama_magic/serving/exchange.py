"""One request over HTTP and its answer: read, watched for the client's going, answered whole or in events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from llama_magic.serving.answers import ServedAnswer
from llama_magic.serving.fields.common import Fields
from llama_magic.serving.reading import read
from llama_magic.serving.refusals import refusal_of
from llama_magic.words.harmless import one_line

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.model import Model
    from llama_magic.serving.metrics import UnderWay
    from llama_magic.serving.state import State

PING = b": still at it\n\n"  # a comment: it keeps the connection of a silent stream alive
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # json.dumps makes one each time
_EVENTS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


def as_json(value: Any) -> bytes:
    """Return JSON as UTF-8; halves of surrogate pairs, which UTF-8 has not, as U+FFFD."""
    return _ENCODER.encode(value).encode("utf-8", "replace")


def event(data: Any, name: str = "") -> bytes:
    """Return a server-sent event."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + as_json(data) + b"\n\n"


def warning(note: str) -> str:
    """Return a note as the value of a `Warning` header, in ASCII."""
    text = note.encode("ascii", "backslashreplace").decode()
    return '299 - "' + one_line(text, 400).replace("\\", r"\\").replace('"', r"\"") + '"'


class Exchange:
    """One request on its way. `row` is its line in the log."""

    def __init__(self, state: State, request: Request, send: Send) -> None:
        self.state = state
        self.request = request
        client = request.client.host if request.client else ""
        self.row = state.log.begin(client, request.url.path)
        self.started = False  # the head of the answer is sent
        self.streams = False
        self.gone = False  # the client has closed the connection
        self._send = send
        self._status = 0
        self._notes: dict[str, None] = {}
        self._sending = 0.0  # since when what is sent waits to be taken
        self._under_way: list[UnderWay] = []
        self._watch: asyncio.Task[None] | None = None

    # --- asking -----------------------------------------------------------------------------

    async def ask(
        self, model: Model, prepare: list[Callable[[], Assembler]], *, streamed: bool, progress: bool = False
    ) -> list[ServedAnswer]:
        """Ask a model, all at once, and wait until the engine has begun with each.

        `progress`: it is wanted to know how much of a prompt is read.
        """
        state = self.state
        self.row.model = model.name
        state.admit(len(prepare))
        made = await asyncio.gather(*(state.to_thread(one) for one in prepare))
        answers = []
        for held_to in (one.terms.constraint for one in made):
            self._notes.update(dict.fromkeys(held_to.notes if held_to is not None else ()))
        for assembler in made:
            mail, row = state.mail, self.row
            answer = ServedAnswer(model, assembler, mail, row, streamed=streamed, progress=progress)
            answer.submit()
            answers.append(answer)
            self.add(answer)
        for answer in answers:
            await answer.begin(state.limits.queue_s)
        return answers

    def add(self, work: UnderWay) -> None:
        """Note what is done for the client; it is cancelled when the client goes, or the server stops."""
        self._under_way.append(work)
        self.state.answers.add(work)
        if self._watch is None:
            self._watch = asyncio.ensure_future(self._watch_for_the_end())

    async def _watch_for_the_end(self) -> None:
        """Stop what is written for a client that closes the connection."""
        while (await self.request.receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        for work in self._under_way:
            work.cancel()

    # --- answering --------------------------------------------------------------------------

    async def respond(self, body: Any, how: str = "200", status: int = 200, headers: Any = None) -> None:
        """Answer with JSON; `how` it ended stands in the row."""
        response = Response(as_json(body), status, headers, "application/json")
        response.raw_headers += self._warnings()
        self.started, self._status = True, status
        self.finish(how)  # before the client knows it
        await response(self.request.scope, self.request.receive, self._send)

    async def events(self, frames: AsyncIterator[bytes]) -> None:
        """Answer with events as they come."""
        self.started, self.streams, self._status = True, True, 200
        head = [(b"content-type", b"text/event-stream; charset=utf-8")]
        head += [(name.encode(), value.encode()) for name, value in _EVENTS.items()]
        head += self._warnings()
        async with self._while_it_is_read():
            await self._out({"type": "http.response.start", "status": 200, "headers": head})
            async for frame in frames:
                if self.gone:
                    return
                await self._out({"type": "http.response.body", "body": frame, "more_body": True})
            await self._out({"type": "http.response.body", "body": b"", "more_body": False})

    def _warnings(self) -> list[tuple[bytes, bytes]]:
        """Return what is to be known of the request: a misspelt keyword of its schema, say.

        A header leaves bodies as they are; Kubernetes tells of unknown fields so.
        """
        return [(b"warning", warning(note).encode()) for note in self._notes]

    async def _out(self, message: dict[str, Any]) -> None:
        """Send, and wait for a slow reader."""
        self._sending = time.monotonic()
        await self._send(message)
        self._sending = 0.0

    @contextlib.asynccontextmanager
    async def _while_it_is_read(self) -> AsyncIterator[None]:
        """Give up one who reads nothing at all. One timer for all: one an event costs as much as that."""
        most = self.state.limits.stall_s
        async with asyncio.timeout(None) as bound:
            self._look(bound, most)
            try:
                yield
            finally:
                self._looks.cancel()

    def _look(self, bound: asyncio.Timeout, most: float) -> None:
        loop = asyncio.get_running_loop()
        self._looks = loop.call_later(most / 4, self._look, bound, most)
        if self._sending and time.monotonic() - self._sending >= most:
            self.gone = True
            self._looks.cancel()
            bound.reschedule(loop.time())

    async def fail(self, error: BaseException) -> None:
        """Tell the client of an error: as the answer, or as the last event of a stream."""
        refusal = refusal_of(error)
        how = one_line(" ".join((str(refusal.status), refusal.param or "")).strip(), 60)
        if not self.started:
            await self.respond(refusal.body(), how, refusal.status, dict(refusal.headers))
        elif self.streams and not self.gone:
            self._status = refusal.status
            last = event(refusal.body())
            with contextlib.suppress(TimeoutError):
                async with self._while_it_is_read():
                    await self._out({"type": "http.response.body", "body": last, "more_body": True})
                    await self._out({"type": "http.response.body", "body": b"", "more_body": False})
        self.finish(how)

    def finish(self, how: str) -> None:
        """Say in the row how it ended."""
        self.state.log.end(self.row, "disconnected" if self.gone else how)

    def close(self) -> None:
        """Stop what is still written, and count."""
        if self._watch is not None:
            self._watch.cancel()
        for work in self._under_way:
            work.cancel()
            self.state.answers.discard(work)
        self.finish("disconnected")
        row, metrics = self.row, self.state.metrics
        metrics.answered[row.path, self._status] += 1
        metrics.seconds.add(row.done - row.came)
        if row.began:
            metrics.waited.add(row.began - row.came)
        if row.first:
            metrics.first_token.add(row.first - row.came)


Handler = Callable[[Exchange, Any], Awaitable[None]]


class Endpoint:
    """An ASGI application that answers one path: the body is read as a `kind`, `handle` does the rest."""

    def __init__(self, state: State, kind: type[Fields], handle: Handler) -> None:
        self._kind = kind
        self._state = state
        self._handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(self._state, Request(scope, receive), send)
        asked: Fields | None = None
        try:
            limits = self._state.limits
            asked = await read(exchange.request, self._kind, most=limits.body, seconds=limits.body_s)
            exchange.row.user = (getattr(asked, "user", None) or "")[:100]
            await self._handle(exchange, asked)
        except Exception as error:  # whatever it is, the client is told, and the others go on
            with contextlib.suppress(OSError):
                fields = asked.model_fields_set if asked else ()
                await exchange.fail(refusal_of(error).about(fields, self._kind.limit))
        finally:
            exchange.close()


def now() -> int:
    """Return the Unix time, in seconds."""
    return int(time.time())
