"""What other users of the processor cost a model: models that are loaded, OpenMP loops, a second kernel.

    python benchmarks/bench_pools.py [--rounds N] [--threads N] [MODEL.gguf …]

The first side is the model alone in its process. "rests" means used before, now idle.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from bench_decode import speed
from harness import Bench, Options, Side, main

TOKENS = 96


def _answer(model: Any) -> float:
    stream = model.complete(
        "Once upon a time", stream=True, max_tokens=TOKENS, temperature=0, ignore_eos=True, reuse=False
    )
    return speed(token for chunk in stream for token in chunk.token_ids)


def _loop(threads: int) -> Callable[[], None]:
    """Return an OpenMP loop in C, about a millisecond long: the length of a long text, by each thread."""
    import llama_cpp

    library = llama_cpp.llama_cpp._lib
    library.GOMP_parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    text = ctypes.create_string_buffer(b"x" * 20_000_000)
    length = ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p)
    return lambda: library.GOMP_parallel(length, ctypes.addressof(text), threads, 0)


def _measure(
    options: Options, others: int = 0, beside: Callable[[], Any] = contextlib.nullcontext
) -> dict[str, float]:
    import llama_magic as lm

    with contextlib.ExitStack() as stack:
        model = stack.enter_context(lm.load(options.model, ctx=1024, threads=options.threads))
        for number in range(others):
            other = lm.load(options.model, ctx=256 * (number + 2) + 512, threads=options.threads)
            _answer(stack.enter_context(other))
        _answer(model)
        with beside():
            return {"greedy": _answer(model)}


def alone(options: Options) -> dict[str, float]:
    return _measure(options)


def one(options: Options) -> dict[str, float]:
    return _measure(options, 1)


def three(options: Options) -> dict[str, float]:
    return _measure(options, 3)


def loop_rests(options: Options) -> dict[str, float]:
    run = _loop(options.threads)

    @contextlib.contextmanager
    def used() -> Iterator[None]:
        run()
        yield

    return _measure(options, beside=used)


def loop_runs(options: Options) -> dict[str, float]:
    run = _loop(options.threads)

    @contextlib.contextmanager
    def running() -> Iterator[None]:
        stop = threading.Event()

        def work() -> None:
            while not stop.is_set():
                run()

        thread = threading.Thread(target=work)
        thread.start()
        yield
        stop.set()
        thread.join()

    return _measure(options, beside=running)


_KERNEL = """
import sys
import llama_magic as lm
model = lm.load(sys.argv[1], ctx=1024, threads=int(sys.argv[2]))
while True:
    model.complete("a", max_tokens=64, ignore_eos=True)
    print("ready", flush=True)
"""


def _kernel(options: Options, threads: int) -> dict[str, float]:
    @contextlib.contextmanager
    def running() -> Iterator[None]:
        command = [sys.executable, "-c", _KERNEL, options.model, str(threads)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield
            process.kill()

    return _measure(Options(options.model, threads), beside=running)


@contextlib.contextmanager
def _busy(count: int) -> Iterator[None]:
    """Keep so many cores busy meanwhile, each with a program of its own."""
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def busy_core(options: Options) -> dict[str, float]:
    return _measure(options, beside=lambda: _busy(1))


def busy_cores(options: Options) -> dict[str, float]:
    return _measure(options, beside=lambda: _busy(os.cpu_count() or 1))


def kernels(options: Options) -> dict[str, float]:
    return _kernel(options, options.threads)


def kernels_one_thread(options: Options) -> dict[str, float]:
    return _kernel(options, 1)


BENCH = Bench(
    "pools",
    "A model beside other users of the processor",
    "tokens a second",
    [
        Side("alone", alone),
        Side("another model rests", one),
        Side("three models rest", three),
        Side("an OpenMP loop rests", loop_rests),
        Side("an OpenMP loop runs", loop_runs),
        Side("another program computes", busy_core),
        Side("as many as there are cores compute", busy_cores),
        Side("a second kernel writes", kernels),
        Side("a second kernel writes, one thread each", kernels_one_thread),
    ],
)

if __name__ == "__main__":
    main(BENCH)
