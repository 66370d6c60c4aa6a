"""What finalizers may do, in a process of its own with a watchdog: arguments are FILE, SECONDS, CASE=COUNT…

A process that hangs writes the stacks of its threads and ends with 1.
"""

from __future__ import annotations

import faulthandler
import gc
import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import llama_magic as lm
from llama_magic.loading.weights import in_memory

ENDLESS: dict[str, Any] = {"stream": True, "max_tokens": 300, "ignore_eos": True}


def die(model: Any) -> None:
    """Let a stream die in a cycle: frame -> exception -> traceback -> frame -> stream."""
    stream = model.complete("a", **ENDLESS)
    try:
        for _ in stream:
            raise ValueError
    except ValueError as error:
        kept = error  # noqa: F841 - it keeps the frames alive


def cycles(model: Any, count: int) -> None:
    """Streams die in cycles, under the default thresholds and with a collection at every chance."""
    for i in range(count):
        gc.set_threshold(*((700, 10, 10) if i % 2 else (1, 1, 1)))
        die(model)


def on_the_engine(model: Any, count: int) -> None:
    """They are collected on the engine's own thread, with generators that wait when they are closed."""

    def reader() -> Any:
        with model.complete("a", **ENDLESS) as stream:
            yield from stream

    gc.disable()
    for _ in range(count):
        die(model)
        generator = reader()
        next(generator)
        cycle: list[Any] = [generator]
        cycle.append(cycle)
        del generator, cycle
        assert model.backend.call(lambda _core: gc.collect()) > 0
    gc.enable()


def at_every_step(model: Any, count: int) -> None:
    """At every bytecode that the engine's threads run, what a finalizer calls is called."""
    dead = model.complete("a", **ENDLESS)
    dead.cancel()
    running: list[Any] = []
    turns = itertools.count()
    wishes: list[Any] = []
    calls = _at_every_bytecode(model, wishes)
    wishes.extend(
        (
            dead.cancel,
            lambda: model.backend.cancel(dead.request),
            lambda: next(turns) % 97 == 0 and (_refused(lambda: model.kv), _refused(dead.run)),
            lambda: running and running[0].request.handle.stats.generated > 12 and running[0].cancel(),
        ),
    )
    for i in range(count):
        options = ENDLESS | {"max_tokens": 20, "seed": i if i % 2 else None}
        running[:] = [model.complete("a", **options)]
        text = "".join(chunk.delta for chunk in running[0])
        assert set(text) == {"a", "b"}
    wishes.clear()
    assert calls() > 1000


def _refused(call: Callable[[], Any]) -> None:
    try:
        call()
    except lm.BackendError:
        return
    raise AssertionError("it was not refused")


def _at_every_bytecode(model: Any, calls: Any) -> Callable[[], int]:
    """Trace the engine's thread; return what counts how often `calls` were made."""
    made = [0]
    inside = threading.local()

    def trace(frame: Any, event: str, _argument: Any) -> Any:
        name = frame.f_code.co_filename
        if event == "call" and f"{os.sep}engine{os.sep}" not in name and not name.endswith("threads.py"):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and not getattr(inside, "now", False):
            inside.now = True
            made[0] += 1
            for call in calls:
                call()
            inside.now = False
        return trace

    def install(_core: Any) -> None:
        frame = sys._getframe(1)
        sys.settrace(trace)
        while frame is not None:  # those that run already, `Core.run` among them
            if f"{os.sep}engine{os.sep}" in frame.f_code.co_filename:
                frame.f_trace, frame.f_trace_opcodes = trace, True
            frame = frame.f_back  # type: ignore[assignment]

    model.backend.call(install)
    return lambda: made[0]


def signals(model: Any, count: int) -> None:
    """Every millisecond a signal handler cancels the stream that is waited for, and collects."""
    streams: list[Any] = []

    def handler(_number: int, _frame: Any) -> None:
        if streams:
            streams.pop().cancel()
        gc.collect(0)

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    for i in range(count):
        stream = model.complete("a", **(ENDLESS | {"max_tokens": 900}))
        streams.append(stream)
        if i % 2:
            assert stream.run().finish_reason == "interrupted"
        die(model)
    signal.setitimer(signal.ITIMER_REAL, 0)


def closing(model: Any, count: int) -> None:
    """A model is closed on the engine's own thread, in the middle of its work; the memory is given back."""
    model.backend.later(lambda _core: model.close())
    model.close()  # waits for the end, whoever began it
    assert model.closed
    assert in_memory() == []
    for _ in range(count):
        other = lm.load(sys.argv[1], ctx=1024, threads=1)
        stream = other.complete("a", **ENDLESS)
        next(stream)
        other.backend.later(lambda _core, other=other: other.close())
        assert stream.run().finish_reason == "interrupted"
        other.close()
        assert in_memory() == []


def main(path: str, case: str, count: int) -> None:
    """Run one case and ask the model once more."""
    model = lm.load(path, ctx=1024, threads=1)
    before = model.complete("b", seed=7, max_tokens=9, ignore_eos=True).token_ids
    gc.freeze()  # what was imported is no garbage: a hundred collections looked through it for 5 s
    globals()[case](model, count)
    gc.set_threshold(700, 10, 10)
    if not model.closed:
        assert model.complete("b", seed=7, max_tokens=9, ignore_eos=True).token_ids == before
        model.close()
    print(case, flush=True)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(int(sys.argv[2]), exit=True)
    for given in sys.argv[3:]:
        name, _, number = given.partition("=")
        main(sys.argv[1], name, int(number))
