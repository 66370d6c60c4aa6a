"""Tool calls by grammar: the text of a family around arguments that fit the tool's schema.

A call is literal text, with the family's marks as the tokens that they are, around the grammar of the
arguments. So that text can be forced, and a small model writes valid calls.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from llama_magic.errors import SchemaError
from llama_magic.formatters import CallForm
from llama_magic.structured.compiler import compile, remember
from llama_magic.structured.constraint import Constraint
from llama_magic.structured.grammar.grammar import machine_of
from llama_magic.structured.mask.digits import DigitLimits, Digits, limits_of
from llama_magic.structured.mask.matcher import GrammarMatcher
from llama_magic.structured.mask.vocab import TokenVocabulary, Trie, trie_for

_MARKS = re.compile(r"(<[^<>\s]{1,60}>|\[/?[A-Z_]{2,40}\])")


class MarkVocabulary(TokenVocabulary, Protocol):
    """A vocabulary that knows the tokens of marks."""

    def special_id(self, text: str) -> int | None: ...


@dataclass(frozen=True)
class ToolSchema:
    """What a grammar needs of a tool: its name, and the JSON schema of its arguments."""

    name: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class CallConstraint:
    """One call, or with `many` one or more, of any of some tools; a constraint of the kind "tools"."""

    trie: Trie
    machine: Any
    numbers: DigitLimits
    kind: str = "tools"
    schema: Any = None

    def start(self) -> GrammarMatcher:
        """Return the state for one new answer."""
        return GrammarMatcher(self.machine.deep_copy(), self.trie, Digits(self.numbers))


def calls(
    form: CallForm,
    tools: Sequence[ToolSchema],
    vocabulary: MarkVocabulary,
    *,
    many: bool,
    after: str = "",
    text: Constraint | None = None,
) -> CallConstraint:
    """Compile calls as a family writes them; `after` is a mark at their beginning that is written already.

    With `text` an answer is calls, or a text that this holds.
    Kept for the next time. Raises `SchemaError` with the tool's name for arguments that cannot be honoured.
    """
    trie = trie_for(vocabulary)
    asked = [repr(form), [(t.name, t.parameters) for t in tools], many, after]
    key = json.dumps([*asked, text and text.writing], default=str)
    kept: OrderedDict[str, CallConstraint] = trie.calls

    def compiled() -> CallConstraint:
        frame = _frame(form, tools, lambda literal: _literal(literal, vocabulary), many, after)
        return _compile(frame, tools, trie, text)

    return remember(kept, key, compiled)


def _compile(frame: str, tools: Sequence[ToolSchema], trie: Trie, text: Constraint | None) -> CallConstraint:
    """Compile the Lark grammar around the arguments together with theirs, and that of `text`."""
    numbers = DigitLimits()
    grammars: list[dict[str, Any]] = []
    for number, tool in enumerate(tools):
        constraint = _arguments(tool)
        numbers = DigitLimits(*map(max, numbers, limits_of(constraint.schema)))
        grammars.append(_named(f"a{number}", constraint.writing))
    if text is not None:
        numbers = DigitLimits(*map(max, numbers, limits_of(text.schema)))
        grammars.append(_named("text", text.writing))
        frame = frame.replace("start:", "start: @text | ", 1)
    grammar = json.dumps({"grammars": [{"name": "calls", "lark_grammar": frame}, *grammars]})
    machine = machine_of(grammar, trie.tokenizer)
    if machine.is_error():
        raise SchemaError(
            f"The tools cannot be enforced: {machine.get_error().splitlines()[0]:.300}",
            remedy="Offer fewer tools at a time, or simplify their arguments.",
        )
    return CallConstraint(trie, machine, numbers)


def _frame(
    form: CallForm, tools: Sequence[ToolSchema], literal: Callable[[str], str], many: bool, after: str
) -> str:
    """Return the Lark grammar around the arguments, which are the grammars `a0`, `a1`, …"""
    closed = literal(form.closed)
    more = f"({literal(form.between)} call)*" if many else ""
    if not after:
        start = f"{literal(form.opened)} call {more} {closed}"
    elif form.opened:
        start = f"W {literal(form.opened.removeprefix(after).lstrip())} call {more} {closed}"
    else:
        start = "W call"  # what follows is another call, with a mark of its own
    ways = []
    for number, tool in enumerate(tools):
        texts = _around(form, tool)
        if after and not form.opened:
            texts[0] = texts[0].removeprefix(after).lstrip()
        ways.append(f" @a{number} ".join(map(literal, texts)))
    blank = "\nW: /[ \\n]*/" if after else ""
    return f"start: {start}\ncall: {' | '.join(ways)}{blank}"


def _around(form: CallForm, tool: ToolSchema) -> list[str]:
    """Return the texts before and after the arguments of a call."""
    name, arguments = (json.dumps(key) for key in form.keys)
    texts = [""]
    for part in form.parts():
        if part == "call":
            texts[-1] += f"{{{name}: {json.dumps(tool.name)}, {arguments}: "
            texts.append("}")
        elif part == "arguments":
            texts.append("")
        else:
            texts[-1] += tool.name if part == "name" else part
    return texts


def _literal(text: str, vocabulary: MarkVocabulary) -> str:
    """Write a text for Lark; a mark that is a token of its own is written as that token."""
    pieces = []
    for piece in _MARKS.split(text):
        token = vocabulary.special_id(piece) if _MARKS.fullmatch(piece) else None
        if token is not None:
            pieces.append(f"<[{token}]>")
        elif piece:
            pieces.append(json.dumps(piece))
    return " ".join(pieces) or '""'


def _arguments(tool: ToolSchema) -> Constraint:
    try:
        return compile(dict(tool.parameters))
    except SchemaError as error:
        raise SchemaError(
            f"The tool {tool.name}: {error.said[0]}",
            pointer=error.pointer,
            keyword=error.keyword,
            remedy=error.said[1],
        ) from None


def _named(name: str, grammar: str) -> dict[str, Any]:
    """Return a compiled grammar, JSON or Lark, as one that others refer to by name."""
    if not grammar.lstrip().startswith("{"):
        return {"name": name, "lark_grammar": grammar}
    (only,) = json.loads(grammar)["grammars"]
    return {**only, "name": name}
