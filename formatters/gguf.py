"""The default formatter: the Jinja chat template that a model file brings.

The template is rendered as `transformers` renders it (same environment, same text), in a sandbox
with limits on time and size. A leading BOS stays in if the template writes one: the tokeniser's
layer sees to it that there is only one. Names that were not given stay undefined: a template that
asks `tools is defined` gets the truth.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from llama_magic.errors import OptionError

from ._additive import is_additive
from ._callform import CallForm, form_of
from ._formatter import Formatter
from ._marks import THINKING_OFF
from ._reader import ReplySpec
from ._template import Template
from ._types import Rendered

__all__ = ["GGUFFormatter", "Template"]


class GGUFFormatter(Formatter):
    """A formatter on the template of a model file, or on one of several by name."""

    def __init__(
        self,
        template: Template,
        *,
        name: str = "gguf",
        others: Mapping[str, str] | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.template = template
        self.name = name
        self.notes = notes
        self._others = dict(others or {})

    @property
    def others(self) -> dict[str, str]:
        """The other templates in the file, by name."""
        return dict(self._others)

    def with_template(self, name: str) -> GGUFFormatter:
        """Return the formatter on the template of that name in the same file."""
        if name not in self._others:
            known = ", ".join(self._others) or "none"
            raise OptionError(
                f"The file has no chat template {name!r}.", remedy=f"It has these others: {known}."
            )
        chosen = Template(self._others[name], self.template.bos_token, self.template.eos_token)
        return GGUFFormatter(chosen, name=f"gguf:{name}", others=self._others, notes=self.notes)

    @property
    def stop(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.template.stop

    @property
    def source(self) -> str:
        return self.template.source

    @property
    def spec(self) -> ReplySpec:
        return self.template.spec

    @property
    def takes_tools(self) -> bool:
        own = self.name == "gguf" and "tool_use" in self._others
        return own or "tools" in self.template.variables

    @property
    def additive(self) -> bool:
        return type(self) is GGUFFormatter and is_additive(self.template.source)

    @property
    def call_form(self) -> CallForm | None:
        return form_of(self.spec, self.template.source)

    @property
    def thinking_off_variables(self) -> dict[str, Any] | None:
        off = {name: value for name, value in THINKING_OFF.items() if name in self.template.variables}
        return off or None

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
        template, notes = self._template_for(tools), self.notes
        if template is not self.template:
            notes = (*notes, "the file's template tool_use was taken, for the tools")
        done = template.render(
            messages,
            add_generation_prompt,
            tools,
            guarded=guarded,
            continue_final=continue_final,
            **template_variables,
        )
        return Rendered(done.text, done.parts, (*notes, *done.notes), done.messages)

    def messages_to_prompt(
        self,
        messages: Sequence[Any],
        add_generation_prompt: bool = True,
        tools: Sequence[Any] | None = None,
        **template_variables: Any,
    ) -> str:
        """Write `messages` as one string, marks of turns in them broken; see `Template`."""
        template = self._template_for(tools)
        return template.messages_to_prompt(messages, add_generation_prompt, tools, **template_variables)

    def _template_for(self, tools: Sequence[Any] | None) -> Template:
        own = tools and "tool_use" in self._others and self.name == "gguf"
        return self.with_template("tool_use").template if own else self.template
