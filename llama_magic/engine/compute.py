"""The one thread of a process that computes: every loaded model is decoded on it, in turn.

llama.cpp built with OpenMP gives each thread that calls it a pool of its own. Once the pools of a
process have more threads than there are cores, libgomp stops spinning, and every node of every graph
waits for a futex: a model falls from 100 to 35 tokens a second because another one was used before.
With one thread there is one pool. Models cannot compute at once on the same cores anyway, and a
thread for each that handed its batches over would pay two wake-ups a token (0.3 ms, measured).
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Protocol

from llama_magic.engine.native import release_pool, spinning
from llama_magic.errors import BackendError
from llama_magic.threads import at_fork, start_thread

# The pool of an idle thread slows every other user of OpenMP in the process as well (to a third,
# measured), so it is given back. Not at once: a next request often follows the last.
IDLE_S = 0.05


class Worker(Protocol):
    """Something with work for the shared thread."""

    def turn(self) -> bool:
        """Do what is due; return whether more is due. Must not raise.

        One step at most, or more while the worker `may_go_on`.
        """


class Compute:
    """Gives each worker a turn, one after the other. The thread starts with the first worker."""

    def __init__(self) -> None:
        self._workers: list[Worker] = []
        self._busy: set[Worker] = set()  # those whose last turn left something to do
        self._alone: Worker | None = None  # the only one of them, after a round in which nobody rang
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.quiet: Callable[[], bool] = self._bell.empty  # whether nobody rings
        self._taken = threading.Lock()  # by the thread, once and for all
        self._ident = 0

    def add(self, worker: Worker) -> None:
        """Give `worker` turns from now on."""
        self._workers.append(worker)
        if not self._taken.locked():
            try:
                start_thread(self._run, "llama_magic compute")
            except BackendError:
                self.remove(worker)
                raise

    def remove(self, worker: Worker) -> None:
        """Give `worker` no more turns; a turn that has begun goes on."""
        with contextlib.suppress(ValueError):
            self._workers.remove(worker)
        self._busy.discard(worker)
        if self._alone is worker:
            self._alone = None

    def busy_beside(self, worker: Worker) -> bool:
        """Whether another worker has work, too."""
        return bool(self._busy - {worker})

    def may_go_on(self, worker: Worker) -> bool:
        """Whether no other worker has anything to do, and nobody has rung since that was found."""
        return self._alone is worker and self.quiet()

    def wake(self) -> None:
        """Say that there is work. Any thread, also while garbage is collected: it takes no lock."""
        if self._bell.empty():  # else it rings already, and what was asked is seen when it is heard
            self._bell.put(None)

    @property
    def here(self) -> bool:
        """Whether the caller runs on the shared thread."""
        return threading.get_ident() == self._ident

    def _run(self) -> None:
        if not self._taken.acquire(blocking=False):
            return  # two first models at once, or after an interrupt: the other thread was faster
        self._ident = threading.get_ident()
        while True:
            more = self._round()
            self._alone = None
            if not more:
                self.rest()
            rung = self._bell.qsize()
            for _ in range(rung):  # what rings meanwhile counts for the next round
                self._bell.get()
            if more and not rung:
                self._note_alone()

    def _round(self) -> bool:
        """Give each worker a turn. A method of its own: an idle thread keeps no worker alive."""
        for worker in tuple(self._workers):
            if worker.turn():
                self._busy.add(worker)
            else:
                self._busy.discard(worker)
        # One that was removed between its turn and here would keep the thread spinning for ever.
        self._busy.intersection_update(self._workers)
        return bool(self._busy)

    def _note_alone(self) -> None:
        busy = tuple(self._busy)
        self._alone = busy[0] if len(busy) == 1 else None
        if self._alone not in self._workers:  # removed meanwhile, and not to be held
            self._alone = None

    def rest(self) -> None:
        """Wait for the bell."""
        if not self._heard(IDLE_S):
            release_pool()
            # To find anew that cores are short takes a decode of seconds, so it is kept in mind for a while.
            if not spinning.stopped() or not self._heard(spinning.FORGET_S):
                spinning.allow()
                self._bell.get()
        spinning.begin()

    def _heard(self, seconds: float) -> bool:
        """Wait for the bell; return whether it rang in time."""
        with contextlib.suppress(queue.Empty):
            self._bell.get(timeout=seconds)
            return True
        return False


_shared = Compute()


def shared() -> Compute:
    """Return the compute thread of this process."""
    return _shared


def _after_fork() -> None:
    """Begin anew in a forked child: the parent's thread is not there, nor are its models."""
    global _shared
    _shared = Compute()


at_fork(_after_fork)
