"""What is sent to a server, as JSON, and what it streams, cut into JSON values: server-sent events, JSON one
a line, or one JSON for all.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from llama_magic.errors import ServerError
from llama_magic.words.given import utf8

# What reading an answer of another shape raises.
MISREAD = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
MOST = 16 << 20  # bytes of one value
DONE = {"done": True}  # stands for the last event of OpenAI's format; what comes after it is nothing
_FIELD = re.compile(rb"[A-Za-z_-]{1,40}")
_ORDINARY = (b"", b"message", b"error")  # events that are read; of another name only what is JSON


def sent(body: Any, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return what httpx takes of a question. Raises `InputTypeError` for a text that is no UTF-8."""
    if body is None:
        return {"headers": headers}
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    content = utf8(text, "The request, as JSON,")
    return {"headers": {**headers, "content-type": "application/json"}, "content": content}


def likelihood(told: Any) -> float:
    """Return a log-probability that a server must tell. Raises `ValueError` for what is none."""
    value = float(told)
    if not value <= 1e-3:  # NaN, or above 0 by more than rounding adds
        raise ValueError(f"{value} is no log-probability")
    return value


def decoded(data: bytes) -> Any:
    """Return JSON. Raises `ValueError`, also for what is too deep to be read."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("too deep") from None


class Values:
    """Makes values of the bytes of one answer, fed as they come.

    `not_ours` makes the error for what is no model server's, `told` that for an error told as a value;
    `events`: the answer says itself that it is server-sent events.
    """

    def __init__(
        self, not_ours: Callable[[str], ServerError], told: Callable[[Any], ServerError], *, events: bool
    ) -> None:
        self._not_ours = not_ours
        self._told = told
        self._events = events
        self._rest: list[bytes] = []  # of a line that is not whole yet
        self._size = 0
        self._broke = False  # the last bytes ended in half of a break, perhaps
        self._begun = False
        self._name = b""
        self._open: list[bytes] = []  # lines of a value that is not whole yet

    def feed(self, piece: bytes) -> Iterator[Any]:
        """Yield the values that are whole with these bytes."""
        if not piece:
            return
        if self._broke and piece.startswith(b"\n"):
            piece = piece[1:]
        self._broke = piece.endswith(b"\r")
        for part in piece.splitlines(keepends=True):  # of bytes: at CR, LF and CR LF alone
            self._rest.append(part)
            self._size += len(part)
            if self._size > MOST:
                raise self._not_ours(f"a line of more than {MOST >> 20} MB")
            if part.endswith((b"\r", b"\n")):
                yield from self._line(self._taken())
                if not self._open:
                    self._size = 0

    def end(self) -> Iterator[Any]:
        """Yield what is whole at the end of the answer; half a value is none."""
        yield from self._line(self._taken())
        if self._open:
            with contextlib.suppress(ValueError):
                found = decoded(b"\n".join(self._open))
                yield from self._checked(found)

    def _taken(self) -> bytes:
        line = b"".join(self._rest).rstrip(b"\r\n")
        self._rest = []
        if not self._begun:
            self._begun, line = True, line.removeprefix(codecs.BOM_UTF8)
        return line

    def _line(self, line: bytes) -> Iterator[Any]:
        if not line.strip():
            if self._events and self._open:
                yield from self._value(b"\n".join(self._open))
            if self._events:
                self._open, self._name = [], b""
            return
        name, colon, after = line.partition(b":")
        if not name and colon:
            return  # a comment keeps the connection open
        name = name.strip()
        if name in (b"data", b"error") and not self._open_json():
            self._events = True
            if name == b"error":
                self._name = name
            yield from self._piece(after.strip(), whole=b"")
        elif name == b"event":
            self._events, self._name = True, after.strip()
        elif self._events and _FIELD.fullmatch(name):
            return  # a field that says nothing to us, as id and retry
        else:
            yield from self._piece(line, whole=line[:1])

    def _open_json(self) -> bool:
        """Whether this is in the middle of a JSON over several lines, which may hold any text."""
        return bool(self._open) and not self._events

    def _piece(self, line: bytes, whole: bytes) -> Iterator[Any]:
        """Take a line of a value; of a JSON for all, `whole` in its first column may be its end."""
        if not line.strip():
            return
        if not self._open:
            try:
                found = decoded(line) if line != b"[DONE]" else DONE
            except ValueError:
                if not self._events and line.lstrip()[:1] not in (b"{", b"["):
                    raise self._not_ours(f"the line {line[:60].decode('utf-8', 'replace')!r}") from None
            else:
                yield from self._checked(found)
                return
        self._open.append(line)
        if not self._events and len(self._open) > 1 and whole in (b"}", b"]"):
            data, self._open = b"\n".join(self._open), []
            yield from self._value(data)

    def _value(self, data: bytes) -> Iterator[Any]:
        try:
            found = decoded(data)
        except ValueError:
            if self._name == b"error":
                raise self._told(data.decode("utf-8", "replace")) from None
            if self._name not in _ORDINARY:
                return
            raise self._not_ours(f"the line {data[:60].decode('utf-8', 'replace')!r}") from None
        yield from self._checked(found)

    def _checked(self, found: Any) -> Iterator[Any]:
        if found is None:
            return
        if self._name == b"error":
            raise self._told(found)
        if not isinstance(found, dict):
            if self._name in _ORDINARY:
                raise self._not_ours(f"a {type(found).__name__} where an object is expected")
            return
        if found.get("error"):
            raise self._told(found["error"])
        if found.get("object") == "error" or found.get("type") == "error":
            raise self._told(found)
        if found.get("detail") and "choices" not in found:
            raise self._told(found["detail"])
        yield found
