"""Progress, in a cell, a terminal and a function; and the name that holds what is done."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from moods import TEXTS, Mood, said, until

import llama_magic as lm
from llama_magic.display.live import watching
from llama_magic.experiments.runs import Runs
from llama_magic.record.record import Record
from llama_magic.testing import Script, scripted_model
from llama_magic.words.counting import counted
from llama_magic.words.standing import Standing


def test_progress_is_told_to_a_function() -> None:
    """Rows done, of how many, errors so far, speed and time left."""
    told: list[Standing] = []
    lm.map(["a", {"text": None}, "c"], "{{ text }}", model=scripted_model(said), progress=told.append)
    assert [s.done for s in told] == sorted(s.done for s in told)
    assert (told[-1].done, told[-1].total, told[-1].errors, told[-1].noun) == (3, 3, 1, "row")
    assert told[-1].rate > 0
    assert told[-1].left_s == 0
    assert any(s.left_s and s.left_s > 0 for s in told[:-1])


def test_rows_that_were_never_asked_make_no_pace() -> None:
    """Rows that fail before the model is asked take no time: from them no time left is foretold."""
    told: list[Standing] = []
    lm.map([{"text": None}, {"text": None}], "{{ text }}", model=scripted_model(said), progress=told.append)
    assert (told[-1].done, told[-1].rate, told[-1].left_s) == (2, 0.0, None)
    assert watching.words(Standing(1, 1, 0, 1.4, 0.0)) == "1 of 1 row · 1.4 rows/s"


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_one_line_that_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says rows done, speed, time left and errors; at the end it stands complete."""
    screen = _Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(watching, "_PERIOD", 0.0)
    lm.map(["a", {"text": None}, "c"], "{{ text }}", model=scripted_model(said))
    lines = screen.getvalue().split("\r")
    assert lines[-1].endswith("\n")
    assert len(lines[-1]) > max(map(len, lines[:-1]))  # with the line's end: nothing of another is left
    assert lines[-1].startswith("3 of 3 rows · ")
    assert lines[-1].rstrip().endswith(" rows/s · 1 error")
    assert watching.words(Standing(1, 3, 0, 2.0, 1.0)) == "1 of 3 rows · 2 rows/s · 1.0 s left"


def test_who_looks_sees_that_it_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first answer may take long: that none is there yet is said before it is. What a cell shows on the way
    stays true where the kernel is restarted in the middle, and the notebook keeps it."""
    answered = threading.Event()

    class Screen(_Screen):
        def write(self, text: str) -> int:
            if "0 of 2 rows" in text:
                answered.set()
            return super().write(text)

    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(watching, "_SILENT", 0.0)
    runs = lm.map(["a", "b"], model=scripted_model(lambda r: Script(said(r), at=0, hold=answered)))
    assert [run.text for run in runs] == ["a", "b"]
    assert screen.getvalue().split("\r")[1].startswith("0 of 2 rows")
    table, done = "so far: 0 of 3 rows · 2 rows/s", "done: 0 of 3 rows · 2 rows/s"
    assert _published(monkeypatch) == ["", _WAITING, table, done, ""]
    monkeypatch.setattr(watching, "_SILENT", 1e9)  # of one that is quick nothing is to be stopped
    assert _published(monkeypatch) == ["", table, done, ""]
    assert "1,234 rows/s" in watching.words(Standing(1, 3, 0, 1234.5, 1.0))


def test_of_what_was_stopped_no_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that stays tells how far it came and how fast, not how much longer it would have taken."""

    class Stopped(list[int]):
        standing = Standing(1, 3, 0, 2.0, 1.0)

    screen = _Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(watching, "_SILENT", 0.0)
    with contextlib.suppress(KeyboardInterrupt), watching.watching(Stopped([0]), True) as tick:
        tick()
        raise KeyboardInterrupt
    lines = [line.rstrip() for line in screen.getvalue().split("\r")]
    assert lines == ["", "1 of 3 rows · 2 rows/s · 1.0 s left", "1 of 3 rows · 2 rows/s"]


_WAITING = "An experiment was under way when this was saved."


def _published(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what a cell is sent of an experiment that is seen once before it ends."""
    sent: list[Any] = []
    monkeypatch.setattr(watching.hosts, "publish", lambda shell, bundle, **how: sent.append(bundle))
    cell, results, standing = watching._Cell(None), Runs(None, {}), Standing(0, 3, 0, 2.0, 1.0)
    cell.show(results, standing)
    cell.end(results, replace(standing, left_s=None))
    return [bundle["text/plain"] for bundle in sent]


def test_a_console_of_jupyter_is_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its kernel writes goes to no terminal of the kernel's own, and is seen all the same."""

    class Kernel:
        def get_parent(self, channel: str) -> dict[str, Any]:
            return {"metadata": {}, "content": {"allow_stdin": True}}

    class Shell:
        kernel, display_pub = Kernel(), None

    monkeypatch.setattr(watching.hosts, "current_shell", Shell)
    assert type(watching.host_now()).__name__ == "_Terminal"


def test_where_output_is_kept_short_experiments_say_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log, or a notebook run by a program, holds the results alone; `progress=False` is silent anywhere.

    How far a long one is goes to stderr: what a script writes into a pipe stays its own.
    """
    lm.map(["a"], model=scripted_model(said))
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(watching, "_SELDOM", 0.0)
    lm.map(["a"], model=scripted_model(said))
    out, err = capsys.readouterr()
    assert (out, err[:10]) == ("", "1 of 1 row")
    lm.map(["a"], model=scripted_model(said), progress=False)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("on_error", ["keep", "stop"])
def test_the_name_that_is_assigned_to_holds_what_is_done(on_error: str) -> None:
    """`runs = lm.map(…)` in a cell binds `runs` though it raises; what assigns nothing binds nothing."""
    how = f"TEXTS, schema=Mood, model=model, on_error={on_error!r}"
    for line, bound in (
        (f"runs = lm.map({how})", "runs"),
        (f"lm.map({how})", None),
        (f"x = [lm.map({how})]", None),
    ):
        space = {"lm": lm, "TEXTS": TEXTS, "Mood": Mood, "model": scripted_model(until("25"))}
        if on_error == "stop":
            bad = Script("x", at=0, error=lm.BackendError("lost"))
            space["model"] = scripted_model(lambda r: bad if said(r) == "25" else json.dumps({"mood": "m"}))  # noqa: B023 - now
        before = set(space)
        with pytest.raises((lm.GenerationInterrupted, lm.BackendError)) as caught:
            exec(line, space)
        assert set(space) - before - {"__builtins__"} == ({bound} if bound else set())
        if bound:
            runs = space[bound]
            assert isinstance(runs, Runs)
            assert len(runs) > 0
            assert on_error == "stop" or "runs.resume() goes on" in str(caught.value)


@pytest.mark.parametrize("own", [True, False])
def test_an_error_beside_the_rows_keeps_what_is_done(
    own: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is told how far it is fails, or the record's disk is full: `runs` is bound all the same."""
    model = scripted_model(said)
    space: dict[str, Any] = {"lm": lm, "TEXTS": TEXTS[:4], "model": model}
    space["told"] = lambda standing: 1 / (not standing.done)  # as soon as one is there
    line = "runs = lm.map(TEXTS, model=model, progress=told)"
    if own:
        add, left = Record.add, [1, 1]

        def full(self: Record, *answers: Any, **how: Any) -> None:
            if not left:
                raise lm.SourceError("The disk is full.")
            left.pop()
            add(self, *answers, **how)

        monkeypatch.setattr(Record, "add", full)
        space["record"] = Record(tmp_path / "r.sqlite")
        line = "runs = lm.map(TEXTS, model=model, record=record, progress=False)"
    with pytest.raises((lm.SourceError, ZeroDivisionError)) as caught:
        exec(line, space)
    runs: Any = space["runs"]
    assert len(runs) == 2 if own else len(runs)
    assert caught.value.__notes__ == [
        f"{counted(len(runs), 'row')} {'is' if len(runs) == 1 else 'are'} kept."
    ]
