"""The live view: an anywidget that is fed with deltas, and replaced by static output at the end.

While a cell runs a widget can speak to the front end but not hear it, so Stop is the front
end's own interrupt, and nothing here ever waits for an answer. A page that is loaded again in
the middle of a run gets no more of its output from JupyterLab (4.6); but once the kernel is idle
it asks for all widgets. So a view that has ended holds the static output until a page has said
that it stands in its cell. A view may appear late (its
script loads while messages pass), so each delta says where it starts, and now and then the
whole text is sent again: at the start, and each time it has doubled. The bytes sent stay
below four times the text.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import anywidget
import traitlets

from llama_magic.display import hosts
from llama_magic.display.views import gauge
from llama_magic.display.views.data import leaves, plain
from llama_magic.model.results import Budget, Chunk
from llama_magic.words.harmless import visible
from llama_magic.words.progress import Progress

_PERIOD = 1 / 10  # seconds between messages: each costs a page about 8 ms of drawing, whatever its size
_LONG = 5.0  # seconds of writing, after which ...
_LONG_PERIOD = 1 / 5  # ... a reader is behind anyway, and the model can use the processor
_EARLY = 3.0  # seconds in which a view may still be loading ...
_SMALL = 2_000  # ... and characters that are cheap to send again
_KEPT = 50  # ended views that no page has answered for: a tab that was closed, cells run one after the other
_FALLBACK = "The answer is being written; it will stand here when it is done."
_HERE = Path(__file__).parent


class LiveView(anywidget.AnyWidget):
    """The widget behind the live view; `head` is what is known before the first token."""

    # Text, not a path: anywidget keeps every widget whose script it may have to reload.
    _esm = (_HERE / "markdown.js").read_text("utf-8") + (_HERE / "live.js").read_text("utf-8")
    _css = (_HERE.parent / "static" / "base.css").read_text("utf-8") + (_HERE / "live.css").read_text("utf-8")
    head = traitlets.Dict().tag(sync=True)
    left = traitlets.Dict().tag(sync=True)

    _unanswered: ClassVar[deque[LiveView]] = deque()

    def leave(self, cell: str | None, run: int | None, bundle: dict[str, Any]) -> None:
        """Hold the static output of a cell's run until a page says that it stands there."""
        self.on_msg(self._answered)
        self._unanswered.append(self)
        self.left = {"cell": cell, "run": run, "view": self.model_id, "bundle": bundle}
        while len(self._unanswered) > _KEPT:
            self._unanswered.popleft().close()

    def _answered(self, widget: Any, content: Any, buffers: Any) -> None:
        if isinstance(content, dict) and content.get("settled"):
            self.close()

    def close(self) -> None:
        """Close the widget, and the layout that ipywidgets gave it, which would stay behind."""
        with contextlib.suppress(ValueError):
            self._unanswered.remove(self)
        layout = self.layout
        super().close()
        if layout is not None:
            layout.close()


class Live:
    """Feed a live view from one background thread, at most ten messages a second."""

    def __init__(
        self,
        shell: Any,
        *,
        head: dict[str, Any],
        budget: Budget,
        progress: Callable[[], Progress | None],
    ) -> None:
        """Show the view; `head` has `title`, `model`, `fields` and whether the answer is `markdown`."""
        self._shell, self._progress, self._budget = shell, progress, budget
        self._display_id: str | None = uuid.uuid4().hex  # transient: it is not saved
        self._feed = Feed()
        self._ended = threading.Event()
        self._widget = LiveView(head=head | _gauge_head(budget))
        view = {"version_major": 2, "version_minor": 0, "model_id": self._widget.model_id}
        bundle = {"application/vnd.jupyter.widget-view+json": view, "text/plain": _FALLBACK}
        hosts.publish(shell, bundle, display_id=self._display_id)
        # The thread runs in the cell's context: ipykernel finds the cell that messages belong to by it.
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._run,), name="llama_magic-live", daemon=True
        )
        self._thread.start()

    def feed(self, chunk: Chunk) -> None:
        """Take a chunk; it is sent with the next message."""
        self._feed.add(chunk)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._feed.news.wait(0.2)
            message = self._feed.take()
            if not self._feed.started and (state := self._progress()) is not None:
                message = {"progress": [state.done, state.total or 0]}
            if message:
                self._widget.send(message)
            self._ended.wait(_LONG_PERIOD if self._feed.written_for() > _LONG else _PERIOD)

    def finish(self, bundle: dict[str, Any], completion: Any) -> None:
        """Put the static output in the view's place; the widget closes when a page has it."""
        self._ended.set()
        self._feed.news.set()
        self._thread.join()
        if self._display_id is not None:
            hosts.publish(self._shell, bundle, display_id=self._display_id, update=True)
            self._display_id = None
            self._widget.leave(hosts.cell(self._shell), hosts.run_number(self._shell), bundle)


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


class Feed:
    """What is new since the last message, in as few bytes as it takes.

    A message holds `text`: `[channel, offset, piece]` for each channel with news (a sample's
    number, or `"thinking"`); `rows`: `[path, offset, piece]` for a structured answer's fields
    that changed; `figures`: tokens, seconds to the first, tokens a second.
    """

    def __init__(self) -> None:
        self.news = threading.Event()
        self.started = False
        self._lock = threading.Lock()
        self._begun = time.monotonic()
        self._first = 0.0
        self._tokens = 0
        self._channels: dict[int | str, _Channel] = {}
        self._partial: Any = None
        self._rows: dict[str, str] = {}
        self._whole = _Whole()

    def add(self, chunk: Chunk) -> None:
        """Take a chunk in; cheap, for it runs between two tokens."""
        with self._lock:
            if not self.started:
                self.started, self._first = True, time.monotonic()
            self._tokens += len(chunk.token_ids)
            if chunk.delta:
                self._channels.setdefault(chunk.sample, _Channel()).pieces.append(chunk.delta)
            if chunk.thinking:
                self._channels.setdefault("thinking", _Channel()).pieces.append(chunk.thinking)
            if chunk.partial is not None:
                self._partial = chunk.partial
        self.news.set()

    def written_for(self) -> float:
        """Return the seconds since the first chunk."""
        return time.monotonic() - self._first if self.started else 0.0

    def take(self) -> dict[str, Any]:
        """Return the next message, empty where nothing is new."""
        self.news.clear()
        now = time.monotonic()
        with self._lock:
            early = now - self._begun < _EARLY
            text = [
                [name, *piece] for name, channel in self._channels.items() if (piece := channel.take(early))
            ]
            partial, tokens = self._partial, self._tokens
        rows = self._changed(partial, early) if partial is not None else []
        if not text and not rows:
            return {}
        spent = now - self._first
        rate = (tokens - 1) / spent if tokens > 1 and spent > 0.2 else 0.0
        figures = [tokens, round(self._first - self._begun, 3), round(rate, 1)]
        return {"figures": figures} | ({"text": text} if text else {}) | ({"rows": rows} if rows else {})

    def _changed(self, partial: Any, early: bool) -> list[list[Any]]:
        rows = {path: visible(str(value)) for path, value in leaves(plain(partial))}
        before, self._rows = self._rows, rows
        if rows == before and not early:
            return []
        if self._whole.due(sum(map(len, rows.values())), early):
            return [[path, 0, text] for path, text in rows.items()]
        changed = [
            (path, text, before.get(path, "")) for path, text in rows.items() if text != before.get(path)
        ]
        return [
            [path, len(old), text[len(old) :]] if text.startswith(old) else [path, 0, text]
            for path, text, old in changed
        ]


class _Whole:
    """When to send all of something again: early while small, once after that, when it has doubled."""

    def __init__(self) -> None:
        self._length = 0
        self._late = False

    def due(self, length: int, early: bool) -> bool:
        """Return whether `length` characters are due whole; then they count as sent."""
        first_late = not early and not self._late
        self._late = self._late or not early
        if not ((early or first_late) and length < _SMALL) and length < 2 * self._length:
            return False
        self._length = length
        return True


class _Channel:
    """One growing text: what was sent of it and what waits."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._sent: list[str] = []
        self._length = 0
        self._whole = _Whole()

    def take(self, early: bool) -> tuple[int, str] | None:
        """Return (offset, piece): what is new, or all of it where that is due."""
        if not self.pieces:
            return None
        piece = visible("".join(self.pieces))
        self.pieces.clear()
        offset = self._length
        self._sent.append(piece)
        self._length += len(piece)
        return (0, "".join(self._sent)) if self._whole.due(self._length, early) else (offset, piece)
