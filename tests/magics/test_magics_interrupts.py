"""Ctrl-C in the middle of any verb or cell is one short block."""

from __future__ import annotations

import io
import signal
import sys
import weakref
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from llama_magic.display import hosts
from llama_magic.magics import _modes, _verbs
from llama_magic.magics._magics import LlamaMagics
from llama_magic.magics._options import MODES, VERBS

ARGUMENTS = {
    "use": "x",
    "pull": "x",
    "inspect": "x",
    "tokens": "x",
    "chat": "x show",
    "exp": "x",
    "connect": "x",
    "rerun": "1",
    "diff": "1 2",
}
ROWS = {"map": "df", "decide": "df"}  # modes that are told of rows


@pytest.fixture
def shell() -> Any:
    """A shell with the extension."""
    made = InteractiveShell()
    made.history_manager.enabled = False
    made.run_cell("%load_ext llama_magic")
    return made


def _strike(*_arguments: Any, **_options: Any) -> None:
    raise KeyboardInterrupt


def _run(shell: Any, source: str) -> tuple[Any, list[str]]:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        result = shell.run_cell(source)
    return result.error_in_exec, out.getvalue().strip().splitlines()


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_is_interrupted(shell: Any, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """Every verb names itself in one line, and stops Run All as any interrupt does."""
    monkeypatch.setattr(_verbs, "run_verb", _strike)
    error, lines = _run(shell, f"%llama {verb} {ARGUMENTS.get(verb, '')}")
    assert isinstance(error, KeyboardInterrupt)
    assert lines == [f"Interrupted: %llama {verb} was stopped; nothing of it is kept."]


@pytest.mark.parametrize("mode", MODES)
def test_a_cell_that_is_interrupted(shell: Any, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Every mode says in one line that nothing is kept, where the interrupt came before its first token."""
    monkeypatch.setattr(_modes, "run_mode", _strike)
    error, lines = _run(shell, f"%%llama {mode} {ROWS.get(mode, '')}\ntext")
    assert isinstance(error, KeyboardInterrupt)
    assert lines == ["Interrupted: %%llama was stopped; nothing of it is kept."]


@pytest.mark.parametrize(
    ("source", "raised"),
    [
        ("%llama tokens x", False),
        ("\n%%llama chat\ntext\n", False),
        ("%llama tokens x\nprint('went on')", True),
        ("found = %llama tokens x", True),
        ("for i in range(2):\n    get_ipython().run_cell_magic('llama', 'chat', 'text')", True),
        ("%%time\n%llama tokens x\nprint('went on')", True),
    ],
)
def test_an_interrupt_is_raised_where_code_would_go_on(
    shell: Any, monkeypatch: pytest.MonkeyPatch, source: str, raised: bool
) -> None:
    """A cell that is all ours fails with a line alone; any other code is stopped by the exception."""
    monkeypatch.setattr(hosts, "host", lambda shell: "live")
    monkeypatch.setattr(_verbs, "run_verb", _strike)
    monkeypatch.setattr(_modes, "run_mode", _strike)
    tracebacks: list[Any] = []
    monkeypatch.setattr(type(shell), "_showtraceback", lambda self, *error: tracebacks.append(error))
    error, lines = _run(shell, source)
    assert isinstance(error, KeyboardInterrupt)
    assert (len(tracebacks), "went on" in lines) == (int(raised), False)
    assert any(line.startswith("Interrupted: ") for line in lines) != raised


PLACES = {  # where IPython is at work and none of our lines: before the first, between two, behind the last
    "compiling": lambda shell: (type(shell.compile), "cache"),
    "calling": lambda shell: (type(shell), "run_ast_nodes"),
    "entering": lambda shell: (LlamaMagics, "_stoppable"),
    "showing": lambda shell: (type(shell.displayhook), "__call__"),
}


@pytest.mark.parametrize("place", PLACES)
def test_an_interrupt_outside_of_our_lines_is_a_line(
    shell: Any, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Wherever in a cell of ours it strikes, no traceback of IPython's code is shown; elsewhere it is."""
    monkeypatch.setattr(_verbs, "run_verb", lambda kernel, command: 5)
    monkeypatch.setattr(*PLACES[place](shell), _strike)
    error, lines = _run(shell, "\n%llama models")
    assert type(error) is KeyboardInterrupt
    assert lines == ["Interrupted: %llama models was stopped."]
    if place != "entering":
        _, lines = _run(shell, "%llama models\n5")
        assert "Traceback" in lines[1]


def test_an_interrupt_at_the_door_of_a_function_is_a_line(shell: Any) -> None:
    """A call from Python, too: what is entered has no `try` yet. After an unload all is IPython's again."""
    shell.user_ns["strike"] = _strike
    source = (
        "import llama_magic.words.lazy as lazy\ncode = compile('strike()', lazy.__file__, 'exec')\nexec(code)"
    )
    assert _run(shell, source)[1] == ["Interrupted: a call of llama_magic was stopped."]
    assert "Traceback" in _run(shell, "strike()")[1][1]
    shell.run_cell("%unload_ext llama_magic")
    assert "Traceback" in _run(shell, source)[1][1]
    assert "showtraceback" not in vars(shell)


class _Library:
    """What some library makes: it has a finalizer in Python."""


LOSE = """
import signal, time, weakref
thing = Library()
weakref.finalize(thing, signal.raise_signal, signal.SIGINT)  # the Ctrl-C strikes inside
del thing
seen.append("went on")
while len(seen) < 100_000: time.sleep(0.001); seen.append(1)
"""


def test_an_interrupt_that_python_ignores_is_pressed_again(shell: Any) -> None:
    """Lost in a finalizer of whatever library, it stops the cell a moment later; other errors are told."""
    told: list[Any] = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda ignored: told.append(ignored.exc_type)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        shell.run_cell("%reload_ext llama_magic")
        seen: list[Any] = []
        shell.user_ns.update(Library=_Library, seen=seen)
        error, _ = _run(shell, LOSE)
        assert isinstance(error, KeyboardInterrupt)
        assert seen[0] == "went on"
        assert told == []
        thing = _Library()
        weakref.finalize(thing, lambda: 1 / 0)
        del thing
        shell.run_cell("%unload_ext llama_magic")
        thing = _Library()
        weakref.finalize(thing, _strike)
        del thing
        assert told == [ZeroDivisionError, KeyboardInterrupt]
    finally:
        signal.signal(signal.SIGINT, handler)
        sys.unraisablehook = before
