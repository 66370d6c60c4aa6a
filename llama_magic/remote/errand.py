"""Questions with long answers that are not streamed: sent on the network's thread, waited for here."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from llama_magic.errors import BackendError, LlamaMagicError, ServerAnswerError, StreamCutError
from llama_magic.remote import faults, network
from llama_magic.remote.values import DONE, MISREAD
from llama_magic.remote.wire import ALIVE, BELIEVED, Wire
from llama_magic.request.backend import wait_for
from llama_magic.threads import Latch

T = TypeVar("T")
Ask = Callable[[str, Any], Awaitable[Any]]  # a path and a body: what the server answers


class Sends(Protocol):
    """What an errand asks of the backend that it is run for. `errands` are those under way."""

    wire: Wire
    errands: set[Any]

    def gate(self) -> asyncio.Semaphore: ...


class Errand(Generic[T]):
    """Some questions to a server, one after the other. `seconds` is how long they took, once they began."""

    def __init__(self, backend: Sends, work: Callable[[Ask], Awaitable[T]]) -> None:
        self.seconds = 0.0
        self._backend = backend
        self._work = work
        self._done = Latch()
        self._found: list[T] = []
        self._error: BaseException | None = None
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False
        network.loop().call_soon_threadsafe(self._start)

    @property
    def done(self) -> bool:
        return self._done.is_set()

    def wait(self) -> T:
        """Return what was found, or raise what went wrong. An interrupt hangs up."""
        try:
            wait_for(self._done)
        except BaseException:
            self.cancel()
            raise
        if self._error is not None:
            raise self._error
        return self._found[0]

    def cancel(self) -> None:
        """Hang up. Any thread, any time."""
        self._cancelled = True
        network.soon(self._stop)

    # --- on the network's thread ------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """End it with an error."""
        self._error = error
        self._cancelled = True
        self._stop()

    def _start(self) -> None:
        self._backend.errands.add(self)
        self._task = asyncio.ensure_future(self._run())
        if self._cancelled:
            self._task.cancel()

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        base = self._backend.wire.address.base
        try:
            async with self._backend.gate():
                began = time.perf_counter()
                self._found.append(await self._work(self._ask))
                self.seconds = time.perf_counter() - began
        except asyncio.CancelledError:
            self._error = self._error or BackendError(f"The question to {base} was stopped.")
        except LlamaMagicError as error:
            self._error = error
        except MISREAD as error:
            self._error = ServerAnswerError(
                f"{base} tells log-probabilities as its kind of server does not "
                f"({type(error).__name__}: {error})."
            )
        except BaseException as error:
            self._error = ServerAnswerError(f"Asking {base} failed: {type(error).__name__}: {error}")
        finally:
            self._done.set()
            self._backend.errands.discard(self)

    async def _ask(self, path: str, body: Any) -> Any:
        wire, found = self._backend.wire, None
        began = time.monotonic()
        async with contextlib.aclosing(wire.stream(path, body)) as stream:
            async for one in stream:
                if one is not ALIVE and one is not DONE:
                    found = one
                if (spent := time.monotonic() - began) > BELIEVED * wire.stall_s:
                    raise faults.only_alive(wire.address, spent)
        if found is None:
            raise StreamCutError(f"{wire.address.base} closed the connection without an answer.")
        return found
