"""Fill `{{ expression }}` in a text from named values, once: a cell's body, or a prompt for many rows.

What stands between `{{` and its `}}` is a Jinja expression, run in Jinja's sandbox; its value
becomes text by `str()`. A value is never read again, so braces inside it stay as they are.
Single braces, `{%`, `{#`, code and JSON are not touched, and neither is `}}` alone nor an
empty `{{}}`. A `{{` that is never closed, or that holds no expression, is an error rather than
text that quietly reaches the model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Mapping
from dataclasses import replace
from typing import Any

from llama_magic.errors import TemplateError
from llama_magic.model.evaluate import evaluate, is_expression, names
from llama_magic.model.wording import BODY, PROMPT, Wording
from llama_magic.request.filled import Filled, Span

_STATEMENT = re.compile(r"\{%[-+]?\s*(?:for|if|set|with|macro)\s")
STATEMENTS = (
    "{% … %} is sent as it stands, only {{ }} is filled: write {{ names | join(', ') }} for a list, "
    "{{ 'a' if b else 'c' }} for a choice, or put the text together in Python."
)


def interpolate(body: str, namespace: Mapping[str, Any], what: str = BODY.what) -> Filled:
    """Return a cell's body filled; it knows where each value stands: `(expression, start, end)`.

    `what` is what errors call it, where it is a part of one.
    """
    return BraceTemplate(body, replace(BODY, what=what)).fill(namespace)


class BraceTemplate:
    """A text with `{{ }}`, read once and filled as often as there are rows.

    Raises `TemplateError` for a `{{` that is never closed; for what is no expression when it is filled.
    """

    def __init__(self, body: str, words: Wording = PROMPT) -> None:
        self.body = body
        self._words = words
        self._parts: list[tuple[str, str, int]] = []  # text before, expression, where its `{{` stands
        at = 0
        while (open_ := body.find("{{", at)) >= 0:
            source, end = expression(body, open_, words)
            self._parts.append((body[at : open_ if source else end], source, open_))
            at = end
        self._rest = body[at:]

    def names(self, known: Container[str] = ()) -> frozenset[str]:
        """Return the names of values that the expressions ask for; those of `known` may hold blanks."""
        return frozenset[str]().union(*(names(source, known) for _, source, _ in self._parts if source))

    @property
    def has_statements(self) -> bool:
        """Whether a `{% for … %}` or its kin stands in it, which is text here."""
        return _STATEMENT.search(self.body) is not None

    def check(self, known: Collection[str]) -> None:
        """Raise `TemplateError` for what is neither an expression nor one of the known names."""
        for _, source, at in self._parts:
            if source and source not in known and not is_expression(source):
                value_of(self.body, at, source, dict.fromkeys(known), self._words)  # which says why

    def fill(self, namespace: Mapping[str, Any]) -> Filled:
        """Return the text with each expression's value in its place."""
        filling = Filling()
        for before, source, at in self._parts:
            filling.text(before)
            if source:
                filling.value(source, value_of(self.body, at, source, namespace, self._words))
        filling.text(self._rest)
        return filling.filled()


def value_of(body: str, at: int, source: str, namespace: Mapping[str, Any], words: Wording) -> str:
    """Return the text of the expression whose `{{` stands at a place of a body."""
    if _STATEMENT.search(body):
        words = replace(words, define=f"{STATEMENTS} {words.define}")
    return evaluate(source, namespace, f"on line {_line(body, at)} of {words.what}", words)


class Filling:
    """A text that is put together of what stood there and what was filled in."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._spans: list[Span] = []
        self._length = 0

    def text(self, text: str) -> None:
        if text:  # of a single piece, be it a huge one, `join` makes no copy
            self._pieces.append(text)
        self._length += len(text)

    def value(self, name: str, text: str) -> None:
        self._spans.append((name, self._length, self._length + len(text)))
        self.text(text)

    def filled(self) -> Filled:
        return Filled("".join(self._pieces), self._spans)


def expression(body: str, open_: int, words: Wording = BODY) -> tuple[str, int]:
    """Return what stands between a `{{` and its `}}`, and the place behind."""
    close = _closing(body, open_, words)
    return body[open_ + 2 : close].strip(), close + 2


def _closing(body: str, open_: int, words: Wording) -> int:
    """Return where the `}}` of this `{{` stands; quotes and inner brackets are stepped over."""
    depth, at = 0, open_ + 2
    while at < len(body):
        char = body[at]
        if char in "\"'":
            at = _string_end(body, at)
            continue
        if char in "([{":
            depth += 1
        elif char == "}" and depth == 0 and body.startswith("}}", at):
            return at
        elif char in ")]}":
            depth -= 1
        at += 1
    # An apostrophe ({{ don't }}) hides the close; then the expression's own error says more.
    plain = body.find("}}", open_)
    if plain >= 0:
        return plain
    raise TemplateError(
        f"The {{{{ on line {_line(body, open_)} of {words.what} is never closed by }}}}.",
        remedy=words.braces,
    )


def _string_end(body: str, at: int) -> int:
    quote, at = body[at], at + 1
    while at < len(body) and body[at] != quote:
        at += 2 if body[at] == "\\" else 1
    return at + 1


def _line(body: str, at: int) -> int:
    return body.count("\n", 0, at) + 1
