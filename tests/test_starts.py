"""How threads of ours begin: with room on their stacks, or an error that is ours and nothing half done."""

from __future__ import annotations

import _thread
import ctypes
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_gguf import chain

import llama_magic as lm
from llama_magic import starts, weakly
from llama_magic.engine.ahead import Ahead
from llama_magic.engine.compute import Compute
from llama_magic.engine.native import openmp
from llama_magic.threads import LeftBehind, of_the_cell, set_going, start_thread

LINUX = sys.platform == "linux"


def _stack() -> int:
    """Return the size of the calling thread's stack."""
    libc, attributes, size = ctypes.CDLL(None), ctypes.create_string_buffer(128), ctypes.c_size_t()
    libc.pthread_self.restype = ctypes.c_void_p
    assert libc.pthread_getattr_np(ctypes.c_void_p(libc.pthread_self()), attributes) == 0
    libc.pthread_attr_getstacksize(attributes, ctypes.byref(size))
    return size.value


@pytest.mark.skipif(not LINUX, reason="how large a stack is, is asked of glibc")
@pytest.mark.parametrize("asked", [0, 2**16, 2**25])
def test_threads_of_ours_have_room_whatever_the_user_asks_for_his(asked: int) -> None:
    """Each kind of thread has 8 MB after `threading.stack_size(65536)` (llama.cpp ended the kernel in so
    little), more where more was asked for; what was asked for stays.
    """
    sizes: dict[str, int] = {}
    done = threading.Semaphore(0)

    def note(kind: str) -> Callable[[], None]:
        return lambda: (sizes.setdefault(kind, _stack()), done.release())[1]

    try:
        threading.stack_size(asked)
        start_thread(note("ours"), "a test")
        set_going(of_the_cell(note("of the cell"), name="a test"))
        starts.launch(_thread.start_new_thread, note("raw"), ())
        LeftBehind().run(note("in C"))
        LeftBehind().run(note("long"), 2**26)
        assert all(done.acquire(timeout=600) for _ in range(5))
    finally:
        kept = threading.stack_size(0)
    assert kept == asked
    least = max(asked, starts.STACK)
    assert sizes.pop("long") >= 2**26
    assert len(sizes) == 4
    assert min(sizes.values()) >= least, sizes


@pytest.fixture
def none_left(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let no thread be started within the context that this gives."""

    def refuse(*_given: object) -> int:
        raise RuntimeError("can't start new thread")

    def made() -> Any:
        context = monkeypatch.context()
        patch = context.__enter__()
        patch.setattr(_thread, "start_new_thread", refuse)
        patch.setattr(threading, "_start_new_thread", refuse)
        patch.setattr(openmp, "_can_start", lambda count: False)
        return context

    return made


def test_calls_without_a_thread_are_told_and_lose_nothing(scripted_model: Any, none_left: Any) -> None:
    """Where no thread can be started (OpenMP ended the process then) calls are a BackendError that says
    what to raise; afterwards the same model answers. It is closed by its caller's own thread.
    """
    model = scripted_model(chain("a", "b", "c"), options={"threads": 2})
    answer = model.complete("a", max_tokens=2).text
    model.backend.call(lambda core: openmp.release_pool())
    context = none_left()
    for call in (
        lambda: model.complete("a", max_tokens=2),
        lambda: model.complete("a", max_tokens=2, timeout=60),
        lambda: model.structured("a", {"enum": ["a", "b"]}, max_tokens=9),
    ):
        with pytest.raises(lm.BackendError, match=r"(?s)can start no further thread.*`ulimit -u`"):
            call()
    context.__exit__(None, None, None)
    assert model.complete("a", max_tokens=2).text == answer == "bc"
    context = none_left()
    model.close()
    context.__exit__(None, None, None)
    assert model.closed


def test_what_can_go_on_without_a_thread_goes_on(none_left: Any) -> None:
    """Masks are left to who applies them; threads that compute and that bury are started by the next call."""
    ahead, work, undertaker = Ahead(), Compute(), weakly._Undertaker()
    context = none_left()
    ahead.start([])
    ahead.wait()
    with pytest.raises(lm.BackendError):
        work.add(lambda: False)  # type: ignore[arg-type]
    undertaker.add(ahead, lambda: None)
    context.__exit__(None, None, None)
    assert not work._workers
    told = threading.Event()
    undertaker.add(work, told.set)
    del work
    assert told.wait(600)


@pytest.mark.skipif(not LINUX, reason="tried where OpenMP is libgomp")
def test_whether_threads_can_be_started_is_tried() -> None:
    """64 more are there, and are not in a process that may map no further stack."""
    assert openmp._can_start(64)
    child = os.fork()
    if child == 0:
        import resource

        try:
            mapped = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            resource.setrlimit(resource.RLIMIT_AS, (mapped + 2**20, resource.RLIM_INFINITY))
            os._exit(3 if openmp._can_start(64) else 42)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
