"""What a formatter takes and gives: parts of a prompt, pieces of an answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

PartKind = Literal["template", "system", "user", "assistant", "tool"]
PieceKind = Literal["text", "thinking", "tool_call"]
Message = dict[str, Any]


class Part(NamedTuple):
    """A stretch of a prompt.

    `index` is the place of the message it comes from in `Rendered.messages`, None for what the
    template wrote. A `literal` part came from a caller and looks like a control token: it must be
    tokenised with special parsing off, and in two halves: llama.cpp finds user-defined tokens all
    the same (llama.cpp#12743).
    """

    text: str
    kind: PartKind
    index: int | None = None  # type: ignore[assignment]  # a tuple has a method of that name
    literal: bool = False


@dataclass(frozen=True)
class Rendered:
    """A prompt. The texts of `parts`, joined, are `text`; `messages` are those really rendered."""

    text: str
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Piece:
    """A piece of an answer as it grows."""

    kind: PieceKind
    text: str


@dataclass(frozen=True)
class Reply:
    """A whole answer taken apart. Each tool call is `{"name", "arguments", "raw"}`."""

    content: str
    thinking: str = ""
    tool_calls: tuple[dict[str, Any], ...] = field(default=())


class Parts:
    """Collects the parts of a prompt; neighbours of one kind become one part, a literal one stays alone."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._texts: list[str] = []  # of the part that may go on
        self._kind: PartKind | None = None
        self._index: int | None = None

    def add(self, text: str, kind: PartKind, index: int | None = None, literal: bool = False) -> None:
        if not text:
            return
        if literal or kind != self._kind or index != self._index:
            self._end()
            self._kind, self._index = kind, index
        if literal:
            self._parts.append(Part(text, kind, index, True))
            self._kind = None
        else:
            self._texts.append(text)

    def _end(self) -> None:
        if self._texts and self._kind is not None:
            self._parts.append(Part("".join(self._texts), self._kind, self._index))
            self._texts = []

    def done(self) -> tuple[Part, ...]:
        self._end()
        return tuple(self._parts)
