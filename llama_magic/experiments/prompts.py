"""Prompts with `{{ column }}`: a text or messages, alone or by name, to be filled for each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.experiments.rows import Row
from llama_magic.model.evaluate import PROMPT
from llama_magic.model.interpolate import Template

TextOrMessages = str | list[dict[str, Any]]


@dataclass(frozen=True)
class Prompt:
    """One prompt: `parts` are messages, each with the template of its content; a text has no message."""

    parts: tuple[tuple[dict[str, Any] | None, Template | None], ...]

    @property
    def names(self) -> frozenset[str]:
        """The names that it asks for."""
        return frozenset().union(*(template.names for _, template in self.parts if template is not None))

    @property
    def source(self) -> TextOrMessages:
        """The prompt as it was given."""
        (message, template), *_ = self.parts
        if message is None and template is not None:
            return template.body
        return [
            dict(message or {}) if template is None else {**(message or {}), "content": template.body}
            for message, template in self.parts
        ]

    def fill(self, values: Mapping[str, Any]) -> TextOrMessages:
        """Return the text, or the messages, of a row. Raises `TemplateError`."""
        (message, template), *_ = self.parts
        if message is None and template is not None:
            return template.fill(values)
        return [
            dict(message or {}) if template is None else {**(message or {}), "content": template.fill(values)}
            for message, template in self.parts
        ]

    def of(self, row: Row, values: Mapping[str, Any]) -> TextOrMessages:
        """Return what is asked of a row; `values` are all that may fill it, its columns among them."""
        return self.fill(values)


class OfRow(Prompt):
    """Where no prompt is given, a row that is a text or a conversation is asked as it stands."""

    def __init__(self) -> None:
        super().__init__(())

    @property
    def names(self) -> frozenset[str]:
        return frozenset()

    @property
    def source(self) -> TextOrMessages:
        return ""

    def of(self, row: Row, values: Mapping[str, Any]) -> TextOrMessages:
        given = row.itself
        if not isinstance(given, (str, list)):
            raise OptionError(
                "No prompt was given, and this row is neither a text nor a conversation.",
                remedy="Give a prompt with {{ column }}, or rows with a column 'text' or 'messages'.",
            )
        return given


def read_prompts(given: Any) -> dict[str, Prompt]:
    """Return the prompts by name; a single one has the name "". A dict of names is an axis.

    Raises `InputTypeError` for what is no prompt, `TemplateError` for a `{{` that is never closed.
    """
    if isinstance(given, Mapping) and not {"role", "content"} <= given.keys():
        if not given:
            raise OptionError("The dict of prompts is empty.", remedy="Give at least one.")
        return {str(name): _prompt(one) for name, one in given.items()}
    return {"": OfRow() if given is None else _prompt(given)}


def _prompt(given: Any) -> Prompt:
    if isinstance(given, str):
        return Prompt(((None, Template(given, PROMPT)),))
    if not isinstance(given, (list, tuple)) or not given or not all(isinstance(m, Mapping) for m in given):
        raise InputTypeError(
            f"A prompt is a {type(given).__name__}; expected a text, a list of messages, or a dict of names "
            "to such."
        )
    return Prompt(tuple(_part(dict(message)) for message in given))


def _part(message: dict[str, Any]) -> tuple[dict[str, Any], Template | None]:
    content = message.get("content")
    return message, Template(content, PROMPT) if isinstance(content, str) else None
