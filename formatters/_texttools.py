"""Tools for templates that have none: as text. And calls without a mark: an answer that is one."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from ._callform import AFTER_TOOLS, BEFORE_TOOLS, HERMES, CallForm
from ._formatter import Formatter
from ._messages import merge_neighbours, merge_text, normalise_messages, tool_to_user
from ._plain import plain_data
from ._reader import ReplyReader, ReplySpec, tool_marks
from ._toolcalls import calls_of, parse_tool_calls
from ._types import Message, Piece, Rendered


def _described(tools: Sequence[Any]) -> str:
    return "".join((BEFORE_TOOLS, *(f"\n{json.dumps(t, ensure_ascii=False)}" for t in tools), AFTER_TOOLS))


class TextTools(Formatter):
    """Another formatter, with tools as text where it has no place for them.

    Tools stand at the end of the system message, calls in `<tool_call>` in the assistant's text, results in
    `<tool_response>` in a user turn: the form of Hermes 2 Pro and Qwen 2.5. Of a formatter that writes tools
    but whose calls are not known, only the calls are read and forced in that form.
    """

    def __init__(self, inner: Formatter) -> None:
        self.inner = inner
        self.name = f"{inner.name}+tools"
        self.stop = inner.stop
        self.notes = inner.notes
        others = tuple(m for m in inner.spec.marks if "tool_call" not in (*m.where, m.then))
        own = replace(inner.spec, marks=(*others, *tool_marks("<tool_call>", "</tool_call>")))
        self._spec = own if inner.spec.header is None else inner.spec  # a header says what an answer is

    @property
    def spec(self) -> ReplySpec:
        return self._spec

    @property
    def call_form(self) -> CallForm | None:
        return HERMES if self.spec.header is None else self.inner.call_form

    @property
    def thinking_off_variables(self) -> dict[str, Any] | None:
        return self.inner.thinking_off_variables

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
        plain: list[Message] = normalise_messages(messages)
        if self.inner.takes_tools:
            template_variables |= {} if tools is None else {"tools": tools}
            tools = None
        else:
            plain = merge_neighbours(tool_to_user([_as_text(message) for message in plain]))
        if tools:
            system: Message = {"role": "system", "content": _described(plain_data(list(tools), "tools"))}
            first = plain[0]["role"] in ("system", "developer")
            plain = [merge_text(plain[0], system), *plain[1:]] if first else [system, *plain]
        done = self.inner.render(
            plain,
            add_generation_prompt=add_generation_prompt,
            guarded=guarded,
            continue_final=continue_final,
            **template_variables,
        )
        note = "the template has no place for tools; they are written as text"
        return replace(done, notes=(*done.notes, note) if tools else done.notes)


def _as_text(message: Message) -> Message:
    """Return a message with its tool calls, or as a tool's result, written into its text."""
    if message["role"] == "tool":
        return {"role": "tool", "content": f"<tool_response>\n{message['content']}\n</tool_response>"}
    if not message.get("tool_calls"):
        return message
    written = HERMES.write((call["name"], call["arguments"]) for call in calls_of(message))
    text = "\n".join(part for part in (message["content"], written) if part)
    return {**{k: v for k, v in message.items() if k != "tool_calls"}, "content": text}


class BareCalls:
    """A reader for families whose call may be bare JSON: an answer that is a call of a known tool is one.

    What begins like JSON is held back until the answer is complete.
    """

    def __init__(self, inner: ReplyReader, names: Collection[str]) -> None:
        self._inner = inner
        self._names = names
        self._held: str | None = ""  # None: it is no call

    @property
    def state(self) -> str:
        """What is being read; see `ReplyReader`."""
        return "tool_call" if self._held and self._held.lstrip()[:1] == "{" else self._inner.state

    def feed(self, delta: str) -> list[Piece]:
        """Take new text; return the pieces that are certain."""
        if self._held is None or self._inner.state != "text":
            return self._inner.feed(delta)
        self._held += delta
        if self._held.lstrip()[:1] in ("", "{"):
            return []
        held, self._held = self._held, None
        return self._inner.feed(held)

    def flush(self) -> list[Piece]:
        """Return what was held back: the answer is complete."""
        held, self._held = self._held, None
        if held:
            calls = parse_tool_calls(held)
            if held.strip() and all(call["name"] in self._names for call in calls):
                return [Piece("tool_call", ""), Piece("tool_call", held.strip())]
            return [*self._inner.feed(held), *self._inner.flush()]
        return self._inner.flush()
