"""Progress of a load or a measurement; then the model's card, or what was found, in its place."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

from llama_magic.display import hosts
from llama_magic.display.bundle import both, mimebundle
from llama_magic.display.static.doc import Bar, Head, Node, Segment
from llama_magic.words.amounts import duration, size
from llama_magic.words.progress import Progress
from llama_magic.words.screens import is_screen

DELAY = 0.3  # seconds; a quicker job shows nothing on its way
_PERIOD = 0.2
_STAGES = {
    "resolve": "looking up",
    "download": "downloading",
    "verify": "verifying",
    "check": "checking the backend",
    "load": "loading",
    "prompt": "reading the prompt",
    "measure": "measuring",
}


class LoadProgress:
    """A progress callback that is a context manager; `done(card)` leaves the card in its place.

    Nothing is shown in the first `delay` seconds (None: `DELAY`). Where nobody looks (nbclient, nbval,
    papermill, `%%capture`, a script's log) only the card is published.
    """

    def __init__(self, shell: Any = None, delay: float | None = None) -> None:
        self._shell = shell if shell is not None else hosts.current_shell()
        self._host = hosts.host(self._shell)
        if (
            self._host == "terminal"
            and getattr(self._shell, "kernel", None) is None
            and not is_screen(sys.stdout)
        ):
            self._host = "plain"  # a file or a pipe, where a line that is written over is a long one
        self._output = hosts.Output(self._shell)
        self._width = 0
        self._due = time.monotonic() + (DELAY if delay is None else delay)
        self._finished = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._finished:
            self._replace({"text/plain": ""})

    def __call__(self, state: Progress) -> None:
        """Show how far a stage is, at most five times a second."""
        now = time.monotonic()
        if self._host == "plain" or self._finished or now < self._due:
            return
        self._due = now + _PERIOD
        nodes = progress_nodes(state)
        if self._host == "terminal":
            self._line(f"{nodes[0].label} {nodes[0].details}")
            return
        self._output.publish(both(nodes))

    def done(self, card: Any) -> None:
        """Replace the progress by the card of what was loaded (anything that `show` takes)."""
        self._finished = True
        self._replace(mimebundle(card))

    def _replace(self, bundle: dict[str, Any]) -> None:
        self._finished = True
        if self._host == "terminal" and self._width:
            self._line("")
            hosts.say("\r")
        if self._output.there:
            self._output.publish(bundle)
        elif bundle["text/plain"]:
            hosts.publish(self._shell, bundle)

    def _line(self, text: str) -> None:
        hosts.say("\r" + text.ljust(self._width))
        self._width = len(text)


def progress_nodes(state: Progress) -> tuple[Head, *tuple[Node, ...]]:
    """Say how far a stage is: done of total, speed, time left, where a download went on from."""
    amount = size if state.unit == "B" else (lambda n: f"{n:,.0f} {state.unit}")
    words = [amount(state.done) + (f" of {amount(state.total)}" if state.total else "")]
    if state.total:
        words.append(f"{state.done / state.total:.0%}")
    if state.speed:
        words.append(f"{amount(state.speed)}/s")
    if state.eta_s is not None:
        words.append(f"{duration(state.eta_s)} left")
    if state.stage == "download":
        words.append(f"resumed at {amount(state.resumed_from)}" if state.resumed_from else "from the start")
    if state.unit == "%":
        words = [f"{state.done}%"]
    head = Head(_STAGES[state.stage], " · ".join(word for word in (state.label, *words) if word))
    if not state.total:
        return (head,)
    return (head, Bar((Segment("done", "prompt", min(state.done, state.total)),), state.total))
