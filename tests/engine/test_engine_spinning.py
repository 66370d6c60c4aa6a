"""Whether threads that wait for each other spin: what decodes must show, and what is done then."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_gguf import Scripted
from settled import until

import llama_magic as lm
from llama_magic.engine import compute
from llama_magic.engine.native import openmp, spinning
from llama_magic.engine.native.spinning import FORGET_S, PERIOD_S, TRIAL_S, CoreUse, IdlePool, Spinning

_TASKS = Path("/proc/self/task")
_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
needs_libgomp = pytest.mark.skipif(
    not _TASKS.exists() or openmp.pools()[0] != "GCC's",
    reason="threads are counted in /proc, and llama.cpp must be built with GCC's OpenMP",
)
LONG = 3.0  # seconds: a decode on cores that others keep busy


class Machine:
    """A clock, a thread's account, the pools that were made, and what is to be looked at later."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.used = CoreUse(0.0, 0, 0)
        self.pools: list[bool] = []  # of each whether it is open
        self.later: list[Callable[[], None]] = []
        self.spinning = Spinning(lambda: self.used, self.pool, lambda _seconds, look: self.later.append(look))

    def pool(self) -> Any:
        number = len(self.pools)
        self.pools.append(True)

        class Made:
            def close(made) -> None:  # noqa: N805 - `self` is the class around it
                self.pools[number] = False

        return Made()

    def decodes(self, seconds: float, share: float, *, asked: int = 0, unasked: int = 0) -> bool:
        """Let a decode take so long, with a core for a `share` of it; return whether spinning is stopped."""
        self.spinning.decodes()
        self.now += seconds
        core, before, forced = self.used
        self.used = CoreUse(core + share * seconds, before + asked, forced + unasked)
        self.spinning.decoded()
        return self.spinning.stopped


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(spinning, "clock", lambda: made.now)
    return made


# (seconds, share of a core, switches asked for, unasked), each measured on two cores with two threads
CROWDED = [(3.09, 0.45, 1, 422), (2.96, 0.47, 2, 459), (3.36, 0.44, 2, 410)]
FREE = [(0.11, 1.0, 0, 0), (0.15, 0.97, 0, 1), (0.2, 0.81, 0, 19), (0.35, 0.77, 0, 30)]
WAITING = [(2.0, 0.1, 900, 20), (0.5, 0.02, 40, 1)]  # for a disk, for a GPU


@pytest.mark.parametrize("decode", CROWDED)
def test_a_decode_that_was_kept_off_the_cores_stops_spinning(
    decode: tuple[float, float, int, int], machine: Machine
) -> None:
    """By the first of them: the next would take as long."""
    seconds, share, asked, unasked = decode
    assert machine.decodes(seconds, share, asked=asked, unasked=unasked)


@pytest.mark.parametrize("decode", FREE + WAITING)
def test_a_decode_that_had_its_core_or_gave_it_away_does_not(
    decode: tuple[float, float, int, int], machine: Machine
) -> None:
    """Alone, beside one busy program, or while something else than a core was waited for."""
    seconds, share, asked, unasked = decode
    for _ in range(5):
        assert not machine.decodes(seconds, share, asked=asked, unasked=unasked)
    assert machine.pools == []


def test_many_short_decodes_are_judged_together(machine: Machine) -> None:
    """A token of a hundredth of a second is too short to tell; ten of them are not."""
    stopped = [machine.decodes(PERIOD_S / 7.5, 0.4, unasked=5) for _ in range(8)]
    assert stopped == [False] * 7 + [True]


def test_what_a_thread_did_before_its_first_decode_is_no_part_of_it(machine: Machine) -> None:
    """Nor is what another thread did: an account is of one thread."""
    machine.decodes(LONG, 1.0)
    machine.used = CoreUse(1000.0, 10**6, 0)  # the account of another, which was busy before
    other = threading.Thread(target=lambda: machine.decodes(LONG, 1.0))
    other.start()
    other.join()
    assert machine.pools == []


def test_spinning_is_allowed_again_where_nobody_takes_the_cores(machine: Machine) -> None:
    """Threads that sleep ask for hundreds of switches; unasked ones are those that others force."""
    machine.decodes(LONG, 0.45, unasked=400)
    for asked, unasked in [(2343, 1419), (1879, 1886), (1500, 900)]:
        assert machine.decodes(0.11, 0.5, asked=asked, unasked=unasked)
    assert machine.pools == [True]
    assert not machine.decodes(0.11, 0.8, asked=1068)
    assert machine.pools == [False]
    assert machine.decodes(LONG, 0.45, unasked=400)
    assert machine.pools == [False, True]


def test_a_wrong_guess_makes_patient(machine: Machine) -> None:
    """Each time that spinning was allowed too early, twice as many periods must show cores to spare."""

    def waits() -> int:
        """Return how many periods in a row are wanted."""
        machine.decodes(LONG, 0.45, unasked=400)
        return next(n for n in range(1, 200) if not machine.decodes(0.11, 0.8, asked=1068))

    assert [waits() for _ in range(9)] == [1, 2, 4, 8, 16, 32, 64, 64, 64]
    machine.decodes(LONG, 0.45, unasked=400)
    for _ in range(63):
        assert machine.decodes(0.11, 0.8, asked=1068)
    assert machine.decodes(0.11, 0.5, asked=1068, unasked=800)  # not in a row
    assert [machine.decodes(0.11, 0.8, asked=1068) for _ in range(64)] == [True] * 63 + [False]
    machine.now += FORGET_S
    assert waits() == 1


def test_a_trial_is_looked_at_while_its_decode_runs(machine: Machine) -> None:
    """Not one of seconds is waited for: after `TRIAL_S` it is stopped; not one that began just now."""
    machine.decodes(LONG, 0.45, unasked=400)
    machine.decodes(0.11, 0.8, asked=1068)
    assert len(machine.later) == 1
    look = machine.later.pop()
    look()  # between two decodes
    assert not machine.spinning.stopped
    machine.spinning.decodes()
    machine.now += TRIAL_S / 4
    look()
    assert not machine.spinning.stopped
    machine.now += TRIAL_S
    look()
    assert machine.spinning.stopped


def test_work_begins_without_spinning_in_a_crowd_of_which_nothing_else_is_known(machine: Machine) -> None:
    """A minute's mean is a guess: what was judged within that minute is known better."""
    machine.spinning.begin(0.9)
    assert (machine.spinning.stopped, machine.later) == (False, [])
    for _ in range(3):  # a model alone, whose threads count, too; it is looked at, once
        machine.spinning.begin(1.2)
    assert (machine.spinning.stopped, len(machine.later)) == (False, 1)
    machine.now += FORGET_S + 1
    machine.spinning.begin(2.5)
    assert machine.spinning.stopped
    assert not machine.decodes(0.11, 0.8, asked=1068)
    machine.now += FORGET_S - 1
    machine.spinning.begin(2.5)
    assert not machine.spinning.stopped
    machine.now += 2
    machine.spinning.begin(2.5)
    assert machine.spinning.stopped


class Known:
    """Stands for `spinning`, as the thread that computes asks it."""

    FORGET_S = 0.0  # so that it forgets at once

    def __init__(self, *, stopped: bool) -> None:
        self.is_stopped = stopped
        self._told: dict[threading.Thread, list[str]] = {}  # the process's own compute thread may ask, too

    def told(self, thread: threading.Thread) -> list[str]:
        """Return what `thread` said since it was asked last."""
        return self._told.pop(thread, [])

    def stopped(self) -> bool:
        return self.is_stopped

    def allow(self) -> None:
        self._told.setdefault(threading.current_thread(), []).append("allow")

    def begin(self) -> None:
        self._told.setdefault(threading.current_thread(), []).append("begin")


def test_a_thread_that_rests_for_long_forgets_that_cores_were_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks anew when it is woken."""
    known, rested = Known(stopped=True), threading.Event()
    monkeypatch.setattr(compute, "spinning", known)
    monkeypatch.setattr(compute, "IDLE_S", 0.0)
    monkeypatch.setattr(compute, "release_pool", rested.set)
    thread = compute.Compute()
    resting = threading.Thread(target=thread.rest)
    resting.start()
    rested.wait()
    thread.wake()
    resting.join()
    assert known.told(resting) in (["begin"], ["allow", "begin"])  # it may have been woken before it forgot
    monkeypatch.setattr(thread, "_heard", lambda _seconds: False)
    thread.wake()
    thread.rest()
    assert known.told(threading.current_thread()) == ["allow", "begin"]


def _tasks() -> set[str]:
    return {path.name for path in _TASKS.iterdir()}


@needs_libgomp
def test_an_idle_pool_is_as_many_threads_as_there_are_cores_and_goes_away() -> None:
    """One of Python's among them; they are gone when it is closed."""
    for _ in range(3):
        before = _tasks()
        pool = IdlePool()
        until(lambda: len(_tasks() - before) == _CORES)  # noqa: B023 - now
        pool.close()
        until(lambda: not _tasks() - before)  # noqa: B023 - now


SPIN = """
import ctypes, os, threading, time
import llama_cpp
from llama_magic.engine.native import openmp, spinning
lib = llama_cpp.llama_cpp._lib
region = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)(
    ("GOMP_parallel", lib))
used, stat = time.pthread_getcpuclockid(threading.get_ident()), f"/proc/self/task/{os.getpid()}/stat"
def asleep():
    with open(stat) as file:
        return file.read().rpartition(")")[2].split()[0] == "S"
# A region whose other thread comes when it has seen what the first does at the end meanwhile.
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def late(_data):
    if lib.omp_get_thread_num() == 1:
        began, looks = time.clock_gettime(used), 0
        while looks < 5 and time.clock_gettime(used) - began < 0.05:
            time.sleep(0.002)
            looks = looks + 1 if asleep() else 0
        print("sleeps" if looks == 5 else "spins")
region(late, None, 2, 0)
make_pool, made = openmp.make_pool, threading.Event()
openmp.make_pool = lambda threads: (make_pool(threads), made.set())
spinning._here.forbid()
made.wait()
region(late, None, 2, 0)
spinning.allow()
"""


@needs_libgomp
@pytest.mark.skipif(_CORES < 2, reason="one core, on which libgomp never spins")
def test_threads_that_wait_use_a_core_or_do_not() -> None:
    """One that waits at the end of a region uses 0.05 s of a core; beside an idle pool it sleeps."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    environment["OMP_WAIT_POLICY"] = "active"  # by default it spins for some 3 ms
    done = subprocess.run(
        [sys.executable, "-c", SPIN], capture_output=True, text=True, env=environment, timeout=600
    )
    assert not done.returncode, done.stderr
    assert done.stdout.split() == ["spins", "sleeps"]


def test_decodes_of_a_model_are_looked_at_where_it_has_threads_to_wait_for(
    scripted_file: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one thread nobody waits for another."""
    for threads in (1, 2):
        seen: list[int] = []
        looking = Machine().spinning
        monkeypatch.setattr(looking, "decoded", lambda: seen.append(1))  # noqa: B023 - within this turn
        monkeypatch.setattr(spinning, "_here", looking)
        monkeypatch.setattr(spinning, "_ours", True)
        with lm.load(scripted_file.path, ctx=256, threads=threads) as model:
            model.complete("a", max_tokens=3)
        assert bool(seen) == (threads == 2)


def test_what_the_user_has_settled_stands() -> None:
    """Whoever has said how threads wait is not overruled."""
    code = "from llama_magic.engine.native import spinning; print(spinning._ours)"
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    said = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment).stdout
        for environment in (plain, plain | {"OMP_WAIT_POLICY": "passive"}, plain | {"GOMP_SPINCOUNT": "1000"})
    ]
    counts = openmp.pools()[0] == "GCC's" and _TASKS.exists()
    assert said == [f"{counts}\n", "False\n", "False\n"]
