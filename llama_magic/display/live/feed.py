"""What of a growing answer is new, in as few bytes as it takes."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from llama_magic.display.live.growing import Growing
from llama_magic.display.views import turns
from llama_magic.display.views.data import leaves, plain
from llama_magic.model.results import Chunk
from llama_magic.threads import Bell
from llama_magic.words.harmless import visible

_EARLY = 3.0  # seconds in which a view may still be loading ...
_SMALL = 2_000  # ... and characters that are cheap to send again
_PARTS, _PART = 6, 60  # stretches of text between guesses, and characters of each, that are shown
_QUIET = 0.25  # seconds after which an answer that has stopped is sent again, then twice as many, and so on


class Feed:
    """What is new since the last message, in as few bytes as it takes.

    A message holds `nodes`: `[channel, from, to, changes]` for each channel with news (a sample's number, or
    `"thinking 0"`), which turns the channel's state number `from` into `to`, and now and then all of it as a
    fifth item; `rows`: `[sample, path, offset, piece]` for a structured answer's fields that changed;
    `figures`: tokens of the longest sample, seconds to the first, tokens a second of all; `ended`: samples
    that are written, where others are not; `guesses`, where tokens were guessed ahead: how many came, of how
    many, and the end of the text as `[text, kind]`, kind being "drawn", "accepted" or "struck". `clock`
    returns seconds.
    """

    def __init__(self, markdown: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._markdown, self._clock = markdown, clock
        self.news = Bell()
        self.started = False
        self._lock = threading.Lock()
        self._begun = self._clock()
        self._first = 0.0
        self._tokens: Counter[int] = Counter()  # by sample
        self._said: list[Any] = []  # the figures, as they were sent
        self._last: float | None = None  # when tokens came last
        self._wrote = (0, 0.0)  # tokens that came after others, and in how many seconds
        self._ended: set[int] = set()
        self._channels: dict[int | str, _Channel] = {}
        self._forms: dict[int, _Form] = {}  # by sample
        self._guesses = _Guesses()
        self._again = _QUIET

    def add(self, chunk: Chunk) -> None:
        """Take a chunk in; cheap, for it runs between two tokens."""
        now = self._clock()
        with self._lock:
            if not self.started:
                self.started, self._first = True, now
            if chunk.token_ids:
                self._count(chunk, now)
            if chunk.finish_reason is not None:
                self._ended.add(chunk.sample)
            self._guesses.add(chunk)
            if chunk.delta:
                self._channel(chunk.sample).pieces.append(chunk.delta)
            if chunk.thinking:
                self._channel(f"thinking {chunk.sample}").pieces.append(chunk.thinking)
            for line in (*turns.calls(chunk.tool_calls), *map(turns.result_line, chunk.turns)):
                around = "\n\n```\n{}\n```\n\n" if self._markdown else "\n{}\n"  # verbatim
                self._channel(chunk.sample).pieces.append(around.format(line))
            if chunk.partial is not None:
                self._forms.setdefault(chunk.sample, _Form()).partial = chunk.partial
        self.news.ring()

    def _count(self, chunk: Chunk, now: float) -> None:
        """Count tokens, and how fast they come: while a tool runs or a prompt is read none do."""
        self._tokens[chunk.sample] += len(chunk.token_ids)
        if self._last is not None:
            tokens, seconds = self._wrote
            self._wrote = tokens + len(chunk.token_ids) - chunk.forced, seconds + now - self._last
        self._last = now

    def anew(self, form: bool) -> None:
        """Count from nothing: the next answer of the same call begins. After tools it stands below what there
        is; a `form` whose check failed is filled again.
        """
        with self._lock:
            if form:
                self._channels.clear()
                self._forms.clear()
            self._tokens.clear()
            self._ended.clear()
            self._last = None

    def _channel(self, name: int | str) -> _Channel:
        if name not in self._channels:
            self._channels[name] = _Channel(self._markdown and isinstance(name, int))
        return self._channels[name]

    def written_for(self) -> float:
        """Return the seconds since the first chunk."""
        return self._clock() - self._first if self.started else 0.0

    def take(self) -> dict[str, Any]:
        """Return the next message, empty where nothing is new."""
        now = self._clock()
        early = now - self._begun < _EARLY
        with self._lock:  # reading Markdown takes a while: nobody who decodes waits for that
            fresh = [(name, channel, channel.taken()) for name, channel in self._channels.items()]
            forms = [(sample, form, form.partial) for sample, form in self._forms.items()]
            guesses = self._guesses.taken()
            most, (tokens, seconds) = max(self._tokens.values(), default=0), self._wrote
            ended = sorted(self._ended) if len(self._ended) < len(self._tokens) else []
        quiet = self.started and not any(text for _, _, text in fresh) and self._quiet_for(now)
        nodes = [[name, *channel.grown(text, early, quiet)] for name, channel, text in fresh if text or quiet]
        rows = [[i, *row] for i, form, partial in forms for row in form.changed(partial, early, quiet)]
        rate = tokens / seconds if tokens > 0 and seconds > 0.2 else 0.0
        figures = [most, round(self._first - self._begun, 3), round(rate, 1)]
        if not nodes and not rows and figures == self._said:
            return {}
        self._said = figures
        news = {"nodes": nodes, "rows": rows, "guesses": guesses, "ended": ended}
        return {"figures": figures} | {name: new for name, new in news.items() if new}

    def _quiet_for(self, now: float) -> bool:
        """Return whether it is time to send all again, though nothing is new: a view may be late."""
        if now - self._begun < self._again:
            return False
        self._again = 2 * (now - self._begun)
        return True


class _Guesses:
    """How many guesses came, and the end of the first sample's text with them and those that did not."""

    def __init__(self) -> None:
        self._came = self._made = 0
        self._parts: deque[tuple[str, str]] = deque(maxlen=_PARTS)

    def add(self, chunk: Chunk) -> None:
        """Take a chunk in."""
        self._came += chunk.guessed
        self._made += chunk.guessed + len(chunk.struck)
        if chunk.sample == 0:  # struck guesses stood where the token came, so they stand before it
            self._part("".join(chunk.struck), "struck")
            self._part(chunk.thinking + chunk.delta, "accepted" if chunk.guessed else "drawn")

    def _part(self, text: str, kind: str) -> None:
        if text and self._parts and self._parts[-1][1] == kind:
            self._parts[-1] = ((self._parts[-1][0] + text)[-_PART:], kind)
        elif text:
            self._parts.append((text, kind))

    def taken(self) -> list[Any]:
        """Return what the page shows of it, empty where nothing was guessed."""
        if not self._made:
            return []
        return [self._came, self._made, [[visible(text), kind] for text, kind in self._parts]]


class _Form:
    """A structured answer as it grows: the object so far, and the rows of it that were sent."""

    def __init__(self) -> None:
        self.partial: Any = None
        self._rows: dict[str, str] = {}
        self._whole = _Whole()

    def changed(self, partial: Any, early: bool, quiet: bool) -> list[list[Any]]:
        """Return `[path, offset, piece]` for each row that differs from what was sent, or is due again."""
        data = plain(partial)
        said = leaves(data)[: -1 if _just_opened(data) else None]
        rows = {path: visible(str(value)) for path, value in said}
        before, self._rows = self._rows, rows
        if rows == before and not (early or quiet):
            return []
        if self._whole.due(sum(map(len, rows.values())), early) or quiet:
            return [[path, 0, text] for path, text in rows.items()]
        changed = [
            (path, text, before.get(path, "")) for path, text in rows.items() if text != before.get(path)
        ]
        return [
            [path, len(old), text[len(old) :]] if text.startswith(old) else [path, 0, text]
            for path, text, old in changed
        ]


def _just_opened(value: Any) -> bool:
    """Return whether the last that was written is the bracket of an object or list: nothing is in it yet."""
    while value and isinstance(value, (dict, list)):
        value = value[-1] if isinstance(value, list) else value[next(reversed(value))]
    return isinstance(value, (dict, list))


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
    """One growing text: what waits of it, and its elements."""

    def __init__(self, markdown: bool) -> None:
        self.pieces: list[str] = []
        self._growing = Growing(markdown)
        self._state = 0
        self._length = 0
        self._whole = _Whole()

    def taken(self) -> str:
        """Return what waits, and let it wait no longer."""
        text = "".join(self.pieces)
        self.pieces.clear()
        return text

    def grown(self, text: str, early: bool, quiet: bool) -> list[Any]:
        """Return [from, to, changes], with all of it at the end where that is due, or the answer is quiet."""
        text = visible(text)
        made = self._growing.add(text)
        self._length += len(text)
        self._state += 1
        whole = [self._growing.anew()] if self._whole.due(self._length, early) or quiet else []
        return [self._state - 1, self._state, made, *whole]
