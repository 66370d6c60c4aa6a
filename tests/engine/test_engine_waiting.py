"""Waits that Ctrl-C ends, and calls that it leaves behind."""

from __future__ import annotations

import _thread
import threading

import pytest

from llama_magic.threads import LeftBehind, despite_interrupts


def test_an_interrupted_call_is_left_behind_and_waited_for_at_the_end() -> None:
    """Ctrl-C comes out of `run` while the call still works; `finish` returns after the call."""
    calls, go_on, facts = LeftBehind(), threading.Event(), []

    def call() -> None:
        _thread.interrupt_main()
        go_on.wait(60)
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
