"""Prompts with `{{ column }}`: a text or messages, alone or by name, to be filled for each row."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.experiments.rows import Row
from llama_magic.model.interpolate import BraceTemplate
from llama_magic.model.wording import PROMPT

TextOrMessages = str | list[dict[str, Any]]


@dataclass(frozen=True)
class PromptTemplate:
    """One prompt: a text, or messages, each with its content; their texts are templates.

    A content may be a list of parts, as in OpenAI's API.
    """

    is_row: ClassVar[bool] = False  # each row is the prompt itself

    messages: tuple[tuple[dict[str, Any], Any], ...] = ()
    text: BraceTemplate | None = None

    def names(self, known: Container[str] = ()) -> frozenset[str]:
        """Return the names that it asks for; those of `known` may hold blanks."""
        return frozenset().union(*(template.names(known) for template in self._all_templates()))

    def check(self, known: Collection[str]) -> None:
        """Raise `TemplateError` for what is no expression, in whatever row."""
        for template in self._all_templates():
            template.check(known)

    @property
    def is_plain(self) -> bool:
        """Whether nothing in it is to be filled: every row would be asked the same."""
        return not any("{{" in template.body for template in self._all_templates())

    def parts_of(self, name: str, columns: Iterable[str]) -> list[str]:
        """Return the columns that are asked for as parts of a name: `{{ df.column }}`."""
        texts = [template.body for template in self._all_templates()]
        ways = (f"{name}.{{}}", f"{name}['{{}}']", f'{name}["{{}}"]')
        return [one for one in columns if any(way.format(one) in text for way in ways for text in texts)]

    def in_single_braces(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that stand in it as `{column}`, which is text."""
        texts = [template.body for template in self._all_templates()]
        return [name for name in columns if any(f"{{{name}}}" in text for text in texts)]

    @property
    def has_statements(self) -> bool:
        """Whether `{% … %}` stands in it, which is not read."""
        return any(template.has_statements for template in self._all_templates())

    def _all_templates(self) -> list[BraceTemplate]:
        contents = [self.text, *(content for _, content in self.messages)]
        return [template for one in contents for template in _templates(one)]

    def fill(self, values: Mapping[str, Any]) -> TextOrMessages:
        """Return the text, or the messages, of a row. Raises `TemplateError`."""
        if self.text is not None:
            return self.text.fill(values)
        return [
            {**message, "content": _filled(content, values)} if "content" in message else dict(message)
            for message, content in self.messages
        ]

    def of(self, row: Row, values: Mapping[str, Any]) -> TextOrMessages:
        """Return what is asked of a row; `values` are all that may fill it, its columns among them."""
        return self.fill(values)


class OfRow(PromptTemplate):
    """Where no prompt is given, a row that is a text or a conversation is asked as it stands."""

    is_row = True

    def of(self, row: Row, values: Mapping[str, Any]) -> TextOrMessages:
        given = row.itself
        if not isinstance(given, (str, list)):
            raise OptionError(
                "No prompt was given, and this row is neither a text nor a conversation.",
                remedy="Give a prompt with {{ column }}, or rows with a column 'text' or 'messages'.",
            )
        return given


def read_prompts(given: Any) -> dict[str, PromptTemplate]:
    """Return the prompts by name; a single one has the name "". A dict of names is an axis.

    Raises `InputTypeError` for what is no prompt, `TemplateError` for a `{{` that is never closed.
    """
    if isinstance(given, Mapping) and not {"role", "content"} <= given.keys():
        if not given:
            raise OptionError("The dict of prompts is empty.", remedy="Give at least one.")
        return {str(name): _prompt(one) for name, one in given.items()}
    return {"": OfRow() if given is None else _prompt(given)}


def _prompt(given: Any) -> PromptTemplate:
    if isinstance(given, str):
        return PromptTemplate(text=BraceTemplate(given, PROMPT))
    if not isinstance(given, (list, tuple)) or not given or not all(isinstance(m, Mapping) for m in given):
        raise InputTypeError(
            f"A prompt is a {type(given).__name__}; expected a text, a list of messages, or a dict of names "
            "to such.",
            remedy="Several prompts have names: {'short': '…', 'long': '…'}."
            if isinstance(given, (list, tuple))
            else None,
        )
    return PromptTemplate(tuple((dict(message), _read(message.get("content"))) for message in given))


def _read(content: Any) -> Any:
    """Return a content with templates in place of its texts: of a list, those of its parts."""
    if isinstance(content, str):
        return BraceTemplate(content, PROMPT)
    if isinstance(content, list):
        return [
            {**part, "text": _read(part.get("text"))} if _is_part(part) else _read(part) for part in content
        ]
    return content


def _is_part(part: Any) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("text"), str)


def _templates(content: Any) -> Iterator[BraceTemplate]:
    if isinstance(content, BraceTemplate):
        yield content
    for part in content if isinstance(content, list) else ():
        yield from _templates(part["text"] if isinstance(part, Mapping) and "text" in part else part)


def _filled(content: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(content, BraceTemplate):
        return content.fill(values)
    if isinstance(content, list):
        return [_filled(part, values) for part in content]
    if isinstance(content, dict) and isinstance(content.get("text"), BraceTemplate):
        return {**content, "text": content["text"].fill(values)}
    return content
