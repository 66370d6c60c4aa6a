"""The base of the families that are written by hand, without a template."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from llama_magic.doors import option
from llama_magic.errors import OptionError, TemplateError
from llama_magic.words.names import meant

from . import _messages as repairs
from ._formatter import Formatter
from ._guard import Guards, guards_of, kind_of, neutralise
from ._messages import NOTES, normalise_messages
from ._plain import plain_data
from ._reader import PLAIN, ReplySpec
from ._types import Message, PartKind, Parts, Rendered

_ROLES = ("system", "user", "assistant", "tool")


class Writer:
    """Takes what a family writes: its own marks, and the texts of messages, which are guarded."""

    def __init__(self, guarded: Guards, last: int, continue_final: bool) -> None:
        self.parts = Parts()
        self._guarded = guarded
        self._last = last
        self._continue = continue_final

    def raw(self, text: str) -> None:
        """Write the family's own text."""
        self.parts.add(text, "template")

    def text(self, index: int, message: Message, *, strip: bool = False) -> None:
        """Write the text of a message, its white space stripped where the family does that."""
        text = str(message["content"])
        if strip:
            text = text.lstrip() if self._continue and index == self._last else text.strip()
        self._write(text, kind_of(message["role"]), index)

    def data(self, value: Any) -> None:
        """Write JSON that came from the caller."""
        self._write(json.dumps(value, ensure_ascii=False), "template", None)

    def _write(self, text: str, kind: PartKind, index: int | None) -> None:
        """Write what came from the caller, each guarded string as a literal part."""
        at = 0
        for start, end in self._guarded.find(text):
            self.parts.add(text[at:start], kind, index)
            self.parts.add(text[start:end], kind, index, literal=True)
            at = end
        self.parts.add(text[at:], kind, index)

    def close(self, text: str, index: int) -> None:
        """Write the end of an assistant's turn, unless that turn is to be continued."""
        if not (self._continue and index == self._last):
            self.raw(text)


class Family(Formatter):
    """A family: how it writes turns (`write`, `opening`), what it cannot take, how it is read."""

    bos: ClassVar[str] = ""  # written at the very start, as the official template does
    marks: ClassVar[tuple[str, ...]] = ()  # the strings that open and close turns
    has_system: ClassVar[bool] = True
    many_system: ClassVar[bool] = False  # system messages may stand anywhere
    alternates: ClassVar[bool] = False  # turns must alternate, the user first
    has_tool: ClassVar[bool] = False
    writes_tools: ClassVar[bool] = False
    developer_role: ClassVar[bool] = False
    reply: ClassVar[ReplySpec] = PLAIN
    thinking_off: ClassVar[dict[str, Any] | None] = None
    turns_alone: ClassVar[bool] = False  # what is written of a turn is the same whatever turns follow

    def __init__(self, notes: tuple[str, ...] = ()) -> None:
        self.notes = notes

    @property
    def spec(self) -> ReplySpec:
        return self.reply

    @property
    def additive(self) -> bool:
        return bool(vars(type(self)).get("turns_alone"))  # a class made of this one may write otherwise

    @property
    def takes_tools(self) -> bool:
        return self.writes_tools

    @property
    def thinking_off_variables(self) -> dict[str, Any] | None:
        return dict(self.thinking_off) if self.thinking_off else None

    def write(self, out: Writer, messages: list[Message], variables: dict[str, Any]) -> None:
        """Write all turns. `variables` holds the template variables and `tools`, if any."""
        raise NotImplementedError

    def opening(self, variables: dict[str, Any]) -> str:
        """Return what opens the assistant's turn."""
        raise NotImplementedError

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
        variables = plain_data(template_variables, "template variable")
        if tools:
            if not self.writes_tools:
                # With notes it is guessed: the file has no template that would help.
                own = f"Use the template of the model file ({option('formatter', 'gguf')}), or have"
                raise TemplateError(
                    f"The family {self.name} has no form for tools here.",
                    remedy=f"{'Have' if self.notes else own} them written as text: "
                    f"{option('tools_as_text', True)}.",
                )
            variables["tools"] = plain_data(list(tools), "tools")
        real, notes = self._repaired(normalise_messages(messages))
        if continue_final and real[-1]["role"] != "assistant":
            raise OptionError(
                "continue_final needs an assistant message at the end.",
                remedy="Add the beginning of the answer as the last message.",
            )
        real, said = self._neutral(real, guarded)
        out = Writer(guards_of(guarded, self.marks), len(real) - 1, continue_final)
        out.raw(self.bos)
        self.write(out, real, variables)
        if add_generation_prompt and not continue_final:
            out.raw(self.opening(variables))
        parts = out.parts.done()
        return Rendered("".join(p.text for p in parts), parts, (*self.notes, *notes, *said), tuple(real))

    def messages_to_prompt(
        self,
        messages: Sequence[Any],
        add_generation_prompt: bool = True,
        tools: Sequence[Any] | None = None,
        **template_variables: Any,
    ) -> str:
        """Write `messages` as one string.

        A string cannot say which of its marks came from a message, so marks of the family in a
        message are broken by a space after their first character ("< |im_end|>"). `render` keeps
        them as they are, in literal parts.
        """
        marks = guards_of(self.marks)
        plain = [{**m, "content": neutralise(m["content"], marks)} for m in normalise_messages(messages)]
        return super().messages_to_prompt(plain, add_generation_prompt, tools, **template_variables)

    @property
    def source(self) -> str:
        return "\n".join((*self.marks, *(mark.text for mark in self.spec.marks)))

    def plain_marks(self, guarded: frozenset[str]) -> frozenset[str]:
        """Return the marks that are ordinary text to the tokeniser, which has tokens for `guarded`.

        No parsing flag can tell them from a message's, so they are broken there by a space.
        """
        return frozenset()

    def _repaired(self, messages: list[Message]) -> tuple[list[Message], list[str]]:
        wanted: list[Any] = [] if self.developer_role else [repairs.developer_to_system]
        if not self.has_tool:
            wanted.append(repairs.tool_to_user)
        if not self.has_system:
            wanted.append(repairs.system_to_user)
        elif not self.many_system:
            wanted.append(repairs.later_system_to_user)
        if self.alternates:
            wanted += [repairs.merge_neighbours, repairs.user_first]
        notes = []
        for repair in wanted:
            changed = repair(messages)
            if changed != messages:
                notes.append(NOTES[repair])
            messages = changed
        known = (*_ROLES, "developer") if self.developer_role else _ROLES
        for index, message in enumerate(messages):
            if message["role"] not in known:
                raise TemplateError(
                    f"The family {self.name} has no role {message['role']!r} (messages[{index}]). "
                    + meant(message["role"].lower(), known),
                )
        return messages, notes

    def _neutral(self, messages: list[Message], guarded: Collection[str]) -> tuple[list[Message], list[str]]:
        plain = self.plain_marks(frozenset(guarded))
        if not plain:
            return messages, []
        marks = guards_of(plain)
        out, notes = [], []
        for index, message in enumerate(messages):
            text = neutralise(message["content"], marks)
            if text != message["content"]:
                notes.append(f"marks of {self.name} in messages[{index}] were broken by a space")
            out.append({**message, "content": text})
        return out, notes
