"""What other threads tell an asyncio loop, and what a loop that waits for it does at a Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

from llama_magic.errors import BackendError
from llama_magic.threads import afterwards
from llama_magic.weakly import WeakTable

_BEAT = 0.1  # seconds
_CELL = "run_cell_async"  # the coroutine in which IPython runs a cell


class Box(Protocol):
    """What things are put into on the loop, as an `asyncio.Queue`."""

    def put_nowait(self, item: Any, /) -> None: ...


class Mail:
    """Carries what other threads tell into a loop: one wake-up for all that waits, and for all of a step."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._waiting: deque[tuple[Box, Any]] = deque()
        self._called = False
        self._awaited = 0  # by how many
        self._beating = False

    def check(self) -> None:
        """Raise where another loop runs than the one that this goes to: what waits there waits for ever."""
        if asyncio.get_running_loop() is not self._loop():
            raise BackendError(
                "The answer was begun in another event loop, which alone is told of its tokens.",
                remedy="Begin and read it in one asyncio.run(…), or iterate model.complete(…, stream=True).",
            )

    def put(self, box: Box, thing: Any) -> None:
        """Put a thing into a box of the loop. Any thread. RuntimeError where the loop is closed."""
        self._waiting.append((box, thing))
        if not self._called:
            loop = self._loop()
            if loop is None or loop.is_closed():
                raise RuntimeError("The loop is closed.")
            self._called = True
            afterwards(self._ring)

    def _ring(self) -> None:
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._empty)
        except RuntimeError:  # it was closed meanwhile: whoever puts something next hears of it
            self._called = False

    def _empty(self) -> None:
        self._called = False  # first: what comes from here on calls again, or is taken now
        while self._waiting:
            box, thing = self._waiting.popleft()
            box.put_nowait(thing)

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Have an interrupt reach whoever waits, in a kernel and in a terminal's IPython.

        A kernel's handler cancels what a cell awaits and wakes nothing: while a long prompt is read, which
        sends no mail, the loop would sleep on, so it turns ten times a second. In a terminal Python's own
        handler would raise out of the sleeping loop, and the cell's task would wait on in it, and go on at
        the next cell's `await`: there the cell is cancelled as a kernel does it.
        """
        self._awaited += 1
        if threading.current_thread() is threading.main_thread():
            if not self._beating:
                self._beat()
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            self._awaited -= 1
            if not self._awaited:
                self._let_go()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._let_go()  # the next one is Python's own again: the loop may never turn
        loop = self._loop()
        tasks = [] if loop is None else asyncio.all_tasks(loop)
        cells = [task for task in tasks if getattr(task.get_coro(), "__name__", "") == _CELL]
        if loop is None or not cells:  # a script, which has its own ways
            signal.default_int_handler(number, frame)
        for cell in cells:
            loop.call_soon_threadsafe(cell.cancel)

    def _let_go(self) -> None:
        if signal.getsignal(signal.SIGINT) == self._interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _beat(self) -> None:
        loop = self._loop()
        self._beating = self._awaited > 0 and loop is not None
        if self._beating and loop is not None:
            loop.call_later(_BEAT, self._beat)


_mails: WeakTable[asyncio.AbstractEventLoop, Mail] = WeakTable()


def mail() -> Mail:
    """Return what carries things into the running loop."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise BackendError(
            "No asyncio event loop runs here, and the calls for `await` need one.",
            remedy="Under trio or curio call model.complete(…) in a thread: trio.to_thread.run_sync.",
        ) from None
    return _mails.get(loop) or _mails.put(loop, Mail(loop))
