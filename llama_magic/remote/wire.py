"""HTTP to one server: short questions on the calling thread, streams on the one thread that all share."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from llama_magic.errors import ServerBusyError, ServerError, ServerLoadingError, ServerUnreachableError
from llama_magic.remote import faults, network
from llama_magic.remote.address import Address
from llama_magic.remote.patience import Patience
from llama_magic.remote.values import DONE, MISREAD, Values, decoded, sent
from llama_magic.sources.http.settings import certificates, read_settings
from llama_magic.threads import left, look
from llama_magic.words.harmless import one_line

CONNECT_S = 10.0
ASK_S = 60.0  # of silence, in a short question
BELIEVED = 4  # a server that sends signs of life alone has so many times as long as a silent one
MOST_BODY = 64 << 20
MOST_WORDS = 64 << 10  # bytes of what a server says of an error
_LAST_S = 1.0  # for what comes when all has been said
TRIES = 4
LONGEST_PAUSE_S = 30.0  # that a server's Retry-After is followed; who asks for more is not asked again
ALIVE: dict[str, Any] = {}  # stands for bytes that hold no value: a comment, half of a line
_AGAIN = (ServerBusyError, ServerLoadingError)
# Servers close a connection that rested for five seconds, perhaps just as a request is on its way there.
_RESTS_S = 2.0
_UNREAD = "without sending a response"  # httpx's words for that: nobody took the request


class Wire:
    """The connection to a server. Safe to use from any thread.

    `stall_s` is how long a stream may be silent; reading a long prompt is silent, too.
    """

    def __init__(self, address: Address, stall_s: float = 300.0) -> None:
        self.address = address
        self.stall_s = stall_s
        limits = httpx.Limits(keepalive_expiry=_RESTS_S)
        with read_settings():
            self._options: Any = {
                "follow_redirects": False,  # the key is for this address alone
                "trust_env": not address.local,
                "verify": certificates() if address.secure else False,  # without TLS there is none to check
            }
            timeout = httpx.Timeout(ASK_S, connect=CONNECT_S)
            self._sync = httpx.Client(timeout=timeout, limits=limits, **self._options)
        self._async: httpx.AsyncClient | None = None
        self._patience = Patience()
        self._noting = {"trace": self._patience.note}
        self._turn: threading.Lock | None = None

    def take_turns(self) -> None:
        """Send one request at a time from now on, short questions and streams alike."""
        self._turn = threading.Lock()

    @contextlib.contextmanager
    def _in_turn(self) -> Iterator[None]:
        """Wait for the stream that runs; what reads that stream asks at once, or it would wait for itself."""
        turn = None if network.is_here() else self._turn
        while turn is not None and not turn.acquire(timeout=look()):
            pass  # a bounded wait keeps Ctrl-C working on Windows
        try:
            yield
        finally:
            if turn is not None:
                turn.release()

    @contextlib.asynccontextmanager
    async def _stream_in_turn(self) -> AsyncIterator[None]:
        while self._turn is not None and not self._turn.acquire(blocking=False):  # noqa: ASYNC110 - of threads
            await asyncio.sleep(0.002)
        try:
            yield
        finally:
            if self._turn is not None:
                self._turn.release()

    # --- short questions --------------------------------------------------------------------

    def ask(
        self, path: str, body: Any = None, *, take: Callable[[Any], Any] | None = None, patient: bool = False
    ) -> Any:
        """Return the JSON that the server answers, or what `take` takes of it; with a `body` it is posted.

        Raises a `ServerError`, also where `take` fails on an answer of another shape. `patient`: one that
        is busy or loading is asked again, as it says.
        """
        began = 0
        while True:
            try:
                with self._in_turn():
                    return self._taken(path, self._ask(path, body), take)
            except _AGAIN as error:
                began += 1
                if not patient or began >= TRIES or _too_long(error):
                    raise
                time.sleep(pause(error, began))

    def _taken(self, path: str, found: Any, take: Callable[[Any], Any] | None) -> Any:
        try:
            return found if take is None else take(found)
        except MISREAD as error:
            words = f"JSON of another shape ({type(error).__name__}: {error})"
            raise faults.no_answer(self.address, path, one_line(words, 200)) from None

    def _ask(self, path: str, body: Any) -> Any:
        url = self.address.url(path)
        method = "GET" if body is None else "POST"
        how: Any = {**sent(body, self.address.headers()), "extensions": self._noting}
        with self._patience.within(min(BELIEVED * ASK_S, left())) as late:
            try:
                with self._sync.stream(method, url, **how) as response:
                    self._readable(response, path)
                    data = _bounded(response)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                if not late:
                    raise faults.of_transport(self.address, error, False) from None
        if late:
            left()
            raise faults.too_slow(self.address, path, BELIEVED * ASK_S)
        if response.status_code != 200:
            raise _after(faults.of_status(self.address, response.status_code, data), response)
        try:
            found = decoded(data)
        except ValueError:
            kind = response.headers.get("content-type", "nothing")
            raise faults.no_answer(self.address, path, f"no JSON but {kind}") from None
        if isinstance(found, dict) and found.get("error"):  # as LM Studio says that it has no such path
            raise faults.of_status(self.address, 200, data)
        return found

    def _readable(self, response: httpx.Response, path: str) -> None:
        """Raise for a body that is packed otherwise than we asked for: httpx gives its bytes as they are."""
        asked = self._sync.headers["accept-encoding"]
        packed = response.headers.get("content-encoding", "identity").lower()
        if packed != "identity" and any(way.strip() not in asked for way in packed.split(",")):
            words = f"a body packed as {one_line(packed, 40)}, where {asked} was asked for"
            raise faults.no_answer(self.address, path, words)

    # --- streams ----------------------------------------------------------------------------

    async def stream(self, path: str, body: Any) -> AsyncGenerator[Any, None]:
        """Yield each JSON value of a stream, server-sent events or one a line; ends at its end.

        `ALIVE` stands for what came and holds no value.
        What fails before anything came is tried again where that is safe: no answer is asked for twice.
        """
        tries = 0
        while True:
            tries += 1
            begun = False
            try:
                async with self._stream_in_turn():
                    async for found in self._stream(path, body):
                        begun = True
                        yield found
                return
            except (ServerUnreachableError, *_AGAIN) as error:
                cause = error.__cause__
                connected = not isinstance(cause, (httpx.ConnectError, httpx.ConnectTimeout))
                connected = connected and not (isinstance(cause, httpx.ReadError) or _UNREAD in str(cause))
                if begun or tries >= TRIES or _too_long(error) or (error.status is None and connected):
                    raise
                await asyncio.sleep(pause(error, tries))

    async def _stream(self, path: str, body: Any) -> AsyncIterator[Any]:
        if self._async is None:
            timeout = httpx.Timeout(self.stall_s, connect=CONNECT_S, pool=None)
            limits = httpx.Limits(max_connections=256, keepalive_expiry=_RESTS_S)
            with read_settings():
                self._async = httpx.AsyncClient(timeout=timeout, limits=limits, **self._options)
        begun = False
        try:
            url = self.address.url(path)
            asked = self._async.stream("POST", url, **sent(body, self.address.headers()))
            async with self._headed(asked) as response:
                if response.status_code != 200:
                    data = await _words(response)
                    raise _after(faults.of_status(self.address, response.status_code, data), response)
                self._readable(response, path)
                values = Values(
                    functools.partial(faults.no_answer, self.address, path),
                    functools.partial(faults.of_words, self.address),
                    events="text/event-stream" in response.headers.get("content-type", ""),
                )
                pieces = response.aiter_bytes()
                async for piece in pieces:
                    begun = begun or bool(piece)
                    found = ALIVE
                    for found in values.feed(piece):
                        yield found
                        if found is DONE:
                            await _rest(pieces)
                            return
                    if found is ALIVE:
                        yield found
                for found in values.end():
                    yield found
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise faults.of_transport(self.address, error, begun) from error

    @contextlib.asynccontextmanager
    async def _headed(
        self, asked: AbstractAsyncContextManager[httpx.Response]
    ) -> AsyncIterator[httpx.Response]:
        """Give an answer whose head came in time; a head that trickles is never silent."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(BELIEVED * self.stall_s):
                    response = await stack.enter_async_context(asked)
            except TimeoutError:
                raise faults.only_alive(self.address, BELIEVED * self.stall_s) from None
            yield response

    async def aclose(self) -> None:
        """Close the streams' connections; on the thread that they run on."""
        if self._async is not None:
            await self._async.aclose()

    def close(self) -> None:
        """Close the connections of short questions."""
        self._sync.close()


def _after(error: ServerError, response: httpx.Response) -> ServerError:
    """Note on the error how long the server asks us to wait: seconds, or a date by its own clock."""
    said = response.headers.get("retry-after", "")
    try:
        error.retry_after = max(0.0, float(said))  # of no number: 0
    except ValueError:
        then = _moment(said)
        now = _moment(response.headers.get("date", "")) or time.time()
        error.retry_after = max(0.0, then - now) if then is not None else None
    if _too_long(error):
        faults.add_wait(error)
    return error


def _too_long(error: ServerError) -> bool:
    """Whether the server asks us to wait for longer than is done."""
    return (error.retry_after or 0.0) > LONGEST_PAUSE_S


def _moment(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def pause(error: ServerError, tries: int) -> float:
    """Return the seconds to wait before the next try: what the server says, else longer each time."""
    return 0.25 * 2.0**tries if error.retry_after is None else error.retry_after


def _bounded(response: httpx.Response) -> bytes:
    pieces, size = [], 0
    for piece in response.iter_bytes():
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BODY:
            break
    return b"".join(pieces)


async def _words(response: httpx.Response) -> bytes:
    """Return the beginning of the body of a refusal, as much as is shown of it."""
    data = b""
    with contextlib.suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(_LAST_S):
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > MOST_WORDS:
                    break
    return data


async def _rest(pieces: AsyncIterator[bytes]) -> None:
    """Read to the end of a stream whose last event came, so that the connection can be used again.

    A server that does not end it is left after a moment; what it still sends is nothing.
    """
    with contextlib.suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(_LAST_S):
            async for _ in pieces:
                pass
