"""Ctrl-C at any instruction of what shows an answer: no thread is left that writes into later cells."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from display_answers import ASKED, answering
from front_ends import LAB, answer_views, shell
from ipywidgets import Widget
from settled import WATCHDOG

from llama_magic import errors, threads
from llama_magic.display import show_stream
from llama_magic.display.live import live, stream, terminal
from llama_magic.display.live.live import LiveView
from llama_magic.testing import Script

_OURS = (live.__file__, stream.__file__, terminal.__file__, threads.__file__)
_STEP = 5  # instructions
_NAMES = ("llama_magic-progress", "llama_magic-live")


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def strikes(run: Callable[[], Any]) -> Iterator[tuple[str, BaseException | None]]:
    """Run again and again; each time Ctrl-C comes some instructions later in what shows an answer.

    Yields where it came, and what came out; ends with the first run that was over before.
    """
    for number in range(1, 20000, _STEP):
        left, where = number, ""

        def trace(frame: FrameType, event: str, _argument: Any) -> Any:
            nonlocal left, where
            if frame.f_code.co_filename not in _OURS or frame.f_code.co_name == "close":
                return None  # a widget that is collected is closed by the collector, anywhere
            frame.f_trace_opcodes = True
            if event == "opcode" and left:
                left -= 1
                if not left:
                    where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                    raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        came: BaseException | None = None
        try:
            run()
        except KeyboardInterrupt as error:
            came = error
        finally:
            sys.settrace(None)
        if left:
            return
        yield where, came
    raise AssertionError("it never ends")


def at_work() -> list[threading.Thread]:
    """Return the threads of views; one that was told to end has a moment for it."""
    found = [thread for thread in threading.enumerate() if thread.name in _NAMES]
    for thread in found:
        thread._started.wait(WATCHDOG)  # type: ignore[attr-defined]  # it may be about to start, and cannot be joined
        thread.join(WATCHDOG)
    return [thread for thread in found if thread.is_alive()]


@pytest.mark.parametrize("where", ["terminal", "page"])
def test_ctrl_c_at_any_moment_leaves_no_thread_that_prints(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any moment: the view's thread ends, nothing is written later, and the answer is kept."""
    monkeypatch.setattr("sys.stdout", Tty())
    monkeypatch.setattr(terminal, "_WAIT", 0.0)
    monkeypatch.setattr(terminal, "_PERIOD", 0.001)
    sent: list[Any] = []
    monkeypatch.setattr(LiveView, "send", lambda self, message, buffers=None: sent.append(message))
    model = answering("", name="m")
    model.backend.answers = lambda _request: Script("one two")  # type: ignore[attr-defined]

    def run() -> None:
        host = shell(LAB) if where == "page" else shell(kernel=False)
        show_stream(model.chat(ASKED, stream=True, seed=1), title="chat", model_name="m", shell=host)

    struck, kept = 0, 0
    for at, came in strikes(run):
        assert not at_work(), at
        if isinstance(came, errors.GenerationInterrupted):
            kept += came.completion is not None
        struck += 1
        answer_views()
    Widget.close_all()  # those that were struck while they were made
    assert struck > 50
    assert kept > struck / 4  # the others struck before the stream was looked at, or after its end
