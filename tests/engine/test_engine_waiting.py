"""Waits that Ctrl-C ends, and calls that it leaves behind."""

from __future__ import annotations

import _thread
import threading

import pytest

from llama_magic.errors import BackendError
from llama_magic.threads import LeftBehind, despite_interrupts


def test_an_interrupted_call_is_left_behind_and_waited_for_at_the_end() -> None:
    """Ctrl-C comes out of `run` while the call still works; `finish` returns after the call."""
    calls, go_on, facts = LeftBehind(), threading.Event(), []

    def call() -> None:
        _thread.interrupt_main()
        go_on.wait(600)
        facts.append("ended")

    with pytest.raises(KeyboardInterrupt):
        calls.run(call)
    assert facts == []
    go_on.set()
    calls.finish()
    assert facts == ["ended"]


def test_a_call_gives_its_value_or_its_error() -> None:
    """What the call returns or raises comes out."""
    assert LeftBehind().run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        LeftBehind().run(lambda: 1 // 0)


def test_a_short_call_is_waited_for_too() -> None:
    """`finish` returns after a call that another thread makes, and at once where that is the same thread."""
    calls, inside, go_on, facts = LeftBehind(), threading.Event(), threading.Event(), []

    def call() -> None:
        inside.set()
        go_on.wait(600)
        facts.append("ended")

    threads = [threading.Thread(target=calls.here, args=(call,)), threading.Thread(target=calls.finish)]
    threads[0].start()
    inside.wait(600)
    threads[1].start()
    threads[1].join(0.1)
    assert threads[1].is_alive()
    go_on.set()
    threads[1].join(600)
    assert facts == ["ended"]
    calls.here(calls.finish)  # as a signal handler would ask between two calls


def test_a_call_that_gets_no_thread_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can be started the call fails, and the end does not wait for it."""

    def none_left(*_given: object) -> int:
        raise RuntimeError("can't start new thread")

    calls = LeftBehind()
    monkeypatch.setattr(_thread, "start_new_thread", none_left)
    with pytest.raises(BackendError, match="no further thread"):
        calls.run(lambda: 7)
    calls.finish()


@pytest.mark.parametrize("presses", [0, 1, 5])
def test_work_after_an_interrupt_is_begun_anew_when_broken_into(presses: int) -> None:
    """Up to five further interrupts cost a new start each, and the work's value comes out."""
    starts: list[int] = []

    def work() -> str:
        starts.append(len(starts))
        if len(starts) <= presses:
            raise KeyboardInterrupt
        return "kept"

    assert despite_interrupts(work) == "kept"
    assert len(starts) == presses + 1


def test_the_sixth_interrupt_is_let_through() -> None:
    """Work that is broken into each time is begun six times, and no more."""
    starts: list[int] = []

    def work() -> None:
        starts.append(len(starts))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        despite_interrupts(work)
    assert len(starts) == 6
