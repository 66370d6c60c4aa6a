"""From token bytes to text: incremental UTF-8, and stop strings that straddle tokens."""

from __future__ import annotations

import codecs
from collections.abc import Iterable


class TextStream:
    """Turn token bytes into text as early as is safe.

    `decode()` takes the bytes of one token and returns text that can no longer become part of
    a stop string or of an unfinished character; `flush()` returns what was held back. After a
    stop string was seen, `stop` names it, and nothing of it or after it is ever returned.

    The stop string that is *complete first* wins; of several complete at the same byte, the
    one that starts first. So the text does not depend on how it was cut into tokens.
    """

    def __init__(self, stops: Iterable[str] = ()) -> None:
        self._stops = tuple(stops)
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.stop: str | None = None

    @classmethod
    def begun(cls, stops: Iterable[str], pieces: Iterable[bytes]) -> tuple[TextStream, str]:
        """Return the stream of a text that goes on from `pieces`, and what is certain of these.

        A stop string may begin in them and end after; one that is whole in them ends nothing.
        """
        pieces = tuple(pieces)
        stream = cls(stops)
        text = "".join(map(stream.decode, pieces))
        if stream.stop is None:
            return stream, text
        stream = cls(stops)
        return stream, b"".join(pieces).decode("utf-8", "replace")

    def decode(self, data: bytes) -> str:
        """Return the text that is now certain."""
        if not self._stops and not self._utf8.buffer and data.isascii():  # most tokens are
            return data.decode("ascii")
        return self._advance(self._utf8.decode(data))

    def flush(self) -> str:
        """Return what was held back; an unfinished character comes out as U+FFFD."""
        text = self._advance(self._utf8.decode(b"", final=True))
        if self.stop is None:
            text, self._held = text + self._held, ""
        return text

    def _advance(self, text: str) -> str:
        if self.stop is not None:
            return ""
        self._held += text
        if not self._stops:
            out, self._held = self._held, ""
            return out
        found = self._first_stop()
        if found is not None:
            start, self.stop = found
            out, self._held = self._held[:start], ""
            return out
        keep = self._undecided()
        cut = len(self._held) - keep
        out, self._held = self._held[:cut], self._held[cut:]
        return out

    def _first_stop(self) -> tuple[int, str] | None:
        best: tuple[int, int, str] | None = None
        for stop in self._stops:
            start = self._held.find(stop)
            if start >= 0 and (best is None or (start + len(stop), start) < best[:2]):
                best = (start + len(stop), start, stop)
        return None if best is None else (best[1], best[2])

    def _undecided(self) -> int:
        """Return the length of the longest end of the text that begins some stop string."""
        longest = 0
        for stop in self._stops:
            for size in range(min(len(stop) - 1, len(self._held)), longest, -1):
                if self._held.endswith(stop[:size]):
                    longest = size
                    break
        return longest
