"""`RemoteBackend`: a server as a source of tokens. A request is a task, a sample a stream of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llama_magic.errors import (
    BackendError,
    LlamaMagicError,
    ModelClosedError,
    ServerAnswerError,
    ServerRefusedError,
    StreamCutError,
    StreamStalledError,
)
from llama_magic.remote import faults, network
from llama_magic.remote.dialect import Dialect, SampleReader, lacking
from llama_magic.remote.errand import Errand
from llama_magic.remote.forced import is_forced
from llama_magic.remote.openai import OpenAIServer
from llama_magic.remote.values import MISREAD
from llama_magic.remote.wire import ALIVE, BELIEVED, Wire
from llama_magic.request.backend import Capabilities, Expected, Sink
from llama_magic.request.events import EndEvent, Event, FinishEvent, PromptEvent, Stats, nobody
from llama_magic.request.request import Request

TAIL_S = 10.0  # for the counts and the end of a stream, after the end of the answer
_PIECES, _MORE = 8, 256  # of an answer, for each token that was asked for, and beside them


@dataclass(frozen=True)
class Abilities(Capabilities):
    """What a server can honour: what it is known to have, less what did not hold when it was tried."""

    dialect: Dialect = field(kw_only=True)

    def lacks(self, request: Request) -> str | None:
        what = super().lacks(request) or lacking(self.dialect, request.sampling)
        if what is None and request.constraint is not None and not hasattr(request.constraint, "asked"):
            what = "a constraint after a thinking part"
        if what is None and request.ignore_eos and not self.dialect.ignores_eos:
            what = "ignore_eos"
        if what is None and is_forced(request) and (request.logprobs is not None or request.begun):
            what = f"{'logprobs' if request.logprobs is not None else 'a beginning'} of a call that is forced"
        return what


class RemoteBackend:
    """A `Backend` that asks a server. `limit` is how many of our requests it is sent at once."""

    local = None

    def __init__(self, wire: Wire, dialect: Dialect, capabilities: Capabilities, limit: int) -> None:
        self.wire = wire
        self.dialect = dialect
        self.tokenizer = dialect.tokenizer
        self.capabilities = capabilities
        self._limit = limit
        self._gate: asyncio.Semaphore | None = None
        self._jobs: set[_Job] = set()
        self.errands: set[Errand[Any]] = set()
        self._closed = False
        self._process = os.getpid()

    @property
    def closed(self) -> bool:
        return self._closed

    def submit(self, request: Request, sink: Sink) -> None:
        self._check()
        request.handle = job = _Job(self, request, sink)
        network.loop().call_soon_threadsafe(job.start)

    def _check(self) -> None:
        if self._closed:
            raise ModelClosedError("The connection was closed; connect again to use it.")
        if self._process != os.getpid():
            raise ModelClosedError(
                "The connection was made in the process that this one was forked from.",
                remedy="Connect again here.",
            )

    def cancel(self, request: Request) -> None:
        if request.handle is not None:
            network.soon(request.handle.cancel)

    def settle(self, request: Request) -> None:
        """Do nothing: the network's thread sees to it at once."""

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        network.soon(self._close)

    def _close(self) -> None:
        closed = ModelClosedError("The connection was closed meanwhile.")
        for job in list(self._jobs):
            job.fail(closed)
        for errand in list(self.errands):
            errand.fail(closed)
        task = asyncio.ensure_future(self.wire.aclose())
        task.add_done_callback(lambda done: done.exception())

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector a text, as the server makes them."""
        return self.dialect.embed(texts)

    def read(self, tokens: Sequence[int]) -> list[Expected]:
        """Return what the server knows of each token of a text but the first."""
        self._check()
        found = Errand(self, lambda ask: self.dialect.read(ask, tokens)).wait()
        if found is None:
            raise BackendError(
                f"{self.wire.address.base} does not tell how likely the tokens of a text are; "
                "reading one through needs an engine in this process.",
                remedy="Load the model here, and ask again.",
            )
        return found

    def score(self, request: Request, texts: Sequence[Sequence[int]]) -> Errand[list[list[float]]]:
        """Begin to ask for the log-probability of each token of each text after the prompt."""
        self._check()
        return Errand(self, lambda ask: self.dialect.score(ask, request.prompt, texts))

    def count(self, messages: Sequence[Any]) -> int:
        """Return how many tokens the server makes of a conversation."""
        return self.dialect.count(messages)

    def learns(self, error: ServerRefusedError, sent: Mapping[str, Any], request: Request) -> bool:
        """Return whether a request that was refused can be asked otherwise, and be what it was."""
        dialect = self.dialect
        if not isinstance(dialect, OpenAIServer) or not dialect.learn(error, sent):
            return False
        if not dialect.taken.seed:
            self.capabilities = replace(self.capabilities, seeds=False)
        return self.capabilities.lacks(request) is None

    def gate(self) -> asyncio.Semaphore:
        """Return what lets through as many requests as the server is sent at once."""
        if self._gate is None:
            self._gate = asyncio.Semaphore(self._limit)
        return self._gate


@dataclass(eq=False)
class _Job:
    """A request on its way. Lives on the network's thread."""

    backend: RemoteBackend
    request: Request
    sink: Sink
    stats: Stats = field(default_factory=Stats)
    readers: list[SampleReader] = field(default_factory=list)
    _task: asyncio.Task[None] | None = None
    _cancelled: bool = False
    _error: BaseException | None = None

    def start(self) -> None:
        self.backend._jobs.add(self)
        self._task = asyncio.ensure_future(self._run())
        if self._cancelled:
            self._task.cancel()

    def cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self.cancel()

    async def _run(self) -> None:
        request = self.request
        self.readers = [self.backend.dialect.reader(request, i) for i in range(request.n)]
        try:
            await self._samples()
        except asyncio.CancelledError:
            self._interrupted()
        except BaseException as error:
            self._error = error
        self._finish()

    async def _samples(self) -> None:
        """Write all samples; the first that fails stops the others."""
        tasks = [asyncio.ensure_future(self._sample(reader)) for reader in self.readers]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(BaseException):
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _sample(self, reader: SampleReader) -> None:
        wire, request = self.backend.wire, self.request
        async with self.backend.gate():
            if not self.stats.started:
                self.stats.started = time.perf_counter()
                self.sink(PromptEvent(0, len(request.prompt), 0))
            sent: dict[str, Any] = {}
            while True:
                path, body = self.backend.dialect.question(request, request.sample_seed(reader.sample))
                try:
                    async with (
                        asyncio.timeout(None) as bound,
                        contextlib.aclosing(wire.stream(path, body)) as stream,
                    ):
                        await self._read(reader, stream, bound)
                    break
                except (StreamCutError, StreamStalledError, TimeoutError):
                    if not reader.complete:
                        raise
                    break  # no more was to come, but counts
                except ServerRefusedError as error:
                    if body == sent or not self.backend.learns(error, body, request):
                        raise
                    sent = body
            self._send(reader.last())
            reader.finish(wire.address.base)

    async def _read(self, reader: SampleReader, stream: AsyncIterator[Any], bound: asyncio.Timeout) -> None:
        """Read one answer to its end; once it is complete, that of the stream has to come soon."""
        wire = self.backend.wire
        heard = 0.0  # when something of the answer came
        async for found in stream:
            now = time.monotonic()
            if found is not ALIVE and self._send(reader.feed(found)):
                heard = now
                self._check(reader)
            heard = heard or now
            if reader.complete and bound.when() is None:
                bound.reschedule(asyncio.get_running_loop().time() + TAIL_S)
            if now - heard > BELIEVED * wire.stall_s:
                raise faults.only_alive(wire.address, now - heard)

    def _check(self, reader: SampleReader) -> None:
        """Raise where a server writes on and on: some take no `max_tokens`. A token may come in pieces."""
        if reader.pieces > _PIECES * self.request.max_tokens + _MORE:
            raise ServerAnswerError(
                f"{self.backend.wire.address.base} wrote {reader.pieces:,} pieces, where "
                f"{self.request.max_tokens:,} tokens at most were asked for, and went on.",
                remedy="What came is kept in the error's completion.",
            )

    def _send(self, made: Iterator[Event]) -> int:
        """Tell what one value of the server's means; return how many events that are."""
        try:
            events = list(made)
        except MISREAD as error:
            raise ServerAnswerError(
                f"{self.backend.wire.address.base} sends answers that its kind of server does not send "
                f"({type(error).__name__}: {error})."
            ) from None
        for event in events:
            if not self.stats.prompt_done:
                self.stats.prompt_done = time.perf_counter()
                self.sink(PromptEvent(len(self.request.prompt), len(self.request.prompt), 0))
            if not isinstance(event, FinishEvent):
                self.stats.last_token = time.perf_counter()
                self.stats.first_token = self.stats.first_token or self.stats.last_token
            self.sink(event)
        return len(events)

    def _interrupted(self) -> None:
        for reader in self.readers:
            if not reader.ended:
                self.sink(FinishEvent(reader.sample, "interrupted"))

    def _finish(self) -> None:
        self.stats.ended = time.perf_counter()
        self.stats.started = self.stats.started or self.stats.ended
        self.stats.cached_tokens = max((reader.cached_tokens for reader in self.readers), default=0)
        if self.request.messages and (not self.backend.dialect.takes_tokens or is_forced(self.request)):
            self.stats.prompt_tokens = max((reader.prompt_tokens for reader in self.readers), default=0)
            told = sum(reader.completion_tokens for reader in self.readers)
            self.stats.completion_tokens = told if len(self.readers) == 1 else 0
        self.backend._jobs.discard(self)
        error = self._error
        if error is not None and not isinstance(error, LlamaMagicError):
            base = self.backend.wire.address.base
            error = ServerAnswerError(f"Asking {base} failed: {type(error).__name__}: {error}")
        sink, self.sink = self.sink, nobody  # the request is kept with its answer; who listened is not
        sink(EndEvent(error, self.stats))
