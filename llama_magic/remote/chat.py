"""The formatter of a server that renders conversations itself: what is written here is an estimate."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from llama_magic.errors import OptionError
from llama_magic.formatters import THINKING, Formatter, Rendered, ReplySpec

NOTE = "the server writes the template; this prompt and its count are an estimate"


class ServerChat(Formatter):
    """Renders as a common family would, to show and to estimate; the messages are what is sent."""

    name = "server"

    def __init__(self, like: Formatter) -> None:
        self._like = like

    @property
    def spec(self) -> ReplySpec:
        return THINKING

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
        if continue_final:
            raise OptionError(
                "This server cannot go on from an answer that was begun: it writes the template itself.",
                remedy="End the conversation with a user's message.",
            )
        if tools or template_variables:
            given = "tools" if tools else ", ".join(template_variables)
            raise OptionError(
                f"This server writes the template itself; {given} cannot be handed to it.",
                remedy="Leave it out, or load the model here.",
            )
        made = self._like.render(messages, guarded=guarded)
        return replace(made, notes=(*made.notes, NOTE))
