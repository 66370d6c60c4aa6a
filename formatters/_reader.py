"""Reads an answer back: thinking, answer and tool calls, while it grows or as a whole.

One small machine reads for all families; a family gives its marks as data (`ReplySpec`). The marks
themselves never come out. A delta may end in the middle of a mark ("<thi"), so the end that may
still become one is held back until it is decided, or until `flush()`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ._toolcalls import parse_tool_calls
from ._types import Piece, PieceKind, Reply

State = Literal["text", "thinking", "tool_call", "header"]


@dataclass(frozen=True)
class Mark:
    """In one of the states `where`, `text` ends what was and begins `then`; with None it is only dropped."""

    text: str
    where: tuple[State, ...]
    then: State | None


@dataclass(frozen=True)
class ReplySpec:
    """The marks of a family. `start` is the state of an answer to a prompt that opened nothing.

    `opens` are the texts at the very end of a prompt after which the answer begins in a state.
    `header` decides from a header's text what follows it (gpt-oss); its end is `header_end`.
    """

    marks: tuple[Mark, ...] = ()
    opens: tuple[tuple[str, State], ...] = ()
    start: State = "text"
    header_end: str = "<|message|>"
    header: Callable[[str], State] | None = None


def thinking_marks(opened: str, closed: str, *also_closed: str) -> tuple[Mark, ...]:
    """Return the marks of one kind of thinking part."""
    marks = [Mark(opened, ("text",), "thinking"), Mark(opened, ("thinking",), None)] if opened else []
    return (*marks, *(Mark(text, ("thinking",), "text") for text in (closed, *also_closed)))


def tool_marks(opened: str, closed: str = "") -> tuple[Mark, ...]:
    """Return the marks of one kind of tool call; without `closed` it goes on to the end."""
    if not closed:
        return (Mark(opened, ("text", "tool_call"), "tool_call"),)  # the mark may stand before each call
    return (Mark(opened, ("text",), "tool_call"), Mark(closed, ("tool_call",), "text"))


def spec_for(
    pairs: tuple[tuple[str, str], ...] = (),
    tools: tuple[tuple[str, str], ...] = (),
    drop: tuple[str, ...] = (),
) -> ReplySpec:
    """Build a spec from pairs of thinking marks, pairs of tool marks and marks to leave out."""
    marks: list[Mark] = []
    opens: list[tuple[str, State]] = []
    for opened, closed in pairs:
        marks += thinking_marks(opened, closed)
        opens.append((opened, "thinking"))
    for opened, closed in tools:
        marks += tool_marks(opened, closed)
    marks += [Mark(text, ("text",), None) for text in drop]
    return ReplySpec(tuple(marks), tuple(opens))


PLAIN = ReplySpec()
THINK = ("<think>", "</think>")
THINKING = ReplySpec(thinking_marks(*THINK))  # what most families do, and a server's separate reasoning
_QUOTES = dict(zip("`\"'*“‘«(„‹「[", "`\"'*”’»)“›」]", strict=True))


class ReplyReader:
    """Takes an answer apart as it grows. `feed()` text, then `flush()` once.

    A thinking part opens where the answer begins, or after another part: an opening mark in the middle
    of a text is a word of it. So is, in the thinking, a closing mark in quotes ("`</think>`"), and one in
    the middle of a line that speaks of an opening one ("<think>…</think> means").
    With `once` nothing is read any more once the answer has begun after a thinking part.
    """

    def __init__(self, spec: ReplySpec, prompt: str = "", *, once: bool = False) -> None:
        self._spec = spec
        self._once = once
        self._answering = False  # text that is not blank was written in this state
        self._last = ""  # the last characters that were read in this state
        self._named = False  # an opening mark is spoken of in this line of the thinking
        self._ended = False  # a part before the answer came to its end
        self._state: State = spec.start
        self._held = ""
        self._header = ""
        self._blank = ""  # white space at the end of a thinking part or at the start of a part
        self._fresh = False  # nothing was written yet since a mark: leading white space is dropped
        for text, state in spec.opens:
            if text and prompt.rstrip().endswith(text.rstrip()):
                self._state, self._fresh = state, True

    @property
    def state(self) -> State:
        """What is being read: "text", "thinking", "tool_call" or "header"."""
        return self._state

    @property
    def held(self) -> str:
        """Text that may still become a mark."""
        return self._held

    def feed(self, delta: str) -> list[Piece]:
        """Take new text; return the pieces that are certain."""
        self._held += delta
        return self._read(final=False)

    def flush(self) -> list[Piece]:
        """Return what was held back: the answer is complete."""
        pieces = self._read(final=True)
        if self._state == "header" and self._header.strip():  # it never ended: it is all the answer there is
            pieces.append(Piece("text", self._header.strip()))
        self._header = self._blank = ""
        return pieces

    def _marks(self) -> list[Mark]:
        if self._once and self._ended:
            return []
        marks = [mark for mark in self._spec.marks if self._state in mark.where]
        if self._state == "header":
            marks.append(Mark(self._spec.header_end, ("header",), "text"))
        return marks

    def _read(self, final: bool) -> list[Piece]:
        pieces: list[Piece] = []
        while self._held:
            marks = self._marks()
            at, mark = self._find(marks)
            if mark is not None and self._may_be_a_word(at, mark):
                end = at + len(mark.text)
                if end == len(self._held) and not final:
                    self._write(self._take(at), pieces)
                    break  # what follows decides
                if self._is_a_word(at, end, mark):
                    self._write(self._take(end), pieces)
                    self._named = mark.then is None
                    continue
            waiting = None if final or mark is None else self._waiting(marks, at)
            if waiting is not None:
                self._write(self._take(waiting), pieces)
                break
            if mark is None:
                keep = 0 if final else self._unsure(marks)
                self._write(self._take(len(self._held) - keep), pieces)
                break
            self._write(self._take(at), pieces)
            self._held = self._held[len(mark.text) :]
            self._enter(mark, pieces)
        return pieces

    def _take(self, count: int) -> str:
        text, self._held = self._held[:count], self._held[count:]
        if text:
            self._last, self._named = (self._last + text)[-8:], self._named and "\n" not in text
            self._answering = self._answering or bool(text.strip())
        return text

    def _closing_quote(self, at: int) -> str:
        """Return what would close the quote that opens right before a place in what is held; "" for none."""
        before = self._last + self._held[:at]
        quote = before[-1:]
        closing = _QUOTES.get(quote, "")
        word = before.rstrip(quote)[-1:]
        return "" if closing == quote and (word.isalnum() or word in tuple(".,;:!?)")) else closing

    def _may_be_a_word(self, at: int, mark: Mark) -> bool:
        """Say whether a mark of thinking within it may be one that is only spoken of."""
        if self._state != "thinking" or self._once:  # a constrained answer must not wait for what follows
            return False
        if mark.then is None:
            return self._answering or bool(self._held[:at].strip())
        return mark.then == "text" and (self._closing_quote(at) != "" or self._speaks(at))

    def _is_a_word(self, at: int, end: int, mark: Mark) -> bool:
        follows = self._held[end : end + 1]
        quoted = follows != "" and follows == self._closing_quote(at)
        return quoted or mark.then is None or (self._speaks(at) and follows not in ("", "\n", "\r"))

    def _speaks(self, at: int) -> bool:
        """Say whether the line up to a place speaks of an opening mark."""
        return self._named and "\n" not in self._held[:at]

    def _may_open(self, mark: Mark, at: int) -> bool:
        """Say whether a mark counts here: thinking opens only where nothing was written before it."""
        if self._state != "text" or mark.then != "thinking":
            return True
        return not self._answering and not self._held[:at].strip()

    def _find(self, marks: list[Mark]) -> tuple[int, Mark | None]:
        found: tuple[int, int, Mark] | None = None
        for mark in marks:
            at = self._held.find(mark.text)
            if at >= 0 and self._may_open(mark, at) and (found is None or (at, -len(mark.text)) < found[:2]):
                found = (at, -len(mark.text), mark)
        return (-1, None) if found is None else (found[0], found[2])

    def _waiting(self, marks: list[Mark], at: int) -> int | None:
        """Return where a mark may begin that would go before the one found at `at`, None if nowhere."""
        longest = max(len(mark.text) for mark in marks) - 1
        for start in range(max(0, len(self._held) - longest), at + 1):
            tail = self._held[start:]
            if any(
                len(mark.text) > len(tail) and mark.text.startswith(tail) and self._may_open(mark, start)
                for mark in marks
            ):
                return start
        return None

    def _unsure(self, marks: list[Mark]) -> int:
        """Return how many characters at the end may be the start of a mark."""
        longest = max((len(mark.text) for mark in marks), default=1) - 1
        for count in range(min(longest, len(self._held)), 0, -1):
            tail = self._held[-count:]
            at = len(self._held) - count
            if any(mark.text.startswith(tail) and self._may_open(mark, at) for mark in marks):
                return count
        return 0

    def _enter(self, mark: Mark, pieces: list[Piece]) -> None:
        if self._state == "header" and mark.text == self._spec.header_end:
            decide = self._spec.header
            self._state = decide(self._header) if decide else "text"
            if self._state == "tool_call":
                pieces += [Piece("tool_call", ""), Piece("tool_call", self._header + mark.text)]
            self._header, self._fresh, self._blank = "", True, ""
            self._begin()
            return
        if mark.then is None:
            return
        before = self._state
        if mark.then == "header":
            self._header = ""
        if mark.then == "tool_call":
            pieces.append(Piece("tool_call", ""))  # a new call begins
        self._state = mark.then
        if before != mark.then:
            # White space around a thinking part or a tool call is layout, not answer.
            self._fresh, self._blank = True, ""
            self._begin()

    def _begin(self) -> None:
        """Begin a part: nothing is written in it yet."""
        self._answering, self._last, self._named = False, "", False
        self._ended = self._ended or self._state == "text"

    def _write(self, text: str, pieces: list[Piece]) -> None:
        if self._state == "header":
            self._header += text
            return
        text = text.lstrip() if self._fresh else text
        if not text:
            return
        self._fresh = False
        kind: PieceKind = self._state
        if kind == "thinking":
            body = text.rstrip()  # white space is held back: at the end of the part it is layout
            if not body:
                self._blank += text
                return
            text, self._blank = self._blank + body, text[len(body) :]
        pieces.append(Piece(kind, text))


def parse(spec: ReplySpec, text: str, prompt: str = "") -> Reply:
    """Take a whole answer apart."""
    reader = ReplyReader(spec, prompt)
    return reply_of([*reader.feed(text), *reader.flush()])


def reply_of(pieces: list[Piece]) -> Reply:
    """Put pieces together. An empty tool_call piece begins a new call."""
    content, thinking, calls = "", "", [""]
    for piece in pieces:
        if piece.kind == "text":
            content += piece.text
        elif piece.kind == "thinking":
            thinking += piece.text
        elif piece.text:
            calls[-1] += piece.text
        elif calls[-1]:
            calls.append("")
    parsed: list[dict[str, Any]] = []
    for raw in calls:
        if raw.strip():
            parsed += parse_tool_calls(raw)
    if parsed:
        content = content.rstrip()
    return Reply(content, thinking, tuple(parsed))
