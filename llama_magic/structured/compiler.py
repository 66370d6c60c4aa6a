"""`compile`: from what a user asks for to a `Constraint`, kept for the next time."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

from llama_magic.errors import InputTypeError, LlamaMagicError, SchemaError
from llama_magic.structured import makers
from llama_magic.structured.constraint import Constraint
from llama_magic.structured.mask.vocab import TokenVocabulary, trie_for
from llama_magic.structured.schema.short import short_form
from llama_magic.threads import module_lock
from llama_magic.words.given import quoted
from llama_magic.words.plain import plain

_MAX_KEPT = 128
_MAX_LISTED = 1_000_000  # choices, of which many may be alike, as in a column
_kept: OrderedDict[Any, tuple[Any, Constraint]] = OrderedDict()  # each with what it was made of
_lock = module_lock()
T = TypeVar("T")


def compile(
    spec: Any = None,
    *,
    vocabulary: TokenVocabulary | None = None,
    regex: str | None = None,
    choices: Iterable[Any] | None = None,
    grammar: str | None = None,
    lark: str | None = None,
) -> Constraint:
    """Compile one of: a type or schema, a `regex`, `choices`, a GBNF `grammar`, a `lark` grammar.

    Compiled constraints are kept (128, least recently used). Takes about 2 ms for a usual schema.
    Raises `SchemaError` with JSON pointer and keyword for what cannot be honoured.
    """
    if choices is not None and (isinstance(choices, (str, bytes)) or not isinstance(choices, Iterable)):
        raise InputTypeError(f"choices is {quoted(choices)}; expected a list of texts.")
    asked = {
        "schema": spec,
        "regex": regex,
        "choices": None if choices is None else _listed(choices),
        "grammar": grammar,
        "lark": lark,
    }
    given = [kind for kind, value in asked.items() if value is not None]
    if len(given) != 1:
        raise InputTypeError(
            f"Give exactly one of schema, regex, choices, grammar, lark; got {given or 'none'}."
        )
    kind = given[0]
    value = _as_type(spec) if kind == "schema" else asked[kind]
    key = (kind, _key(value))
    _, plain = remember(_kept, key, lambda: (value, _made(kind, value)))
    if vocabulary is None:
        return plain
    trie = trie_for(vocabulary)
    return remember(trie.constraints, key, lambda: (value, plain.bound(trie)))[1]


def _listed(choices: Iterable[Any]) -> list[Any]:
    listed = list(islice(choices, _MAX_LISTED + 1))  # an iterator may have no end
    if len(listed) > _MAX_LISTED:
        raise SchemaError(
            f"There are more than {_MAX_LISTED:,} choices.",
            keyword="choices",
            remedy="Offer fewer at a time.",
        )
    return listed


def _as_type(spec: Any) -> Any:
    """Return a short form as the type that it means where it names classes: they may be others tomorrow."""
    if not isinstance(spec, str) or spec.lstrip().startswith("{"):
        return spec
    made = short_form(spec)
    return spec if isinstance(made, dict) else made


_MAKERS: dict[str, Callable[[Any], Constraint]] = {
    "schema": makers.from_schema,
    "regex": makers.from_regex,
    "choices": makers.from_choices,
    "grammar": makers.from_gbnf,
    "lark": makers.from_lark,
}


def _made(kind: str, value: Any) -> Constraint:
    """Compile; what the libraries beneath cannot take comes out as a `SchemaError`."""
    try:
        made = _MAKERS[kind](value)
        made.asked = {kind: plain(value) if made.schema is None else made.schema}
        return made
    except (OverflowError, RecursionError, ValueError) as error:
        if isinstance(error, LlamaMagicError):
            raise
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise SchemaError(
            f"The {kind} cannot be compiled: {reason}.",
            remedy="Use numbers, texts and depths that JSON tools can hold.",
        ) from None


def _key(value: Any) -> Any:
    """Return what stands for a value: equal for equal ones, of one type, that give the same answers."""
    types = (
        tuple(map(type, value)) if isinstance(value, list) else type(value)
    )  # an enumeration's member is 1
    if isinstance(value, (dict, bool, list)):
        try:
            return types, json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            return id(value)  # kept alive beside its constraint
    return (types, value) if isinstance(value, str) else id(value)


def remember(kept: OrderedDict[Any, T], key: Any, make: Callable[[], T]) -> T:
    """Return what is kept under a key, made at the first time; what was asked for longest ago goes."""
    with _lock:
        if key in kept:
            kept.move_to_end(key)
            return kept[key]
    made = make()  # which takes its time
    with _lock:
        made = kept.setdefault(key, made)
        while len(kept) > _MAX_KEPT:
            kept.popitem(last=False)
    return made
