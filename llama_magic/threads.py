"""What may wait where: finalizers and signal handlers run on any thread, between any two bytecodes.

So nothing that they can reach takes a lock that Python code holds (`threading.Event`, `Condition`
and `queue.Queue` do: the code they interrupt may be inside), and none of our own threads waits
for another one of them. What is left: attributes, atomic operations of built-in containers,
`queue.SimpleQueue`, and the two things below.
"""

from __future__ import annotations

import _thread
import contextlib
import contextvars
import math
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Self, TypeVar

from llama_magic.errors import BackendError
from llama_magic.starts import STACK, launch

T = TypeVar("T")


def at_fork(work: Callable[[], object]) -> None:
    """Have `work` called in every forked child. Windows does not fork, and has no function to ask."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=work)


_ours: set[int] = set()  # idents of threads that others wait for
at_fork(_ours.clear)
_gathering = threading.local()


class _Gathered:
    """`with gathered:` calls what `afterwards` is given on this thread at its end; not within itself."""

    def __enter__(self) -> None:
        _gathering.calls = []

    def __exit__(self, *_exc: object) -> None:
        calls, _gathering.calls = _gathering.calls, None
        for call in calls:
            call()


gathered = _Gathered()


def afterwards(call: Callable[[], object]) -> None:
    """Make a call that must not raise, at the end of what this thread gathers calls for, else now.

    One that wakes another thread takes the GIL away in the middle of a step, once for each of its answers.
    """
    calls = getattr(_gathering, "calls", None)
    if calls is None:
        call()
    else:
        calls.append(call)


_LOOK_S = 0.1  # between two looks of a thread that waits: a bounded wait keeps Ctrl-C working on Windows
_bounds = threading.local()


class Reached(KeyboardInterrupt):
    """A `Bound` of this thread is reached. Raised once: what a stopped call must still do is not bounded."""


class Bound:
    """Ends what a thread does within `with bound:`, after so many seconds or when another thread says `end`.

    It is heard where the thread waits, or calls `look`, as Ctrl-C would be. `reached` says that it was.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.until = math.inf if seconds is None else time.monotonic() + seconds
        self.reached = False
        self.outer: Bound | None = None
        self.so_far: Callable[[], Any] | None = None  # see `keep`

    def end(self) -> None:
        """Let it be reached now. Any thread."""
        self.until = -math.inf

    def __enter__(self) -> Self:
        self.outer, _bounds.innermost = getattr(_bounds, "innermost", None), self
        return self

    def __exit__(self, *_exc: object) -> None:
        _bounds.innermost = self.outer


def keep(so_far: Callable[[], Any]) -> None:
    """Have `so_far` say, to any thread that ends a bound of this one and cannot wait, what there is."""
    bound = getattr(_bounds, "innermost", None)
    while bound is not None:
        bound.so_far, bound = so_far, bound.outer


def left() -> float:
    """Return the seconds until a bound of this thread is reached. Raises `Reached` where one is."""
    least, bound = math.inf, getattr(_bounds, "innermost", None)
    while bound is not None:
        if not bound.reached:
            least = min(least, bound.until - time.monotonic())
            if least <= 0:
                bound.reached = True
                raise Reached
        bound = bound.outer
    return least


def look() -> float:
    """Return for how many seconds this thread may wait until it looks again. Raises `Reached`."""
    return min(_LOOK_S, left())


@contextlib.contextmanager
def held(lock: Any) -> Iterator[None]:
    """Hold an RLock; what bounds this thread also ends its waiting for it."""
    try:
        while not lock.acquire(timeout=look()):
            pass
        yield
    finally:
        if lock._is_owned():  # an interrupt may strike between the lock and the next bytecode
            lock.release()


class Latch:
    """Set once; then every wait is over. Safe in finalizers, in signal handlers, and beside Ctrl-C.

    (An Event holds a lock in Python code: an interrupt inside of `wait` can leave it locked for
    ever, and then the thread that calls `set` hangs.)
    """

    def __init__(self) -> None:
        self._is_set = False
        self._gate = threading.Lock()
        self._gate.acquire()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True  # first: whoever is held up at the gate looks here again
            with contextlib.suppress(RuntimeError):  # another thread was setting it, too
                self._gate.release()

    def wait(self, timeout: float) -> bool:
        """Return whether it is set, after `timeout` seconds at the latest."""
        if not self._is_set and self._gate.acquire(timeout=timeout):
            self._gate.release()
        return self._is_set

    def wait_long(self) -> None:
        """Return when it is set; Ctrl-C works meanwhile, on Windows too. Raises `Reached`."""
        while not self._is_set and not sys.is_finalizing():  # no other thread runs then
            self.wait(look())


class Bell:
    """Rings for one listener, again and again. Safe wherever a `Latch` is."""

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ring(self) -> None:
        if self._rings.empty():  # else it rings already
            self._rings.put(None)

    def wait(self, timeout: float) -> bool:
        """Return whether it rang, after `timeout` seconds at the latest."""
        with contextlib.suppress(queue.Empty):
            self._rings.get(timeout=timeout)
            return True
        return False


def module_lock() -> Any:
    """Return a lock for what a module keeps: `with` it for a few lines, and wait for no thread inside.

    Whoever interrupts its holder may take it again, and a forked child finds it free.
    """
    lock: Any = threading.RLock()
    # As the standard library does with its own; looked up where a process forks, for Windows has it not.
    at_fork(lambda: lock._at_fork_reinit())  # noqa: PLW0108 - looked up when it is called
    return lock


def of_the_cell(work: Callable[..., Any], *arguments: Any, name: str) -> threading.Thread:
    """Return a thread, not started, in the caller's context: ipykernel finds the cell of a message by it."""
    run = contextvars.copy_context().run
    return threading.Thread(target=run, args=(work, *arguments), name=name, daemon=True)


def set_going(thread: threading.Thread) -> None:
    """Start a thread, whatever Ctrl-C comes meanwhile.

    `Thread.start` waits for an Event, and an interrupt inside of that would leave the new thread waiting for
    ever. After an interrupt it may start a moment later: what ends it must be kept before this is called.
    """
    LeftBehind().run(partial(launch, thread.start))


def start_thread(work: Callable[[], Any], name: str) -> None:
    """Start a thread of our own, one that others wait for, whatever Ctrl-C comes meanwhile."""

    def run() -> None:
        ident = threading.get_ident()
        _ours.add(ident)
        try:
            work()
        finally:
            _ours.discard(ident)

    set_going(threading.Thread(target=run, name=name, daemon=True))


def may_wait() -> bool:
    """False on a thread of our own, where only a finalizer or a sink can ask."""
    return threading.get_ident() not in _ours


def despite_interrupts(work: Callable[[], T]) -> T:
    """Return what `work` returns, begun anew where an impatient further Ctrl-C breaks into it.

    For what an interrupted call still has to do: to stop, and to keep what there is. Who presses Ctrl-C
    a sixth time means it: that `KeyboardInterrupt` comes out.
    """
    for _ in range(5):
        try:
            return work()
        except KeyboardInterrupt:
            continue
    return work()


def to_its_end(work: Callable[[], object]) -> None:
    """Do `work` to its end, and anew where an interrupt breaks into it; then let the interrupt through."""
    try:
        work()
    except KeyboardInterrupt:
        despite_interrupts(work)
        raise


class LeftBehind:
    """Calls into C that cannot be stopped: an interrupt leaves a long one behind on a thread of its own."""

    def __init__(self) -> None:
        self._under_way: dict[Latch, int] = {}  # each with the thread that makes it, 0: one of its own

    def run(self, call: Callable[[], T], stack: int = STACK) -> T:
        """Return what `call` returns, or raise what it raises; Ctrl-C does not wait for it."""
        made, failed, done = list[T](), list[BaseException](), Latch()

        def work() -> None:
            try:
                made.append(call())
            except BaseException as error:
                failed.append(error)
            finally:
                self._under_way.pop(done, None)
                done.set()

        self._under_way[done] = 0
        try:
            launch(_thread.start_new_thread, work, (), stack=stack)
        except BackendError:  # no thread is left, or the interpreter ends: nobody is to wait for it
            self._under_way.pop(done, None)
            raise
        done.wait_long()
        if failed:
            raise failed[0]
        return made[0]

    def here(self, call: Callable[[], T]) -> T:
        """Return what a short `call` returns; it is made on this thread, and `finish` waits for it too."""
        done = Latch()
        try:
            self._under_way[done] = threading.get_ident()
            return call()
        finally:
            self._under_way.pop(done, None)

    def finish(self) -> None:
        """Wait for the calls that are under way, left behind or not."""
        for done, thread in list(self._under_way.items()):
            # What runs on this very thread is no longer in C: a signal handler runs between two calls.
            while done in self._under_way and thread != threading.get_ident():
                done.wait(0.01)
