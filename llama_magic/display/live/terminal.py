"""Terminals: text as it grows, then one line of figures."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from llama_magic.display import hosts
from llama_magic.display.static import text as render_text
from llama_magic.display.views import gauge, turns
from llama_magic.display.views.model.results import ending, held, notes
from llama_magic.model.results import Chunk, Completion
from llama_magic.threads import Latch, set_going
from llama_magic.words.harmless import visible
from llama_magic.words.progress import Progress
from llama_magic.words.screens import is_screen

_WAIT = 0.5  # seconds before a long prompt is worth a word
_PERIOD = 0.2


class Terminal:
    """Write deltas to standard output, made harmless; say how far a long prompt is read."""

    def __init__(self, progress: Callable[[], Progress | None]) -> None:
        self._out = sys.stdout
        self._takes = True
        self._text = ""
        self._thinking = False
        self._samples = False
        self._done = False
        self._reading = Ticker(self._read(progress)) if is_screen(self._out) else None

    def begin(self) -> None:
        """Wait for the first words."""
        if self._reading is not None:
            self._reading.start()

    def feed(self, chunk: Chunk) -> None:
        """Write what is new. Of several samples the first is streamed, the others follow at the end."""
        self.quit()
        if chunk.sample:
            self._samples = True
            return
        if chunk.thinking:
            self._write(("" if self._thinking else "thinking: ") + chunk.thinking)
            self._thinking = True
        if chunk.delta:
            self._write("\n\n" * self._thinking + chunk.delta)
            self._thinking = False
        for line in (*turns.calls(chunk.tool_calls), *map(turns.result_line, chunk.turns)):
            self._write(f"{'' if self._text.endswith(chr(10)) or not self._text else chr(10)}{line}\n")

    def finish(self, bundle: dict[str, Any], completion: Any) -> None:
        """End the text and write the figures."""
        if self._done:
            return
        self._done = True
        self.quit()
        line = "" if self._text.endswith("\n") or not self._text else "\n"
        if isinstance(completion, Completion):
            measured = held(completion)
            table = f"{render_text.page(measured)}\n" if measured else ""
            self._put(f"{line}{table}{figures(completion)}\n")
        else:
            self._put(f"{line}{bundle['text/plain'] if self._samples else ''}\n")

    def _write(self, text: str) -> None:
        self._text = text or self._text
        self._put(visible(text))

    def _put(self, text: str) -> None:
        """Write to what was standard output at the beginning; to one that has failed, no more."""
        self._takes = self._takes and hosts.say(text, self._out)

    def quit(self) -> None:
        """Say no more of how far the prompt is read."""
        if self._reading is not None:
            self._reading.stop()
            self._reading = None

    def _read(self, progress: Callable[[], Progress | None]) -> Callable[[bool], None]:
        shown = False

        def tick(last: bool) -> None:
            nonlocal shown
            state = None if last else progress()
            if state is not None:
                self._put(f"\rreading the prompt: {state.done:,} of {state.total or 0:,} tokens")
                shown = True
            elif last and shown:
                self._put("\r" + " " * 60 + "\r")

        return tick


class Ticker:
    """Call `tick(False)` a few times a second on a thread of its own, and `tick(True)` at the end.

    It is made by itself and started when it is kept where an interrupt finds it: else it would tick for ever.
    """

    def __init__(self, tick: Callable[[bool], None]) -> None:
        self._tick = tick
        self._ended = Latch()
        self._thread = threading.Thread(target=self._run, name="llama_magic-progress", daemon=True)

    def start(self) -> None:
        set_going(self._thread)

    def _run(self) -> None:
        wait = _WAIT
        while not self._ended.wait(wait):
            self._tick(False)
            wait = _PERIOD
        self._tick(True)

    def stop(self) -> None:
        """End the thread and wait for its last tick."""
        self._ended.set()
        if self._thread.is_alive():  # else it was not started, or is about to see that it has ended
            self._thread.join()


def figures(completion: Completion) -> str:
    """Return one line: how the window was filled, how fast, why it ended; then what was dropped or cut."""
    written = completion.usage.completion_tokens
    times = completion.timings
    speed = f" · first token {times.first_token_s:.2f} s" if written and not completion.replayed else ""
    speed += f" · {times.tokens_per_second:.1f} tok/s" if completion.usage.drawn_tokens > 1 and speed else ""
    budget = gauge.ended(completion.budget, written)
    usage = completion.usage
    drafts = usage.accepted_tokens, usage.drafted_tokens
    words = gauge.words(budget, written, forced=usage.forced_tokens, drafts=drafts, reused=True)
    line = f"[{words}{speed} · seed {completion.seed} · {ending(completion)}]"
    return "\n".join((line, *notes(completion)))
