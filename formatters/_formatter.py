"""The base class of all formatters: what each can be asked, and what one that says nothing answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ._callform import CallForm, form_of
from ._reader import PLAIN, ReplyReader, ReplySpec, parse
from ._types import Message, Rendered, Reply


class Formatter:
    """How a family writes turns, where its answers end, and how they are read back."""

    name: str = ""
    stop: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """All that this family writes by itself: a template's source, or its marks."""
        return ""

    @property
    def spec(self) -> ReplySpec:
        """The marks by which this family's answers are read."""
        return PLAIN

    @property
    def takes_tools(self) -> bool:
        """Whether `render` has a place for tools."""
        return False

    @property
    def additive(self) -> bool:
        """Whether it writes the turns of users and answers alike whatever follows them; False if unknown.

        What it writes of one may depend on it, on the first turns, and on nothing else.
        """
        return False

    @property
    def call_form(self) -> CallForm | None:
        """How this family writes tool calls, None where that is not known."""
        return form_of(self.spec)

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
        return ReplyReader(self.spec, prompt, once=once)

    def parse(self, text: str, prompt: str = "") -> Reply:
        """Take a whole answer apart into content, thinking and tool calls."""
        return parse(self.spec, text, prompt)

    def __repr__(self) -> str:
        return f"<Formatter {self.name}>"
