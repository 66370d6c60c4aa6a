"""How far an experiment is: a table that fills in a cell, a line in a terminal, or one now and then."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from llama_magic.display import hosts
from llama_magic.display.bundle import both
from llama_magic.display.static.doc import Bar, Head, Segment
from llama_magic.display.views.experiments.runs import latest
from llama_magic.experiments.results import Results
from llama_magic.words.amounts import duration
from llama_magic.words.counting import counted
from llama_magic.words.screens import is_screen
from llama_magic.words.standing import Standing

if TYPE_CHECKING:
    from llama_magic.display.live.waiting import Waiting

_PERIOD = 0.4  # seconds between two looks of a cell or a terminal
_SILENT = 1.0  # and at most until it says that it has begun; who waits longer may want to stop it
_NOTHING = {"text/plain": "", "text/html": ""}  # of nothing at all nbconvert warns
_BEFORE = "An experiment was under way when this was saved."  # where no kernel has the line
_RULE = (
    "<style>.jp-OutputArea-child:has(> .jp-OutputArea-output.jupyter-widgets)"
    ":has(+ .jp-OutputArea-child .lm-below-line) { display: none; }</style>"
)
_SELDOM = 30.0  # and between two lines where output is kept: a log, a notebook that nobody looks at


class _Host(Protocol):
    """Where it is shown."""

    period: float

    def show(self, results: Results[Any], standing: Standing) -> None: ...
    def end(self, results: Results[Any], standing: Standing) -> None: ...


def words(standing: Standing) -> str:
    """Say how far it is: done of total, speed, time left, errors."""
    noun = standing.noun if standing.total == 1 else f"{standing.noun}s"
    parts = [f"{standing.done:,} of {standing.total:,} {noun}"]
    if standing.rate:
        rate = f"{standing.rate:.3g}" if standing.rate < 100 else f"{standing.rate:,.0f}"
        parts.append(f"{rate} {standing.noun}s/s")
    if standing.left_s is not None and standing.done < standing.total:
        parts.append(f"{duration(standing.left_s)} left")
    if standing.errors:
        parts.append(counted(standing.errors, "error"))
    return " · ".join(parts)


@contextlib.contextmanager
def watching(results: Any, progress: bool | Callable[[Standing], Any]) -> Iterator[Callable[[], None]]:
    """Show how far `Results`, or `Vectors`, are, wherever this runs; yields what is called now and then."""
    host = host_now() if progress is True else _Told(progress)
    began = time.monotonic()
    # A first row is worth to be seen at once; of what is counted alone nothing is said where it is quick.
    first = 0.0 if isinstance(results, Results) or progress is not True else _SILENT
    seen, due = len(results), began + (_SELDOM if host.period == _SELDOM else first)
    # Whoever looks sees that it is at work, before the first result, too; and that one takes long.
    looked_at = silent = isinstance(host, (_Cell, _Terminal))

    def tick() -> None:
        nonlocal seen, due, silent
        now = time.monotonic()
        news = len(results) != seen or (looked_at and not silent)
        if (now >= due and news) or (silent and now >= began + _SILENT):
            seen, due, silent = len(results), now + host.period, False
            host.show(results, results.standing)

    try:
        yield tick
    finally:
        standing = results.standing
        # Of what was stopped no time is left to wait; a function of the user's is told what it always was.
        host.end(results, standing if callable(progress) else replace(standing, left_s=None))


def host_now() -> _Host:
    shell = hosts.current_shell()
    where = hosts.host(shell)
    if where == "live":
        return _Cell(shell)
    if where == "plain" and not hosts.is_captured(shell):
        return _Kept(shell)
    # `jupyter console` shows what a kernel writes, which is no terminal to the kernel.
    seen = where == "terminal" and (getattr(shell, "kernel", None) is not None or is_screen(sys.stdout))
    return _Terminal() if seen else _Log()


class _Told:
    """A function of the user's."""

    period = 0.0

    def __init__(self, tell: Any) -> None:
        self._tell = tell

    def show(self, results: Results[Any], standing: Standing) -> None:
        self._tell(standing)

    end = show


class _Cell:
    """A table of the latest results, in the cell; above it, from a second on, the time left and Stop.

    The table is true for ever: where the kernel ends before the experiment, the saved notebook keeps it.
    """

    period = _PERIOD

    def __init__(self, shell: Any) -> None:
        self._shell, self._began = shell, time.monotonic()
        self._line, self._table = hosts.Output(shell), hosts.Output(shell)
        self._waiting: Waiting | None = None
        self._rows = 0  # in the table: it is not made anew under who reads it, unless there are more

    def show(self, results: Results[Any], standing: Standing) -> None:
        if not self._line.there:
            self._line.publish(_NOTHING)  # it will stand above the table
        if self._waiting is None and time.monotonic() >= self._began + _SILENT:
            self._begin()
        if self._waiting is not None:
            self._waiting.say(standing.left_s)
        if self._table.there and standing.done == self._rows:
            return
        self._rows = standing.done
        done = Segment("done", "prompt", standing.done)
        rows = latest(results) if isinstance(results, Results) else ()
        head = Head("so far", words(replace(standing, left_s=None)))
        table = both([head, Bar((done,), max(1, standing.total)), *rows])
        table["text/html"] = _below(table["text/html"])
        self._table.publish(table)

    def _begin(self) -> None:
        with contextlib.suppress(ImportError):  # no widget library: there is the table
            from llama_magic.display.live.waiting import Waiting  # for weight: ipywidgets

            self._waiting = Waiting()
            self._line.publish(self._waiting.bundle(_BEFORE))

    def end(self, results: Results[Any], standing: Standing) -> None:
        if not self._line.there:
            return
        last = both([Head("done" if not results.missing else "stopped", words(standing))])
        self._line.publish(last)
        if self._table.there:
            self._table.publish(_NOTHING)
        if self._waiting is not None:
            self._waiting.leave(hosts.cell(self._shell), hosts.run_number(self._shell), last)


def _below(table: str) -> str:
    """Return the HTML of a table that hides the error in place of a line that no kernel has any more."""
    return _RULE + table.replace('class="lm', 'class="lm lm-below-line', 1)


class _Terminal:
    """One line that is written over."""

    period = _PERIOD

    def __init__(self) -> None:
        self._width = 0

    def show(self, results: Results[Any], standing: Standing) -> None:
        line = words(standing)
        hosts.say("\r" + line.ljust(self._width))
        self._width = len(line)

    def end(self, results: Results[Any], standing: Standing) -> None:
        if self._width:
            self.show(results, standing)
            hosts.say("\n")


class _Kept(hosts.Output):
    """A line that is brought up to date now and then where all output is saved, and leaves nothing there.

    How fast it went differs from run to run, so it has no place in what is compared with the run before.
    """

    period = _SELDOM

    def show(self, results: Results[Any], standing: Standing) -> None:
        self.publish({"text/plain": words(standing)})

    def end(self, results: Results[Any], standing: Standing) -> None:
        if self.there:
            self.publish(_NOTHING)


class _Log:
    """A line now and then: nothing of a short experiment, and nothing among what a script writes itself."""

    period = _SELDOM

    def show(self, results: Results[Any], standing: Standing) -> None:
        print(words(standing), file=sys.stderr, flush=True)

    def end(self, results: Results[Any], standing: Standing) -> None:
        """Say no more: the results themselves are what follows."""
