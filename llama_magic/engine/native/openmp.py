"""The OpenMP that llama.cpp was built with, and the pools of threads that it gives each thread that calls.

It is found through llama.cpp's own library; NumPy, PyTorch and scikit-learn bring theirs.
"""

from __future__ import annotations

import ctypes
import sys
import threading

from llama_magic.engine.native.backend import LIBRARY
from llama_magic.starts import none_left

# libgomp's since GCC 9; None where llama.cpp was built without OpenMP or with another one. LLVM's
# counts no threads, and pauses those of every thread.
_pause = None if hasattr(LIBRARY, "__kmpc_fork_call") else getattr(LIBRARY, "omp_pause_resource_all", None)


class _Pool(threading.local):
    """How many threads the calling one has to compute with, itself among them, or is known to get."""

    size = 1


_pool = _Pool()


def release_pool() -> None:
    """End the OpenMP threads that wait for this thread's next parallel region, where the library can.

    An idle pool is not free: libgomp counts its threads, and where the pools of a process have more
    threads than there are cores, it lets nobody spin. The next region makes the threads anew (0.1 ms).
    """
    if _pause is not None:
        _pause(1)  # omp_pause_soft
        _pool.size = 1


def find_room(threads: int) -> None:
    """Raise `BackendError` where so many threads cannot be started: OpenMP would end the process.

    Tried once for each pool, by threads of nothing (some 50 us each). What others start right after it is
    not foreseen.
    """
    if threads > _pool.size:
        if sys.platform == "linux" and not _can_start(threads - _pool.size):
            raise none_left()
        _pool.size = threads


def _can_start(count: int) -> bool:
    libc = ctypes.CDLL(None)
    gate = ctypes.create_string_buffer(64)  # a sem_t
    libc.sem_init(gate, 0, 0)
    threads = (ctypes.c_ulong * count)()
    started = 0
    while started < count and not libc.pthread_create(
        ctypes.byref(threads, started * ctypes.sizeof(ctypes.c_ulong)), None, libc.sem_wait, gate
    ):
        started += 1
    for _ in range(started):
        libc.sem_post(gate)
    for i in range(started):
        libc.pthread_join(ctypes.c_ulong(threads[i]), None)
    libc.sem_destroy(gate)
    return started == count


def make_pool(threads: int) -> None:
    """Give this thread a pool of so many OpenMP threads, itself among them, that have nothing to do."""
    region = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    nothing = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p)
    region(("GOMP_parallel", LIBRARY))(nothing, None, threads, 0)


def pools() -> tuple[str, bool]:
    """Return whose OpenMP llama.cpp uses, and whether idle threads of it slow down who computes."""
    if not hasattr(LIBRARY, "GOMP_parallel"):
        return "none", False
    if hasattr(LIBRARY, "__kmpc_fork_call"):
        return "LLVM's", False
    return "GCC's", _pause is None
