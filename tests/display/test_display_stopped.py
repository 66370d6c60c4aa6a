"""Streams that are interrupted or end in an error: what was written stays, and says why it ended."""

from __future__ import annotations

import io
import signal
import threading
from typing import Any

import pytest
from as_ipython import traceback_of
from display_answers import ASKED, answering, stream
from front_ends import LAB, shell

from llama_magic import errors
from llama_magic.display import hosts, show_stream
from llama_magic.testing import Script


def test_an_error_leaves_the_texts_of_all_samples() -> None:
    """Each under its number, however far it had come."""
    script = Script(samples=("one two", "three four"), at=2, error=errors.BackendError("gone"))
    here = shell(LAB)
    with pytest.raises(errors.BackendError, match="gone"):
        show_stream(stream(script, n=2), title="chat", model_name="m", shell=here)
    [output] = here.display_pub.shown()
    said = output["text/plain"].splitlines()
    assert said[1:5] == ["sample 1", "one two", "sample 2", "three four"]
    assert said[-1] == "Ended by an error: BackendError."


@pytest.mark.parametrize("metadata", [LAB, {}])
def test_an_interrupt_keeps_the_text_and_says_so(metadata: dict[str, Any]) -> None:
    """Ctrl-C in the middle: the stream is cancelled, the output marked, the completion on the exception."""
    lab = shell(metadata)
    model = answering(Script("word " * 5, error=KeyboardInterrupt()))
    stopped = model.chat(ASKED, stream=True)
    with pytest.raises(errors.GenerationInterrupted) as caught:
        show_stream(stopped, title="chat", model_name="m", shell=lab)
    assert model.backend.requests[0].handle.cancelled
    assert caught.value.completion.finish_reason == "interrupted"
    [left] = lab.display_pub.shown()
    assert "word word word" in left["text/plain"]
    assert "stopped before its end" in left["text/html"]


def test_an_interrupt_before_the_first_token_says_that_nothing_was_written() -> None:
    """The one line that the cell ends with does not claim that something is kept."""
    nothing = stream(Script(error=KeyboardInterrupt()))
    with pytest.raises(errors.GenerationInterrupted) as caught:
        show_stream(nothing, title="chat", model_name="m", shell=shell(LAB))
    assert traceback_of(caught.value) == ["Interrupted: nothing was written yet."]


@pytest.mark.parametrize("where", [(hosts, "host"), (hosts, "publish"), (threading.Thread, "start")])
def test_an_interrupt_before_the_view_is_there_keeps_the_answer(
    monkeypatch: pytest.MonkeyPatch, where: tuple[Any, str]
) -> None:
    """The stream is cancelled, one output left, and the completion on the exception, as later on."""
    lab = shell(LAB)
    model = answering(Script("word " * 5, at=0, hold=threading.Event()))
    stopped = model.chat(ASKED, stream=True)

    def strike(*_given: Any, **_named: Any) -> Any:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(*where, strike)
    with pytest.raises(errors.GenerationInterrupted) as caught:
        show_stream(stopped, title="chat", model_name="m", shell=lab)
    assert model.backend.requests[0].handle.cancelled
    assert caught.value.completion.finish_reason == "interrupted"
    [left] = lab.display_pub.shown()
    assert "stopped before its end" in left["text/html"]


def test_a_real_sigint_stops_a_slow_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that arrives while the main thread waits for a token ends the wait."""
    written, main = threading.Event(), threading.main_thread().ident
    assert main is not None

    class Out(io.StringIO):
        def flush(self) -> None:
            if self.getvalue():
                written.set()

    def press() -> None:
        written.wait()
        signal.pthread_kill(main, signal.SIGINT)

    monkeypatch.setattr("sys.stdout", Out())
    presser = threading.Thread(target=press)
    presser.start()
    slow = stream(Script("a b", at=1, hold=threading.Event()))
    with pytest.raises(errors.GenerationInterrupted) as caught:
        show_stream(slow, title="chat", model_name="m", shell=shell(kernel=False))
    presser.join()
    assert caught.value.completion.text == "a"


def test_a_second_interrupt_does_not_leave_a_live_view_behind() -> None:
    """An impatient user interrupts while the output is being replaced; it is replaced all the same."""
    lab = shell(LAB)
    publish, fails = lab.display_pub.publish, iter([True])

    def impatient(**given: Any) -> None:
        if given["update"] and next(fails, False):
            raise KeyboardInterrupt
        publish(**given)

    lab.display_pub.publish = impatient
    stopped = stream(Script("a", error=KeyboardInterrupt()))
    with pytest.raises(errors.GenerationInterrupted):
        show_stream(stopped, title="chat", model_name="m", shell=lab)
    assert "text/html" in lab.display_pub.shown()[0]


@pytest.mark.parametrize("metadata", [LAB, {}])
def test_an_error_leaves_the_text_so_far_and_is_raised_as_it_is(metadata: dict[str, Any]) -> None:
    """The view is replaced by what was written, with the error's name."""
    lab = shell(metadata)
    broken = stream(Script("so far", error=errors.BackendError("decode failed")))
    with pytest.raises(errors.BackendError, match="decode failed"):
        show_stream(broken, title="chat", model_name="m", shell=lab)
    [left] = lab.display_pub.shown()
    assert "so far" in left["text/plain"]
    assert "BackendError" in left["text/html"]
