"""The one thread that computes: who uses it, in which order, and what goes on while it is busy elsewhere."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llama_cpp
import pytest
from settled import until

import llama_magic as lm
from llama_magic.engine import compute
from llama_magic.engine.native import Context
from llama_magic.model.journal import journal
from llama_magic.weakly import when_gone

_TASKS = Path("/proc/self/task")
_LIBRARY = llama_cpp.llama_cpp._lib
needs_libgomp = pytest.mark.skipif(
    not _TASKS.exists() or not hasattr(_LIBRARY, "omp_pause_resource_all"),
    reason="threads are counted in /proc, and llama.cpp must be built with GCC's OpenMP",
)


class Elsewhere:
    """Stands for a long piece of work of another model: a turn that lasts until it is told to end."""

    def __init__(self) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()

    def turn(self) -> bool:
        compute.release_pool()  # of the model before, as after a rest
        self.began.set()
        self.go_on.wait()
        compute.shared().remove(self)
        return False


@contextlib.contextmanager
def busy_elsewhere() -> Iterator[None]:
    """Keep the compute thread busy with something else meanwhile."""
    work = Elsewhere()
    compute.shared().add(work)
    compute.shared().wake()
    work.began.wait()
    try:
        yield
    finally:
        work.go_on.set()


@pytest.fixture
def decodes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Context]]:
    """Note the thread and the context of each decode."""
    seen: list[tuple[int, Context]] = []
    decode = Context.decode

    def noted(self: Context, *batch: Any) -> Any:
        seen.append((threading.get_ident(), self))
        return decode(self, *batch)

    monkeypatch.setattr(Context, "decode", noted)
    return seen


def _threads() -> set[str]:
    """Return the ids of the threads of this process, those of OpenMP among them."""
    return {task.name for task in _TASKS.iterdir()}


def _most_new_threads(run: Callable[[], Any], before: set[str]) -> int:
    """Return how many threads that were not there `before` there are at the end of a decode, at most.

    A thread that has ended, of a load or of a pool that was given back, is listed a moment longer.
    """
    counts: list[int] = []
    decode = Context.decode

    def counted(self: Context, *batch: Any) -> Any:
        try:
            return decode(self, *batch)
        finally:
            until(lambda: len(_threads() - before) <= 1)
            counts.append(len(_threads() - before))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Context, "decode", counted)
        run()
    return max(counts)


def test_all_work_of_all_models_is_done_on_one_thread(
    scripted_file: Any, decodes: list[tuple[int, Context]]
) -> None:
    """Answers, seeded ones, samples, embeddings, readings and traces of two models: one thread decodes."""
    with (
        lm.load(scripted_file.path, ctx=512, threads=1) as a,
        lm.load(scripted_file.path, ctx=256, threads=1) as b,
    ):
        for model in (a, b):
            model.complete("一", max_tokens=3)
            model.complete("一", max_tokens=3, seed=1, n=2)
            model.embed("一")
            model.read("一丁")
            model.xray("一")
        contexts = {id(context) for _, context in decodes}
    assert len({thread for thread, _ in decodes}) == 1
    assert decodes[0][0] != threading.get_ident()
    assert len(contexts) >= 6  # the shared and the seeded one, the embedding's, of each


@needs_libgomp
def test_second_model_brings_no_openmp_threads(scripted_file: Any) -> None:
    """Models with two threads each have one pool of one thread besides the thread that computes, however
    many models there are; at rest there is no pool, so that other users of OpenMP are not slowed.
    """
    after_the_dead()  # on a thread of ours, which stays
    with busy_elsewhere():
        before = _threads()
    with contextlib.ExitStack() as stack:
        models = []
        for ctx in (256, 512, 768):
            models.append(stack.enter_context(lm.load(scripted_file.path, ctx=ctx, threads=2)))
            for model in models:
                assert _most_new_threads(lambda m=model: m.complete("一", max_tokens=8), before) == 1
        until(lambda: _threads() <= before)


@needs_libgomp
def test_pool_of_the_caller_is_given_back(scripted: Any) -> None:
    """A thread that has used OpenMP and then asks a model has no pool any more: it waits now."""
    text = ctypes.create_string_buffer(b"x" * 100)
    length = ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p)
    _LIBRARY.GOMP_parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    with busy_elsewhere():  # no other pool comes or goes
        before = _threads()
        _LIBRARY.GOMP_parallel(length, ctypes.addressof(text), 3, 0)
        pool = _threads() - before
    assert len(pool) == 2
    scripted.complete("一", max_tokens=2)
    until(lambda: not pool & _threads())  # they have ended; the system lists them a moment longer


def test_two_models_take_turns(scripted_file: Any, decodes: list[tuple[int, Context]]) -> None:
    """Two answers that begin together are decoded a step each in turn, to the end."""
    with (
        lm.load(scripted_file.path, ctx=512, threads=1) as a,
        lm.load(scripted_file.path, ctx=256, threads=1) as b,
    ):
        with busy_elsewhere():
            streams = [
                m.complete("一", stream=True, max_tokens=24, ignore_eos=True, speculate="off") for m in (a, b)
            ]
        done = [stream.run() for stream in streams]
        order = [context.n_ctx for _, context in decodes]
    assert [len(d.token_ids) for d in done] == [24, 24]
    assert order == [512, 256] * (len(order) // 2)
    assert len(order) >= 48


def test_a_model_that_goes_on_alone_lets_another_in(
    scripted_file: Any, decodes: list[tuple[int, Context]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that begins while another is written has every second step from then on."""
    options: dict[str, Any] = {"stream": True, "ignore_eos": True, "speculate": "off"}
    asked, decode = threading.Event(), Context.decode

    def held(self: Context, *batch: Any) -> Any:
        if len(decodes) == 20:  # however long it takes until the other is asked
            asked.wait(600)
        return decode(self, *batch)

    monkeypatch.setattr(Context, "decode", held)
    with (
        lm.load(scripted_file.path, ctx=512, threads=1) as a,
        lm.load(scripted_file.path, ctx=256, threads=1) as b,
    ):
        long = a.complete("一", max_tokens=100, **options)
        for _ in range(5):
            next(long)
        other = b.complete("一", max_tokens=24, **options)
        asked.set()
        assert len(other.run().token_ids) == 24
        assert len(long.run().token_ids) == 100
        order = [context.n_ctx for _, context in decodes]
    first = order.index(256)
    last = len(order) - order[::-1].index(256)
    assert 5 <= first <= 21
    assert order[first:last] == [256, 512] * 23 + [256]


class Asks:
    """A worker that asks at each turn whether it may go on, and then does what comes next."""

    def __init__(self, work: compute.Compute, *then: Callable[[], object]) -> None:
        self.work, self.then = work, list(then)
        self.told: list[bool] = []
        self.ended = threading.Event()

    def turn(self) -> bool:
        before = self.work.may_go_on(self)
        if not self.then:
            self.ended.set()
            return False
        self.then.pop(0)()
        self.told.append(before and self.work.may_go_on(self))
        return True


def test_who_is_alone_may_go_on_until_somebody_rings() -> None:
    """Not in a first round, nor in one that somebody rang in or after, nor beside another that is busy."""
    work = compute.Compute()
    one = Asks(work, int, int, work.wake, int, int)
    other = Asks(work, *[int] * 4)
    work.add(one)
    work.wake()
    assert one.ended.wait(600)
    assert one.told == [False, True, False, False, True]
    one.then, one.told = [lambda: work.add(other), work.wake, *[int] * 4], []
    one.ended.clear()
    work.wake()
    assert one.ended.wait(600)
    assert other.ended.wait(600)
    assert one.told[1:5] == [False] * 4  # rung, then three of the other's turns
    assert not any(other.told)


def test_model_is_closed_while_another_computes(scripted: Any, answers: dict[str, str]) -> None:
    """`close()` of a model with an answer under way and another waiting returns though the compute thread
    is busy with another model; what was written is kept.
    """
    question, answer = next(iter(answers.items()))
    stream = scripted.complete(question, stream=True, max_tokens=1000, ignore_eos=True)
    begun = next(stream)
    with busy_elsewhere():
        late = scripted.complete(question, stream=True)
        scripted.close()
        assert scripted.closed
        chunks = [begun, *stream]
        assert stream.completion.finish_reason == "interrupted"
        with pytest.raises(lm.ModelClosedError):
            list(late)
    written = "".join(c.delta for c in chunks)
    assert written
    assert answer.startswith(written[: len(answer)])


@pytest.mark.parametrize("began", [True, False])
def test_answer_is_cancelled_while_another_model_computes(scripted: Any, began: bool) -> None:
    """`cancel()` ends an answer, begun or still in the inbox, though the compute thread is busy with
    another model, and the model answers afterwards.
    """
    options: dict[str, Any] = {"stream": True, "max_tokens": 900, "ignore_eos": True, "n": 2}
    stream = scripted.complete("一", **options) if began else None
    if stream is not None:
        next(stream)
    with busy_elsewhere():
        stream = stream or scripted.complete("一", **options)
        stream.cancel()
        assert [c.finish_reason for c in stream.completion] == ["interrupted"] * 2
        assert [bool(c.text) for c in stream.completion] == [began, began] or began
    assert scripted.complete("一", max_tokens=4).finish_reason in ("stop", "length")


def test_error_of_one_model_costs_no_other(scripted_file: Any) -> None:
    """A job that nobody waits for may raise: every answer goes on, of that model and of another."""
    with (
        lm.load(scripted_file.path, ctx=512, threads=1) as a,
        lm.load(scripted_file.path, ctx=1024, threads=1) as b,
    ):
        streams = [m.complete("一", stream=True, max_tokens=300, ignore_eos=True) for m in (a, b)]
        for stream in streams:
            next(stream)
        a.backend.later(lambda core: 1 // 0)  # type: ignore[arg-type, return-value]
        assert [stream.run().finish_reason for stream in streams] == ["length"] * 2
        assert [m.complete("一", max_tokens=2).finish_reason for m in (a, b)] == ["length"] * 2


def test_compute_thread_waits_for_no_model(scripted: Any) -> None:
    """Work on a model that is asked for by the compute thread is refused: it would wait for itself."""
    with pytest.raises(lm.BackendError, match="wait for itself"):
        scripted.backend.call(lambda core: scripted.backend.call(lambda core: None))


def test_closed_model_is_not_held(scripted_file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a close nothing of the compute thread holds what it worked on."""
    # An answer holds the engine, to be looked into: no history shall keep this one.
    monkeypatch.setattr(journal, "add", lambda *made: None)
    model = lm.load(scripted_file.path, ctx=512, threads=1)
    model.complete("一", max_tokens=2)
    core = model.backend.call(weakref.ref)
    model.close()
    del model
    with busy_elsewhere():  # a round that began after the close
        gc.collect()
        after_the_dead()
        until(lambda: core() is None)  # the thread that closed it may not have left its last function


def after_the_dead() -> None:
    """Wait until what is to be done for objects that are gone is done, one after the other."""
    told, last = threading.Event(), threading.Event()
    when_gone(last, told.set)
    del last
    assert told.wait(600)


_FORK = """
import os, sys
import llama_magic as lm
a = lm.load(sys.argv[1], ctx=512, threads=1)
a.complete("a", max_tokens=2)
child = os.fork()
b = lm.load(sys.argv[1], ctx=256, threads=1)
print(len(b.complete("a", max_tokens=3, ignore_eos=True).token_ids), flush=True)
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_child_has_a_thread_of_its_own(scripted_file: Any) -> None:
    """A model loaded in a forked child answers there, and the parent goes on."""
    command = [sys.executable, "-W", "ignore", "-c", _FORK, str(scripted_file.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["3", "3"], "")


def test_what_is_to_be_done_meanwhile_is_done_while_the_compute_thread_works(scripted: Any) -> None:
    """A load looks at its tokens while llama.cpp makes the context; an error of that comes out."""
    looked = threading.Event()
    assert scripted.backend.call(lambda _core: looked.wait(120), looked.set) is True

    def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        scripted.backend.call(lambda _core: None, fails)
