"""Formatters whose conversation is written by something else: a module, or a server that has the template."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from llama_magic.errors import InputTypeError, OptionError

from ._formatter import Formatter
from ._guard import attribute, guards_of, neutralise
from ._messages import normalise_messages
from ._types import Message, Rendered


class WrittenElsewhere(Formatter):
    """A formatter that gives its messages away and gets one string back.

    A mark in a message could not be told from the template's own there, so it is broken before.
    """

    def write(
        self,
        messages: list[Message],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Any] | None,
        continue_final: bool,
        **template_variables: Any,
    ) -> str:
        """Return the prompt that is written of checked messages."""
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
        marks = guards_of(guarded)
        given = [{**m, "content": neutralise(m["content"], marks)} for m in normalise_messages(messages)]
        text = self.write(
            given,
            add_generation_prompt=add_generation_prompt,
            tools=tools,
            continue_final=continue_final,
            **template_variables,
        )
        parts, _ = attribute(text, given, {}, frozenset())
        return Rendered(text, tuple(parts), self.notes, tuple(given))


class _Message(dict[str, Any]):
    """A message that is read as `m["role"]` or, as LlamaIndex's own are, as `m.role`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class ModuleFormatter(WrittenElsewhere):
    """A formatter made of a module or object with `messages_to_prompt`, as LlamaIndex has them."""

    takes_tools = True  # they are handed on

    def __init__(self, name: str, module: Any) -> None:
        self.name = name
        self._module = module
        self.stop = tuple(getattr(module, "stop", ()))

    def write(
        self,
        messages: list[Message],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Any] | None,
        continue_final: bool,
        **template_variables: Any,
    ) -> str:
        if continue_final:
            raise OptionError(f"The formatter {self.name} cannot continue an answer.")
        # What is as always is not said: LlamaIndex's functions know neither.
        said: dict[str, Any] = {} if add_generation_prompt else {"add_generation_prompt": False}
        said |= {} if tools is None else {"tools": tools}
        text = self._module.messages_to_prompt([*map(_Message, messages)], **said, **template_variables)
        if not isinstance(text, str):
            raise InputTypeError(
                f"messages_to_prompt of {self.name} gave a {type(text).__name__}, not a string."
            )
        return text

    def completion_to_prompt(self, text: str, system_prompt: str | None = None) -> str:
        own = getattr(self._module, "completion_to_prompt", None)
        if own is None:
            return super().completion_to_prompt(text, system_prompt)
        return str(own(text) if system_prompt is None else own(text, system_prompt))
