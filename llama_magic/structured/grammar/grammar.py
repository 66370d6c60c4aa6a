"""Compile schemas and grammars to llguidance grammars, within stated limits."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from llama_magic.errors import SchemaError
from llama_magic.structured.grammar.depth import grammar_from_lark
from llama_magic.structured.grammar.lark import LarkWriter, escaped_names, sorted_by_a_tool
from llama_magic.structured.lower.lowered import Loosening, Lowered, TooWideError
from llama_magic.structured.lower.marks import RULE, says, without_rules
from llama_magic.structured.lower.rules import lower
from llama_magic.structured.mask.vocab import byte_tokenizer
from llama_magic.structured.schema.bundle import Bundle
from llama_magic.structured.schema.written import KEY, as_taken, as_written

# What is taken as an answer: one blank, or a line break with an indent. Endless blanks are not.
WHITESPACE = r"[ ]|\r?\n(?:[ ]{0,40}|\t{0,20})"
_OPTIONS: Any = {
    "whitespace_pattern": WHITESPACE,
    "json_allow_general_unicode_escapes": True,
    "coerce_one_of": True,
}
# What is written: blanks where `json.dumps` puts them. A model has no choice about them then, so
# most of an object's frame is forced, and decoded together instead of drawn token by token.
_ONE_LAYOUT: Any = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "json_allow_general_unicode_escapes": True,
    "coerce_one_of": True,
}


def _limits() -> Any:
    """Return the bounds of llguidance's work: about 100 ms to compile, 15 ms a step, 100 MB."""
    from llguidance import LLParserLimits

    return LLParserLimits(
        initial_lexer_fuel=4_000_000,
        step_lexer_fuel=400_000,
        step_max_items=100_000,
        max_lexer_states=50_000,
        max_grammar_size=500_000,
    )


def machine_of(grammar: str, tokenizer: Any = None) -> Any:
    """Return llguidance's state for a grammar, over bytes or a vocabulary's tokens; ask it `is_error()`."""
    from llguidance import LLMatcher

    return LLMatcher(
        byte_tokenizer() if tokenizer is None else tokenizer, grammar, log_level=0, limits=_limits()
    )


def error_of(grammar: str) -> str | None:
    """Return why llguidance does not take a grammar, None if it does."""
    machine = machine_of(grammar)
    return str(machine.get_error()) if machine.is_error() else None


def is_empty(grammar: str) -> bool:
    """Say whether no text can even begin under a grammar that llguidance takes."""
    machine = machine_of(grammar)
    machine.compute_bitmask()
    return bool(machine.is_error() and "NoExtension" in machine.get_error())


def takes(grammar: str, text: str) -> bool:
    """Say whether a whole text follows a grammar; linear in its length."""
    machine, data = machine_of(grammar), list(text.encode())
    return bool(
        machine.validate_tokens(data) == len(data) and machine.consume_tokens(data) and machine.is_accepting()
    )


Layouts = Callable[[], Iterator[str]]


class Compiled(NamedTuple):
    """Grammar, llguidance's state for it over bytes, grammars of one layout, what they enforce.

    Of the last the first counts that llguidance takes; they are written and compiled when an answer is begun.
    """

    grammar: str
    machine: Any
    layouts: Layouts
    lowered: Lowered


def of_schema(bundle: Bundle, declared_order: bool = True) -> Compiled:
    """Compile a schema.

    Where the compiler refuses a part, that part is left to the check after the answer, and
    said so. Raises `SchemaError` where no value can be valid or nothing helps.
    """
    any_order = not declared_order and sorted_by_a_tool(bundle)
    loosening = Loosening(kinds={"multiples"} if bundle.wide_multiple else set())
    while True:
        try:
            lowered = lower(bundle, loosening)
        except TooWideError:
            loosening.kinds.add("negation")
            continue
        schema = _possible(lowered)
        taken, written = (as_taken(schema), as_written(schema)) if says(schema, KEY) else (schema, schema)
        if len(json.dumps(taken)) > _MAX_LOWERED and "negation" not in loosening.kinds:
            loosening.kinds.add("negation")  # the rewrites grew too large to compile in time
            continue
        if any_order or escaped_names(schema) or says(schema, RULE):
            compiled = _by_rules(lowered, taken, written, any_order)
            if compiled is not None:
                return compiled
        lowered.without_rules()
        grammar = _from_json(taken, _OPTIONS)
        machine = machine_of(grammar)
        if not machine.is_error():
            layouts = functools.partial(_layouts, _from_json, written, taken, grammar)
            return Compiled(grammar, machine, layouts, lowered)
        error = str(machine.get_error())
        if not _loosen(loosening, error, lowered):
            raise _refusal(error, lowered)


def _possible(lowered: Lowered) -> Any:
    """Return the lowered schema; a rewrite never allows less, so that False says that nothing is valid."""
    if lowered.schema is False:
        raise SchemaError(
            "No value can be valid under this schema: "
            f"{'; '.join(lowered.impossible) or 'what it asks for excludes itself'}.",
            remedy="Look for false, not: {}, or parts of allOf that cannot hold together.",
        )
    return {} if lowered.schema is True else lowered.schema


def _by_rules(lowered: Lowered, taken: Any, written: Any, any_order: bool) -> Compiled | None:
    """Compile by Lark rules, None where llguidance does not take them."""
    writer = LarkWriter(taken, any_order, _OPTIONS)
    grammar = grammar_from_lark(writer.text)
    if len(grammar) >= _MAX_LOWERED or (machine := machine_of(grammar)).is_error():
        return None
    lowered.any_order = any_order
    (lowered.checked if writer.lost else lowered.enforced).extend(lowered.rules)
    layouts = functools.partial(_layouts, _by_lark, written, taken, grammar)
    return Compiled(grammar, machine, layouts, lowered)


def _layouts(write: Callable[[Any, Any], str], written: Any, taken: Any, grammar: str) -> Iterator[str]:
    yield write(written, _ONE_LAYOUT)
    if written != taken:
        yield write(taken, _ONE_LAYOUT)
        yield grammar


def _by_lark(schema: Any, options: Any) -> str:
    return grammar_from_lark(LarkWriter(schema, False, options).text)


def _from_json(schema: Any, options: Any) -> str:
    from llguidance import LLMatcher

    return str(LLMatcher.grammar_from_json_schema(json.dumps(without_rules(schema)), overrides=options))


_MAX_LOWERED = 300_000  # characters
_CURES = (
    ("too large", "negation"),
    ("too large", "unions"),
    ("not disjoint", "overlap"),
    ("min/maxProperties", "counts"),
    ("float range", "numbers"),
    ("integer range", "numbers"),
    ("multipleOf", "numbers"),
)
_LADDER = ("formats", "negation", "overlap", "patternProperties", "counts", "numbers", "lengths", "unions")


def _loosen(loosening: Loosening, error: str, lowered: Lowered) -> bool:
    """Give up one more thing; return False when there is nothing left to give up."""
    for mark, kind in _CURES:
        if mark in error and kind not in loosening.kinds:
            loosening.kinds.add(kind)
            return True
    if "determine if regex is empty" in error and not lowered.patterns <= loosening.patterns:
        loosening.patterns |= lowered.patterns  # too many patterns for one text
        return True
    unsatisfiable = error.startswith("Unsatisfiable")
    untried = () if unsatisfiable else lowered.patterns - loosening.patterns
    if bad := {pattern for pattern in untried if not pattern_works(pattern)}:
        loosening.patterns |= bad
        return True
    for kind in ("negation", "formats") if unsatisfiable else _LADDER:
        if kind not in loosening.kinds:
            loosening.kinds.add(kind)
            return True
    return False


@functools.lru_cache(maxsize=1024)
def pattern_works(pattern: str) -> bool:
    """Say whether llguidance compiles a pattern by itself."""
    from llguidance import LLMatcher

    schema = json.dumps({"type": "string", "pattern": pattern})
    return error_of(LLMatcher.grammar_from_json_schema(schema, overrides=_OPTIONS)) is None


def _refusal(error: str, lowered: Lowered) -> SchemaError:
    """Turn llguidance's message into ours, with the place in the user's schema."""
    first = error.split("\n", maxsplit=1)[0]
    names = {f"/$defs/{name}": ref[1:] for ref, name in lowered.names.items()}
    where = re.findall(r"json-schema:///#(\S*)", error)
    place = next(
        (
            names[key] + spot[len(key) :]
            for spot in where
            for key in names
            if spot == key or spot.startswith(key + "/")
        ),
        where[0] if where else "",
    )
    named = re.search(r"required property '([^']*)'", first)
    if first.startswith("Unsatisfiable"):
        return SchemaError(
            "No value can be valid under this schema: "
            f"{'; '.join((first.partition(': ')[2][:200], *lowered.impossible))}.",
            pointer=place,
            keyword="required" if named else None,
            remedy="Look for an empty enum, a minimum above a maximum, or a required key that is forbidden.",
        )
    return SchemaError(
        f"The schema cannot be enforced: {first[:300]}.",
        pointer=place,
        remedy="Simplify the part that is named, or ask for it in two steps.",
    )
