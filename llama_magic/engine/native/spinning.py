"""How threads that compute wait for each other: spinning while cores are free, asleep where they are not.

libgomp's threads spin for some 3 ms at each of the hundreds of barriers of a graph. Where other programs keep
the cores busy, the thread that is waited for has no core, for those that spin hold it: of two kernels at once
on two cores each wrote 10 tokens a second, beside further work 0.1 to 0.6. Where they sleep at once it was 45
and 25; alone, though, sleeping costs more than half (37 of 95).

libgomp lets nobody spin while a process has more OpenMP threads than there are cores. So a pool of threads
that do nothing is made where decodes show that cores are short, and ended when they show that no longer.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from llama_magic.engine.native import openmp
from llama_magic.errors import BackendError
from llama_magic.threads import at_fork, start_thread

try:
    import resource
except ImportError:  # Windows, whose OpenMP counts no threads
    resource = None  # type: ignore[assignment]

clock = time.perf_counter
PERIOD_S = 0.1  # of decoding, after which is judged; one long decode is a period of its own
TRIAL_S = 0.3  # a decode that takes so long, when spinning was just allowed, is looked at while it runs
FORGET_S = 60.0  # after which a judgement is old
_SHORT = 0.6  # of a period: a thread that had a core for less was kept waiting
_LEAST, _MOST = 1, 64  # periods in a row that must show cores to spare
_CROWD = 1.75  # threads for each core that want it, a minute's mean; a model alone comes to one


class CoreUse(NamedTuple):
    """What a thread has used so far: seconds of a core, and switches to others, asked for or not."""

    core: float
    asked: int
    unasked: int


class Spinning:
    """Whether the threads of a process may spin, by what decodes cost the thread that waits for them."""

    def __init__(
        self,
        measure: Callable[[], CoreUse],
        pool: Callable[[], IdlePool],
        later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._measure, self._pool, self._later = measure, pool, later
        self._idle: IdlePool | None = None
        self._making = threading.Lock()
        self._thread = 0
        self._before = CoreUse(0.0, 0, 0)
        self._spent = 0.0  # seconds of decoding since
        self._began = 0.0  # when the decode that runs did; 0: none does
        self._judged = self._allowed = -FORGET_S  # when
        self._patience, self._spare = _LEAST, 0  # periods with cores to spare: wanted, and seen in a row

    @property
    def stopped(self) -> bool:
        """Whether nobody spins."""
        return self._idle is not None

    def decodes(self) -> None:
        """Note that the calling thread begins to decode."""
        self._began = clock()

    def decoded(self) -> None:
        """Note that it is done, and judge where a period is over."""
        self._spent += clock() - self._began
        self._began = 0.0
        if self._spent < PERIOD_S:
            return
        if self._thread != threading.get_ident():
            self._thread, self._before = threading.get_ident(), CoreUse(0.0, 0, 0)
        before, self._before = self._before, self._measure()
        core, asked, unasked = (now - then for now, then in zip(self._before, before, strict=True))
        self._judge(core / self._spent, int(asked), int(unasked))
        self._spent = 0.0

    def _judge(self, share: float, asked: int, unasked: int) -> None:
        self._judged = clock()
        if self._idle is not None:
            # Of 500 switches a token 200 and more are unasked where cores are short, else none of 180.
            self._spare = 0 if 4 * unasked > asked else self._spare + 1
            if self._spare >= self._patience:
                self._try()
        elif share < _SHORT and unasked > asked:
            # A disk or a GPU that is waited for takes the core away, too; but that is asked for.
            self._refuse()

    def _try(self) -> None:
        """Let threads spin. Where cores are very short, few switches are unasked, too: it may be wrong."""
        self._allowed = clock()
        self.allow()
        self._later(TRIAL_S, self._look)

    def _look(self) -> None:
        if self._began and clock() - self._began > TRIAL_S / 2 and self._idle is None:
            self._refuse()

    def _refuse(self) -> None:
        soon = clock() - self._allowed < FORGET_S  # after it was allowed: a wrong guess
        self._patience = min(2 * self._patience, _MOST) if soon else _LEAST
        self.forbid()

    def begin(self, crowd: float) -> None:
        """Note that work begins after a rest, where so many threads for each core want it."""
        # A decode that has to show it takes seconds. Where one was looked at, the mean is old news.
        if crowd > 1 and clock() - self._judged > FORGET_S:
            self._judged = clock()
            if crowd > _CROWD:
                self.forbid()
            else:
                self._later(TRIAL_S, self._look)

    def forbid(self) -> None:
        """Let nobody spin, until a decode shows that there are cores to spare."""
        if self._idle is None and self._making.acquire(blocking=False):  # else another thread does
            try:
                self._idle, self._spare = self._pool(), 0
            finally:
                self._making.release()

    def allow(self) -> None:
        """Let threads spin again."""
        idle, self._idle = self._idle, None
        if idle is not None:
            idle.close()


class IdlePool:
    """As many OpenMP threads as there are cores, which do nothing: with any two others they are more."""

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[None] = queue.SimpleQueue()
        with contextlib.suppress(BackendError):
            start_thread(self._hold, "llama_magic idle pool")

    def _hold(self) -> None:
        cores = len(os.sched_getaffinity(0))
        with contextlib.suppress(BackendError):  # no threads are left: then all spin as before
            openmp.find_room(cores)
            openmp.make_pool(cores)
        self._ended.get()  # it ends with the thread that made it

    def close(self) -> None:
        self._ended.put(None)


def _later(seconds: float, work: Callable[[], None]) -> None:
    def run() -> None:
        time.sleep(seconds)
        work()

    with contextlib.suppress(BackendError):  # no thread is left to look
        start_thread(run, "llama_magic trial")


def _usage() -> CoreUse:
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return CoreUse(used.ru_utime + used.ru_stime, used.ru_nvcsw, used.ru_nivcsw)


# Where the library counts threads and the system switches, and nobody has said how threads are to wait.
_ours = (
    openmp.pools()[0] == "GCC's"
    and hasattr(resource, "RUSAGE_THREAD")
    and not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys()
)
_here = Spinning(_usage, IdlePool, _later)


def decodes(threads: int) -> None:
    """Note that the calling thread begins to decode, with so many; one has none to wait for."""
    if _ours and threads != 1:
        _here.decodes()


def decoded(threads: int) -> None:
    """Note that it is done."""
    if _ours and threads != 1:
        _here.decoded()


def begin() -> None:
    """Note that work begins after a rest."""
    if _ours:
        _here.begin(os.getloadavg()[0] / len(os.sched_getaffinity(0)))


def stopped() -> bool:
    """Whether the threads of this process sleep while they wait, for want of cores."""
    return _here.stopped


def allow() -> None:
    """Let threads spin again, until a decode shows that cores are short."""
    _here.allow()


def _after_fork() -> None:
    """Begin anew in a forked child: the parent's pool is not there."""
    global _here
    _here = Spinning(_usage, IdlePool, _later)


at_fork(_after_fork)
