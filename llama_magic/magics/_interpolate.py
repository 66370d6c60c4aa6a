"""Fill `{{ expression }}` in a cell's body from the user's namespace, once.

What stands between `{{` and its `}}` is a Jinja expression, run in Jinja's sandbox; its value
becomes text by `str()`. A value is never read again, so braces inside it stay as they are.
Single braces, `{%`, `{#`, code and JSON are not touched, and neither is `}}` alone nor an
empty `{{}}`. A `{{` that is never closed, or that holds no expression, is an error rather than
text that quietly reaches the model; `--raw` switches all of this off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_magic.errors import TemplateError
from llama_magic.magics._evaluate import RAW, evaluate
from llama_magic.magics._variables import Variables
from llama_magic.request.filled import Filled, Span


def interpolate(body: str, namespace: Mapping[str, Any]) -> Filled:
    """Return the filled text, which knows where each value stands: `(expression, start, end)`."""
    filling = _Filling()
    at = 0
    while (open_ := body.find("{{", at)) >= 0:
        at = _expression(filling, body, at, open_, namespace)
    filling.text(body[at:])
    return filling.filled()


def interpolate_line(text: str, namespace: Mapping[str, Any], *, raw: bool) -> Filled:
    """Fill a text of the magic line: `{name}` and `$name` as in every option and, unless `raw`, `{{ }}`."""
    filling, variables = _Filling(), Variables(namespace)
    at = 0
    while found := variables.find(text, at, "" if raw else "{{"):
        if found[0] == "{{":
            at = _expression(filling, text, at, found.start(), namespace)
            continue
        filling.text(text[at : found.start()])
        filling.value(found[0].strip("{}$"), variables.text_of(found))
        at = found.end()
    filling.text(text[at:])
    return filling.filled()


class _Filling:
    """A text that is put together of what stood there and what was filled in."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._spans: list[Span] = []
        self._length = 0

    def text(self, text: str) -> None:
        self._pieces.append(text)
        self._length += len(text)

    def value(self, name: str, text: str) -> None:
        self._spans.append((name, self._length, self._length + len(text)))
        self.text(text)

    def filled(self) -> Filled:
        return Filled("".join(self._pieces), self._spans)


def _expression(filling: _Filling, body: str, at: int, open_: int, namespace: Mapping[str, Any]) -> int:
    """Take what stands from `at` up to a `{{`, and the value up to its `}}`; return the place behind."""
    close = _closing(body, open_)
    source = body[open_ + 2 : close].strip()
    filling.text(body[at:open_])
    if source:
        filling.value(source, evaluate(source, namespace, f"on line {_line(body, open_)} of the body"))
    else:
        filling.text(body[open_ : close + 2])
    return close + 2


def _closing(body: str, open_: int) -> int:
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
        f"The {{{{ on line {_line(body, open_)} of the body is never closed by }}}}.", remedy=RAW
    )


def _string_end(body: str, at: int) -> int:
    quote, at = body[at], at + 1
    while at < len(body) and body[at] != quote:
        at += 2 if body[at] == "\\" else 1
    return at + 1


def _line(body: str, at: int) -> int:
    return body.count("\n", 0, at) + 1
