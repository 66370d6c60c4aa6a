"""What an answer must be: compiled once, asked by anybody, started by the engine."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from llama_magic.errors import InputTypeError, SchemaError, StructuredOutputError
from llama_magic.structured.answer import strictjson as _strictjson
from llama_magic.structured.answer.reader import Why
from llama_magic.structured.answer.spelling import Speller, names_in_order
from llama_magic.structured.answer.untyped import untyped_text
from llama_magic.structured.grammar.grammar import Layouts, machine_of
from llama_magic.structured.mask.digits import DigitLimits, Digits, limits_of, note
from llama_magic.structured.mask.matcher import GrammarMatcher
from llama_magic.structured.mask.vocab import Trie, byte_tokenizer
from llama_magic.structured.schema.keywords import Ignored
from llama_magic.structured.schema.schemas import Keyword
from llama_magic.structured.schema.shortest import Pieces, fewest_bytes, fewest_tokens
from llama_magic.words.inprocess import InProcess
from llama_magic.words.signature import refusing


@refusing
class Constraint(InProcess):
    """What may be said, and what is checked when it has been said.

    `kind` is json, regex, choices, gbnf or lark; `schema` the JSON schema (None for the other
    kinds); `enforced` the keywords that no token can break, `checked` those that are looked at
    after the answer. `ignored` lists keywords without effect, as (pointer, keyword): of another
    draft, misspelt, or about values of another type; `notes` says why, of those that were likely meant.
    `any_order`: the schema was sorted by a tool, so its keys may come in any order.

    `grammar` says what is taken as an answer, `writing` what a model is let write: for JSON one
    layout of the same values, so that a model never has to choose its blanks. `asked` is what
    `compile` was asked for, as data: one of schema, regex, choices, grammar, lark.
    """

    _what = "A constraint"
    _instead = "Pickle the schema, and compile it there."

    def __init__(
        self,
        kind: str,
        grammar: str,
        *,
        name: str,
        schema: Any = None,
        enforced: tuple[Keyword, ...] = (),
        checked: tuple[Keyword, ...] = (),
        ignored: tuple[Ignored, ...] = (),
        layouts: Layouts | None = None,
        shortest: Pieces | None = None,
        why: Why | None = None,
        make: Callable[[str], Any] | None = None,
        read: Callable[[str], tuple[Any, str | None]] | None = None,
        machine: Any = None,
        any_order: bool = False,
        mask_first: bool = False,
    ) -> None:
        self.kind = kind
        self.asked: dict[str, Any] = {}
        self.schema = schema
        self.enforced = enforced
        self.checked = checked
        self.ignored = tuple((entry.pointer, entry.keyword) for entry in ignored)
        self.notes = tuple(entry.note for entry in ignored if entry.reason)[:4]
        self.any_order = any_order
        self.grammar = grammar
        self._layouts = layouts
        self._name = name
        self._shortest: Pieces = shortest or []
        self._why = why
        self._mask_first = mask_first  # the check itself may take endless time on a text that is none
        self._make = make
        self._read = read  # check and value at once, in place of both
        self._trie: Trie | None = None  # of the vocabulary that it is `bound` to
        self._bytes = machine if machine is not None else _machine(byte_tokenizer(), grammar)

    def __copy__(self) -> Constraint:
        return self  # it never changes

    def __deepcopy__(self, _memo: Any) -> Constraint:
        return self

    def __repr__(self) -> str:
        return f"Constraint({self.describe()!r})"

    def bound(self, trie: Trie) -> Constraint:
        """Return the same constraint for another vocabulary."""
        copy = object.__new__(Constraint)
        copy.__dict__.update(
            {
                key: value
                for key, value in self.__dict__.items()
                if not isinstance(getattr(type(self), key, None), functools.cached_property)
            }
        )
        copy._trie = trie
        return copy

    # --- asking ------------------------------------------------------------------------

    def mask_accepts(self, text: str) -> bool:
        """Say whether this text, in whatever layout, is one that the masks allow, and is whole."""
        # Any order is promised; where a part of the grammar knows one only, the value is looked at.
        return self._follows(text) or (
            self.any_order and _strictjson.is_json(text) and self._takes_value(text)
        )

    def _follows(self, text: str) -> bool:
        """Say whether the grammar takes a whole text as it is spelled."""
        if not isinstance(text, str):
            raise InputTypeError(f"A text is expected, got {type(text).__name__}.")
        if self.kind == "json":
            text = text.replace("\x7f", "\\u007f")  # llguidance knows this one character as an escape only
        try:
            data = list(text.encode())
        except UnicodeEncodeError:
            return False  # half a surrogate pair is no UTF-8
        machine = self._bytes.deep_copy()
        return bool(
            machine.validate_tokens(data) == len(data)
            and machine.consume_tokens(data)
            and machine.is_accepting()
        )

    def accepts(self, text: str) -> bool:
        """Say whether this text is an answer: the masks let its value through and the check after passes.

        Of JSON it is the value that counts: its keys may stand in any order, 1.0 is an integer.
        """
        if self.kind != "json":
            return self.mask_accepts(text) and self.why_not(text) is None
        follows = self._follows(text)
        return self.why_not(text) is None and (follows or self._takes_value(text))

    def _takes_value(self, text: str) -> bool:
        return Speller(self._bytes, self._ranks).takes(text)

    @functools.cached_property
    def _ranks(self) -> dict[str, int]:
        return names_in_order(self.schema)

    def why_not(self, text: str) -> str | None:
        """Return in one line why a text is not an instance, None if it is.

        For JSON and choices the masks are not asked: the check is complete without them.
        """
        if (self._why is None or self._mask_first) and not self.mask_accepts(text):
            return f"the text does not {'match' if self.kind == 'regex' else 'follow'} {self._name:.200}"
        return None if self._why is None else self._why(text)

    def parse(self, text: str) -> Any:
        """Return the instance that a text stands for: of the type, or the JSON value, or the text.

        Raises `StructuredOutputError` with the text, what could be read of it, and the reason.
        """
        if not isinstance(text, str):
            raise InputTypeError(f"A text is expected, got {type(text).__name__}.")
        value, reason = (None, self.why_not(text)) if self._read is None else self._read(text)
        if reason is not None:
            raise StructuredOutputError(
                f"The answer is not an instance of {self._name}: {reason}.",
                text=text,
                partial=self.partial(text),
                remedy="Ask again with the reason, allow more tokens, or loosen what is asked for.",
            )
        if self._read is not None:
            return value
        return text if self._make is None else self._make(text)

    def partial(self, text: str, ended: bool = False) -> Any:
        """Return what can be read of an unfinished answer; it only grows as the text grows.

        `ended` says that nothing follows: only then is a number at the root known to be whole.
        """
        if self.kind != "json":
            return text
        return _strictjson.partial(text + " " if ended else text, _empty(self.schema))

    def may_go_on(self, text: str) -> bool:
        """Say whether a text that was cut may be the beginning of another answer than the one it looks like.

        2 may become 2026, and "New" become "New York". An answer by regex or grammar is a text, whole or not.
        """
        if self.kind == "choices":
            return self.lets_go_on(text)
        return self.kind == "json" and text.rstrip()[-1:].isdigit()

    def lets_go_on(self, text: str) -> bool:
        """Say whether something may stand behind a text that is a whole answer."""
        machine = self._bytes.deep_copy()
        return bool(machine.consume_tokens(list(text.encode())) and not machine.is_stopped())

    def min_tokens(self) -> int:
        """Return the least number of tokens that an answer takes, the end token left out.

        A lower bound: the best split of the shortest answers, free text counted as nothing.
        Without a vocabulary, tokens are bytes; for a Lark grammar it is 0.
        """
        if self._trie is None:
            return fewest_bytes(self._shortest)
        if self.kind in ("regex", "gbnf"):  # which of the shortest texts has long tokens is not known
            return -(-fewest_bytes(self._shortest) // self._trie.longest)
        return self._fewest

    @functools.cached_property
    def _fewest(self) -> int:
        assert self._trie is not None  # min_tokens asks only then
        return fewest_tokens(self._shortest, self._trie.texts)

    def notes_on(self, text: str) -> tuple[str, ...]:
        """Return what is to be said of an answer: keywords without effect, a number cut, an odd type."""
        if self.kind != "json":
            return self.notes
        told = (note(text, self._limits), untyped_text(text, self.schema))
        return (*self.notes, *(one for one in told if one is not None))

    def describe(self) -> str:
        """Return one line: what it is, what is enforced, what is checked after."""
        parts = [f"{self._name} ({self.kind})", f"{len(self.enforced)} keywords enforced by the mask"]
        if self.kind == "json":
            parts.append(
                f"numbers are written with {self._limits.whole} digits at most, "
                f"{self._limits.significant} significant where there is a fraction"
            )
        if self.any_order:
            parts.append("keys in any order, as the schema's are only sorted")
        if self.checked:
            names = list(dict.fromkeys(str(keyword) for keyword in self.checked))
            more = f" and {len(names) - 4} more" if len(names) > 4 else ""
            parts.append("checked after the answer: " + "; ".join(names[:4]) + more)
        if self.ignored:
            parts.append(
                "without effect: " + ", ".join(f"{key} at {at or 'the root'}" for at, key in self.ignored[:4])
            )
        return "; ".join(parts)

    # --- running -----------------------------------------------------------------------

    def start(self, *, loose: bool = False) -> GrammarMatcher:
        """Return the state for one new answer; `loose` takes it in any layout."""
        if self._trie is None:
            raise SchemaError(
                "This constraint was compiled without a vocabulary, so it has no masks.",
                remedy="Ask the model: model.constraint(X).",
            )
        self._trie.check()
        digits = Digits(self._limits) if self.kind == "json" else None
        machine = _machine(self._trie.tokenizer, self.grammar) if loose else self._machine.deep_copy()
        return GrammarMatcher(machine, self._trie, digits)

    @functools.cached_property
    def _limits(self) -> DigitLimits:
        return limits_of(self.schema)

    @functools.cached_property
    def writing(self) -> str:
        layouts = () if self._layouts is None else self._layouts()
        return next((text for text in layouts if not machine_of(text).is_error()), self.grammar)

    @functools.cached_property
    def _machine(self) -> Any:
        assert self._trie is not None  # start asks only then
        for text in () if self._layouts is None else self._layouts():
            if not (machine := machine_of(text, self._trie.tokenizer)).is_error():
                return machine
        return _machine(self._trie.tokenizer, self.grammar)


def _empty(schema: Any) -> Any:
    """Return what an answer is before its first character: an empty object or list where it is to be one."""
    for _ in range(10):
        ref = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(ref, str) or not ref.startswith("#/$defs/") or "type" in schema:
            break
        schema = schema.get("$defs", {}).get(ref.rsplit("/", 1)[-1])
    kind = schema.get("type") if isinstance(schema, dict) else None
    return {"object": {}, "array": []}.get(str(kind))


def _machine(tokenizer: Any, grammar: str) -> Any:
    machine = machine_of(grammar, tokenizer)
    if machine.is_error():
        raise SchemaError(
            f"The grammar cannot be compiled: {machine.get_error().splitlines()[0]:.300}",
            remedy="Simplify it: it is over a stated limit of size or time.",
        )
    return machine
