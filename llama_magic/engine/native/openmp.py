"""The OpenMP that llama.cpp was built with, and the pools of threads that it gives each thread that calls.

It is found through llama.cpp's own library; NumPy, PyTorch and scikit-learn bring theirs.
"""

from __future__ import annotations

import ctypes

from llama_magic.engine.native.backend import LIBRARY

# libgomp's since GCC 9; None where llama.cpp was built without OpenMP or with another one. LLVM's
# counts no threads, and pauses those of every thread.
_pause = None if hasattr(LIBRARY, "__kmpc_fork_call") else getattr(LIBRARY, "omp_pause_resource_all", None)


def release_pool() -> None:
    """End the OpenMP threads that wait for this thread's next parallel region, where the library can.

    An idle pool is not free: libgomp counts its threads, and where the pools of a process have more
    threads than there are cores, it lets nobody spin. The next region makes the threads anew (0.1 ms).
    """
    if _pause is not None:
        _pause(1)  # omp_pause_soft


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
