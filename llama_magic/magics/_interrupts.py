"""Ctrl-C that strikes a cell of ours where none of our lines can catch it: it, too, is shown in a line.

Between a cell's request and our first line, and behind our last, runs IPython; a function that is being
entered has no `try` yet. What is raised there has a traceback of other people's code, which helps nobody.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from llama_magic.magics import _lost

_PACKAGE = str(Path(__file__).parents[1])
_CELL = re.compile(r"\s*(%%llama\b|%llama(?:\s+[\w-]+)?(?=[^\n]*\s*\Z))")  # of which the magic is all
_RUNS = ("run_cell_async", "_run_cell", "run_cell")  # IPython's, from the inside out
_MARK = "_of_llama_magic"


def install(shell: Any) -> None:
    """Have a shell show such interrupts in a line; a second call changes nothing."""
    _lost.install()
    if _MARK in vars(shell):
        return
    shown = shell.showtraceback

    def showtraceback(exc_tuple: Any = None, *args: Any, **options: Any) -> Any:
        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
        if type(error) is KeyboardInterrupt and (what := _struck(error)):
            error._render_traceback_ = lambda: [f"Interrupted: {what} was stopped."]  # type: ignore[attr-defined]
        return shown(exc_tuple, *args, **options)

    vars(shell)[_MARK] = vars(shell).get("showtraceback")  # somebody else may have put one there
    vars(shell)["showtraceback"] = showtraceback


def uninstall(shell: Any) -> None:
    """Undo `install`."""
    _lost.uninstall()
    if _MARK in vars(shell):
        before = vars(shell).pop(_MARK)
        del vars(shell)["showtraceback"]
        if before is not None:
            vars(shell)["showtraceback"] = before


def _struck(error: BaseException) -> str:
    """Return what of ours was interrupted, "" where it was something else."""
    if found := _CELL.match(_source()):
        return found[1]
    return "a call of llama_magic" if _is_ours(error.__traceback__) else ""


def _source() -> str:
    """Return the source of the cell at work, also before IPython has noted it: from its own frames."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name in _RUNS and isinstance(source := frame.f_locals.get("raw_cell"), str):
            return source
        frame = frame.f_back
    return ""


def _is_ours(trace: TracebackType | None) -> bool:
    """Tell whether it struck in this package, or in what that called."""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            return True
        trace = trace.tb_next
    return False
