"""What a formatter takes and gives: parts of a prompt, pieces of an answer, and the base class."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ._reader import ReplyReader, ReplySpec

PartKind = Literal["template", "system", "user", "assistant", "tool"]
PieceKind = Literal["text", "thinking", "tool_call"]
Message = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """A stretch of a prompt.

    `index` is the place of the message it comes from in `Rendered.messages`, None for what the
    template wrote. A `literal` part came from a caller and looks like a control token: it must be
    tokenised with special parsing off, and in two halves: llama.cpp finds user-defined tokens all
    the same (llama.cpp#12743).
    """

    text: str
    kind: PartKind
    index: int | None = None
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


class Formatter:
    """How a family writes turns, where its answers end, and how they are read back."""

    name: str = ""
    stop: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def spec(self) -> ReplySpec:
        """The marks by which this family's answers are read."""
        from ._reader import PLAIN

        return PLAIN

    @property
    def thinking_off_variables(self) -> dict[str, Any] | None:
        """Template variables that switch thinking off, None where there is no such switch."""
        return None

    def render(
        self,
        messages: Sequence[Any],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Any] | None = None,
        guarded: Collection[str] = (),
        continue_final: bool = False,
        **template_variables: Any,
    ) -> Rendered:
        """Write `messages` as one prompt, in parts.

        `guarded` are the texts of the vocabulary's special tokens; where one stands in a message
        it comes out as a literal part. With `continue_final` the last message is left open.
        Raises InputTypeError or OptionError for malformed messages, TemplateError for
        conversations that the family cannot write.
        """
        raise NotImplementedError

    def messages_to_prompt(
        self,
        messages: Sequence[Any],
        add_generation_prompt: bool = True,
        tools: Sequence[Any] | None = None,
        **template_variables: Any,
    ) -> str:
        """Write `messages` as one string, a leading BOS included where the family writes one."""
        return self.render(
            messages, add_generation_prompt=add_generation_prompt, tools=tools, **template_variables
        ).text

    def completion_to_prompt(self, text: str, system_prompt: str | None = None) -> str:
        """Write `text` as one user turn, after `system_prompt` if there is one."""
        messages: list[Message] = [{"role": "user", "content": text}]
        if system_prompt is not None:
            messages.insert(0, {"role": "system", "content": system_prompt})
        return self.messages_to_prompt(messages)

    def reader(self, prompt: str = "", *, once: bool = False) -> ReplyReader:
        """Return a fresh reader for an answer to `prompt`, which may have opened a thinking part.

        With `once` what comes after that part is not read for marks: the answer is constrained.
        """
        from ._reader import ReplyReader

        return ReplyReader(self.spec, prompt, once=once)

    def parse(self, text: str, prompt: str = "") -> Reply:
        """Take a whole answer apart into content, thinking and tool calls."""
        from ._reader import parse

        return parse(self.spec, text, prompt)

    def __repr__(self) -> str:
        return f"<Formatter {self.name}>"


class Parts:
    """Collects the parts of a prompt; neighbours of one kind become one part."""

    def __init__(self) -> None:
        self._parts: list[Part] = []

    def add(self, text: str, kind: PartKind, index: int | None = None, literal: bool = False) -> None:
        if not text:
            return
        if self._parts:
            last = self._parts[-1]
            if not literal and (last.kind, last.index, last.literal) == (kind, index, False):
                self._parts[-1] = Part(last.text + text, kind, index)
                return
        self._parts.append(Part(text, kind, index, literal))

    def extend(self, parts: Iterable[Part]) -> None:
        for part in parts:
            self.add(part.text, part.kind, part.index, part.literal)

    def done(self) -> tuple[Part, ...]:
        return tuple(self._parts)


Loader = Callable[[], Formatter]
Templates = Mapping[str, str]
