"""Streams in terminals, in plain clients and in live views."""

from __future__ import annotations

import io
import itertools
import re
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from as_ipython import page_says
from display_answers import completion, stream, widgets
from front_ends import LAB, answer_views, shell

from llama_magic import errors
from llama_magic.display import show, show_stream
from llama_magic.display.live.live import Live, LiveView
from llama_magic.display.live.terminal import Terminal
from llama_magic.model.results import Budget, Chunk
from llama_magic.structured.answer.report import FieldReport
from llama_magic.testing import Script, scripted_model


def test_a_terminal_gets_the_text_as_it_grows_then_one_line_of_figures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Escapes are shown, not sent; the last line has the window, the speed, the seed and the ending."""
    r = show_stream(stream("One \x1b[31mtwo"), title="chat", model_name="m", shell=shell(kernel=False))
    out = capsys.readouterr().out
    assert out.startswith("One ␛[31mtwo\n[100 prompt + 2 written of 4,096 tokens · 3,994 free")
    assert re.search(r"first token \d+\.\d\d s · [\d.]+ tok/s · seed 42 · ended by itself\]\n", out)
    assert out.count("\n") == 2
    assert r.text == "One \x1b[31mtwo"


class _Broken(io.StringIO):
    """An output that fails, from its n-th write on."""

    def __init__(self, error: Exception, takes: int, *, tty: bool) -> None:
        super().__init__()
        self._error, self._takes, self._tty = error, takes, tty

    def isatty(self) -> bool:
        return self._tty

    def write(self, text: str) -> int:
        self._takes -= 1
        if self._takes < 0:
            raise self._error
        return super().write(text)


@pytest.mark.parametrize("takes", [0, 1, 2])
@pytest.mark.parametrize("tty", [True, False])
@pytest.mark.parametrize(
    "error",
    [BrokenPipeError(32, "Broken pipe"), ValueError("I/O operation on closed file"), KeyError("mine")],
)
def test_an_output_that_fails_costs_no_answer(
    monkeypatch: pytest.MonkeyPatch, error: Exception, takes: int, tty: bool
) -> None:
    """Whatever standard output raises, at the first write or later, is named once; the answer is whole."""
    out = _Broken(error, takes, tty=tty)
    monkeypatch.setattr("sys.stdout", out)
    with pytest.warns(RuntimeWarning, match=rf"took no text \({type(error).__name__}") as named:
        answer = show_stream(stream("One two three"), title="chat", model_name="m", shell=shell(kernel=False))
    assert len(named) == 1
    assert answer.text == "One two three"
    assert "One two three".startswith(out.getvalue().split("\n")[0])


def test_no_standard_output_costs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is none at all (a program without a console), the answer comes back as well."""
    monkeypatch.setattr("sys.stdout", None)
    with pytest.warns(RuntimeWarning, match="took no text"):
        answer = show_stream(stream("One"), title="chat", model_name="m", shell=shell(kernel=False))
    assert answer.text == "One"


def test_a_terminal_shows_how_hard_the_mask_held(capsys: pytest.CaptureFixture[str]) -> None:
    """`--pressure` shows its table of fields there, too: between the answer and the figures."""
    answer = scripted_model(['{"age": 27}']).structured("Age?", {"type": "object", "properties": {"age": {}}})
    reports = {"/age": FieldReport("/age", 8, 10, 1, 0.25, 0.3, 0.5)}
    shown = Terminal(lambda: None)
    shown.feed(Chunk(delta=answer.text, text=answer.text))
    shown.finish({}, replace(answer, fields=reports))
    answered, head, row, figures = capsys.readouterr().out.splitlines()
    assert answered == '{"age": 27}'
    assert head.split() == ["field", "value", "mass", "outside", "confidence"]
    assert row.split() == ["age", "27", "25%", "50%"]
    assert figures.startswith("[")


def test_jupyter_console_is_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A kernel client that names no cell and takes input gets the text as it grows."""
    console = shell(allow_stdin=True)
    show_stream(stream("text"), title="chat", model_name="m", shell=console)
    assert capsys.readouterr().out.startswith("text\n[")
    assert not console.display_pub.sent


def test_a_client_that_cannot_be_asked_gets_one_plain_output() -> None:
    """nbclient, nbval, papermill: one display_data without an id, so that nothing needs an update."""
    batch = shell()
    show_stream(stream("a b"), title="chat", model_name="m", shell=batch)
    [(data, display_id, update)] = batch.display_pub.sent
    assert "a b" in data["text/plain"]
    assert (display_id, update) == (None, False)


@pytest.mark.parametrize("metadata", [LAB, {"colab": {"cell_id": "x"}}])
def test_a_front_end_sees_a_widget_that_is_replaced_by_static_output(metadata: dict[str, Any]) -> None:
    """What is left is HTML, text and receipt; once the page says so, no widget or model of it stays open."""
    before = widgets()
    lab = shell(metadata)
    show_stream(stream("a b"), title="chat", model_name="m", shell=lab)
    assert "application/vnd.jupyter.widget-view+json" in lab.display_pub.sent[0][0]
    [left] = lab.display_pub.shown()
    assert set(left) == {"text/html", "text/plain", "application/vnd.llama-magic.v1+json"}
    [view] = LiveView.unanswered
    assert view.left["bundle"] == left
    answer_views()
    assert widgets() == before


@pytest.mark.parametrize(("mode", "markdown"), [("chat", True), ("complete", False), ("structured", False)])
@pytest.mark.parametrize("title", ["chat", "complete", "anything"])
def test_the_mode_says_what_is_markdown(mode: str, markdown: bool, title: str) -> None:
    """The title heads the view and decides nothing, while it grows, at the end and after an error."""
    lab, text = shell(LAB), '"**a**"' if mode == "structured" else "**a**"
    show_stream(stream(text, mode=mode), title=title, model_name="m", shell=lab)
    broken = stream(Script(text, at=3, error=errors.BackendError("gone")), mode=mode)
    with pytest.raises(errors.BackendError):
        show_stream(broken, title=title, model_name="m", shell=lab)
    assert [view.head["markdown"] for view in LiveView.unanswered] == [markdown, markdown]
    assert ["<strong>a</strong>" in left["text/html"] for left in lab.display_pub.shown()] == [markdown] * 2


def test_an_ended_view_holds_its_output_for_a_page_that_is_loaded_again() -> None:
    """Its state names the cell, the run and the view; of more than fifty the oldest closes."""
    for number in range(52):
        show_stream(stream(f"answer {number}"), title="chat", model_name="m", shell=shell(LAB))
    views = list(LiveView.unanswered)
    assert len(views) == 50
    assert "answer 2\n" in views[0].get_state("left")["left"]["bundle"]["text/plain"]
    assert (views[-1].left["cell"], views[-1].left["view"]) == ("4f1c", views[-1].model_id)
    page_says(views[-1], {"else": 1})
    assert len(LiveView.unanswered) == 50


def test_quiet_shows_nothing_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    """`quiet` returns the completion and publishes nothing."""
    lab = shell(LAB)
    assert show_stream(stream("a"), title="chat", model_name="m", shell=lab, quiet=True).text == "a"
    assert not lab.display_pub.sent
    assert not capsys.readouterr().out


def test_the_live_view_sends_at_most_ten_messages_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast chunks come, from one message to the next a tenth of a second passes."""
    sent: list[float] = []
    monkeypatch.setattr(LiveView, "send", lambda self, message, buffers=None: sent.append(time.monotonic()))
    head = {
        "title": "chat",
        "model": "m",
        "markdown": True,
        "form": False,
        "fields": [],
        "samples": 1,
        "after": "",
    }
    live = Live(shell(LAB), head=head, budget=lambda: Budget(4096, 100, 256), progress=lambda: None)
    live.begin()
    written = 0
    while len(sent) < 5:
        live.feed(Chunk("tok ", "", (1,)))
        written += 1
        threading.Event().wait(0.001)
    live.finish({"text/plain": ""}, None)
    assert written > len(sent)
    assert min(after - before for before, after in itertools.pairwise(sent)) >= 0.1


def test_prompt_reading_is_told_while_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress messages come before the first text, with done and total tokens."""
    sent: list[Any] = []
    gate = threading.Event()

    def send(self: LiveView, message: Any, buffers: Any = None) -> None:
        sent.append(message)
        if message.get("progress") == [50, 100]:
            gate.set()

    monkeypatch.setattr(LiveView, "send", send)
    show_stream(stream(Script("a", reading=gate)), title="chat", model_name="m", shell=shell(LAB))
    reading = [message["progress"] for message in sent if "progress" in message]
    assert [50, 100] in reading
    assert reading == sorted(reading)
    assert {total for _, total in reading} == {100}


def test_closed_views_are_freed() -> None:
    """Twenty views that a page answered for leave no widget object behind: their number stays flat."""
    import gc

    def alive() -> int:
        gc.collect()
        return sum(isinstance(thing, (LiveView, Live)) for thing in gc.get_objects())

    before = alive()
    for _ in range(20):
        show_stream(stream("a"), title="chat", model_name="m", shell=shell(LAB))
        answer_views()
    assert alive() <= before + 1


def test_without_ipython_things_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """`show` falls back to the text."""
    show(completion("Hi"), shell=None)
    assert capsys.readouterr().out.startswith("chat: smollm2 · seed 42\nHi\n")


def test_a_terminal_says_how_far_a_long_prompt_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a real terminal the line is drawn, then wiped before the first token."""

    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            if "reading the prompt: 50 of 100 tokens" in text:
                gate.set()
            return super().write(text)

    gate, out = threading.Event(), Tty()
    monkeypatch.setattr("sys.stdout", out)
    slow = stream(Script("text", reading=gate))
    show_stream(slow, title="chat", model_name="m", shell=shell(kernel=False))
    written = out.getvalue()
    assert "\rreading the prompt: " in written
    assert written.split("\r")[-1].startswith("text\n[")
