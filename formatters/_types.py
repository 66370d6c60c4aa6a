"""What a formatter takes and gives: parts of a prompt, pieces of an answer."""

from __future__ import annotations

from collections.abc import Iterable
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
    """Collects the parts of a prompt; neighbours of one kind become one part."""

    def __init__(self) -> None:
        self._parts: list[Part] = []

    def add(self, text: str, kind: PartKind, index: int | None = None, literal: bool = False) -> None:
        if not text:
            return
        if self._parts and not literal and self._goes_on(kind, index):
            self._parts[-1] = Part(self._parts[-1].text + text, kind, index)
            return
        self._parts.append(Part(text, kind, index, literal))

    def _goes_on(self, kind: PartKind, index: int | None) -> bool:
        last = self._parts[-1]
        return last.kind == kind and last.index == index and not last.literal

    def extend(self, parts: Iterable[Part]) -> None:
        for part in parts:
            if self._parts and not part.literal and self._goes_on(part.kind, part.index):
                self.add(part.text, part.kind, part.index)
            elif part.text:
                self._parts.append(part)

    def done(self) -> tuple[Part, ...]:
        return tuple(self._parts)
