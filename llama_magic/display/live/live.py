"""The live view: an anywidget that is fed with deltas, and replaced by static output at the end.

While a cell runs a widget can speak to the front end but not hear it, so Stop is the front
end's own interrupt, and nothing here ever waits for an answer. A view may appear late (its
script loads while messages pass), so each delta says which state it changes, and now and then
all is sent again: at the start, and each time it has doubled. Markdown is read here, once, into
elements (`growing`); the page makes nodes of them and reads nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import traitlets

from llama_magic.display import hosts
from llama_magic.display.live import leaving
from llama_magic.display.live.feed import Feed
from llama_magic.display.views import gauge
from llama_magic.model.results import Budget, Chunk
from llama_magic.threads import Latch, of_the_cell, set_going
from llama_magic.words.progress import Progress

_PERIOD = 1 / 10  # seconds between messages: each costs a page about 8 ms of drawing, whatever its size
_LONG = 5.0  # seconds of writing, after which ...
_LONG_PERIOD = 1 / 5  # ... a reader is behind anyway, and the model can use the processor
_SHARE = 10  # a view is idle this many times as long as it took to read what is new
_FALLBACK = "The answer is being written; it will stand here when it is done."


class LiveView(leaving.Leaving):
    """The widget behind the live view; `head` is what is known before the first token of an answer."""

    # Text, not a path: anywidget keeps every widget whose script it may have to reload.
    _esm = leaving.script("live.js")
    head = traitlets.Dict().tag(sync=True)


class Live:
    """Feed a live view from one background thread, at most ten messages a second."""

    def __init__(
        self,
        shell: Any,
        *,
        head: dict[str, Any],
        budget: Callable[[], Budget],
        progress: Callable[[], Progress | None],
    ) -> None:
        """Make the view; `head` has `title`, `model`, how many `samples`, whether the answer is `markdown` or
        a `form`, the names of its `fields`, and what it comes `after`, in words. `budget` returns that of the
        answer at work: one call may have several, between tools, or where a check fails.
        """
        self._shell, self._progress, self._budget = shell, progress, budget
        self._output = hosts.Output(shell)
        self._feed = Feed(head["markdown"])
        self._ended = Latch()
        self._shown = budget()
        self._widget = LiveView(head=head | _gauge_head(self._shown))
        self._over = False  # an answer has ended, and it is not known whether another will begin
        self._left = False  # the static output stands there
        self._thread = of_the_cell(self._run, name="llama_magic-live")

    def begin(self) -> None:
        """Show it."""
        self._output.publish(self._widget.bundle(_FALLBACK))
        set_going(self._thread)

    def feed(self, chunk: Chunk) -> None:
        """Take a chunk, to be sent with the next message; another answer has a gauge of its own."""
        if self._over and not chunk.turns:
            self._over = False
            if (budget := self._budget()) != self._shown:
                self._shown = budget
                self._feed.anew(self._widget.head["form"])
                self._widget.head = self._widget.head | _gauge_head(budget)
        self._over = self._over or chunk.finish_reason is not None
        self._feed.add(chunk)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._feed.news.wait(0.2)
            began = time.thread_time()
            message = self._feed.take()
            rest = _SHARE * (time.thread_time() - began)
            if not self._feed.started and (state := self._progress()) is not None:
                message = {"progress": [state.done, state.total or 0]}
            if message:
                self._widget.send(message)
            period = _LONG_PERIOD if self._feed.written_for() > _LONG else _PERIOD
            self._ended.wait(max(period, rest))

    def finish(self, bundle: dict[str, Any], completion: Any) -> None:
        """Put the static output in the view's place; the widget closes when a page has it."""
        self.quit()
        if self._thread.is_alive():
            self._thread.join()
        if not self._left:
            self._output.publish(bundle)
            self._left = True
            self._widget.leave(hosts.cell(self._shell), hosts.run_number(self._shell), bundle)

    def quit(self) -> None:
        """Send nothing more."""
        self._ended.set()
        self._feed.news.ring()


def _gauge_head(budget: Budget) -> dict[str, Any]:
    return {
        "window": budget.window,
        "prompt": budget.prompt_tokens,
        "cached": budget.cached_tokens,
        "max_tokens": budget.max_tokens,
        "parts": [
            asdict(part)
            for part in gauge.segments(Budget(budget.window, budget.prompt_tokens, 0, budget.parts))
        ],
    }
