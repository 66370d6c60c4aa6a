"""One maker for each way to say what an answer must be: from a schema, a regex, choices, a grammar."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

from llama_magic.errors import InputTypeError, SchemaError
from llama_magic.structured.answer.postcheck import Checker
from llama_magic.structured.answer.reader import JsonReader, full_match
from llama_magic.structured.constraint import Constraint
from llama_magic.structured.grammar import gbnf as _gbnf
from llama_magic.structured.grammar.depth import check_written, grammar_from_lark
from llama_magic.structured.grammar.gbnf_rules import shortest
from llama_magic.structured.grammar.grammar import error_of, is_empty, of_schema, takes
from llama_magic.structured.schema import regex as _regex
from llama_magic.structured.schema import source as _source
from llama_magic.structured.schema.bundle import Bundle
from llama_magic.structured.schema.regex_least import MAX_LEAST, asks_for, shortest_text
from llama_magic.structured.schema.regex_misread import misread, readable
from llama_magic.structured.schema.regex_runs import check_runs
from llama_magic.structured.schema.schemas import Keyword
from llama_magic.structured.schema.shortest import Choice, Shortest
from llama_magic.structured.schema.size import MAX_CHARACTERS
from llama_magic.words.given import quoted

_MAX_CHOICES = 50_000

_ALWAYS = Keyword("", "json", "no key twice, no number beyond a double, nesting of 200 at most")


def from_schema(spec: Any) -> Constraint:
    source = _source.read(spec)
    bundle = Bundle(source.schema)
    grammar, machine, layouts, lowered = of_schema(bundle, source.ordered)
    least = Shortest(bundle)
    if least.pieces is None:
        raise SchemaError(
            "No finite value can be valid under this schema.",
            remedy="Let a recursive part be optional, or null, or an empty list.",
        )
    checked = [_ALWAYS, *dict.fromkeys(lowered.checked)]
    if source.adapter is not None:
        checked.append(Keyword("", "type", f"what {source.name} itself validates"))
    reader = JsonReader(Checker(bundle).why, source.adapter, source.schema)
    return Constraint(
        "json",
        grammar,
        layouts=layouts,
        machine=machine,
        any_order=lowered.any_order,
        name=source.name,
        schema=source.schema,
        enforced=tuple(dict.fromkeys(lowered.enforced)),
        checked=tuple(checked),
        ignored=tuple(bundle.ignored),
        shortest=least.pieces,
        why=reader.why,
        read=reader.read,
    )


def from_regex(pattern: Any) -> Constraint:
    _check_regex(pattern)
    compiled = _regex.to_python(pattern)
    masked = _regex.to_mask(_without_anchors(pattern))
    # The mask's engine knows more classes (\p{L}) than Python: where it is exact, nothing else is asked.
    if masked is None or (compiled is None and not (masked[1] and readable(pattern))):
        reason = _regex.reason(pattern)
        raise SchemaError(
            f"The regex {pattern!r:.200} cannot be read or enforced{': ' + reason if reason else ''}.",
            keyword="regex",
            remedy="Escape what is meant literally; leave out backreferences. Look-around is checked after.",
        )
    if asks_for(pattern) > MAX_LEAST:
        raise SchemaError(
            f"The regex asks for a text of more than {MAX_LEAST:,} characters.",
            keyword="regex",
            remedy="Repeat less often.",
        )
    grammar = _regex_grammar(masked[0])
    later = () if masked[1] else (Keyword("", "regex", "look-around and word boundaries"),)
    return Constraint(
        "regex",
        grammar,
        name=f"the regex {pattern!r:.60}",
        checked=later,
        enforced=(Keyword("", "regex"),),
        shortest=[_shortest_match(compiled, grammar)],
        why=None if masked[1] or compiled is None else full_match(compiled),
        mask_first=True,
    )


def _check_regex(pattern: Any) -> None:
    """Refuse what is no expression, or none that is read as it is meant."""
    if not isinstance(pattern, str):
        raise InputTypeError(f"A regex is a text; got {type(pattern).__name__}.")
    if len(pattern) > _regex.MAX_PATTERN:
        raise SchemaError(
            f"The regex has {len(pattern):,} characters; {_regex.MAX_PATTERN:,} are taken.", keyword="regex"
        )
    if odd := misread(pattern, sets=True):
        raise SchemaError(
            f"The regex {pattern!r:.200} has {odd}, which is no part of the syntax that is read here.",
            keyword="regex",
            remedy="Write it without; escape what is meant literally.",
        )
    check_runs(pattern, "regex")


def _without_anchors(pattern: str) -> str:
    """Leave out ^ and $ at the ends: the whole answer must match in any case."""
    start = re.sub(r"^(?:\^|\\A)", "", pattern)
    plain = re.sub(r"(?<!\\)((?:\\\\)*)(?:\$|\\Z|\\z)$", r"\1", start)
    if plain != pattern and re.search(
        r"(?<!\\)\|", re.sub(r"\((?:[^()\\]|\\.)*\)|\[(?:[^\]\\]|\\.)*\]", "", plain)
    ):
        return pattern  # ^a|b$ anchors each branch by itself
    return plain


def _shortest_match(pattern: re.Pattern[str] | None, grammar: str) -> str:
    if pattern is None:
        return ""
    text = shortest_text(pattern.pattern)  # checked by the mask's engine: `re` may take endless time
    return text if text is not None and takes(grammar, text) else ""


def _unchecked(expression: str) -> str:
    from llguidance import LLMatcher, regex_to_lark

    return str(LLMatcher.grammar_from_regex(regex_to_lark(expression, "dw").replace(r"\/", "/")))


_PARSE_ERROR = re.compile(r"regex parse error:\s*\n    (.*)\n    ( *)\^+\s*\nerror: (.*)")


def _regex_grammar(expression: str) -> str:
    grammar = _unchecked(expression)
    error = error_of(grammar)
    if error is not None:
        parsed = _PARSE_ERROR.search(error)
        words = f"{parsed[3]} at position {len(parsed[2])}" if parsed else " ".join(error.split())[:300]
        raise SchemaError(
            f"The regex {expression!r:.200} cannot be enforced: {words}.",
            keyword="regex",
            remedy="Use the common syntax: classes, groups, repetitions, alternatives.",
        )
    _refuse_empty(grammar, "regex")
    return grammar


def from_choices(choices: Any) -> Constraint:
    texts: dict[str, Any] = {}
    for choice in choices:
        value = (
            choice.value if isinstance(choice, Enum) else choice
        )  # `str` of a member is its class and name
        if not isinstance(value, (str, int, float)):
            raise InputTypeError(f"A choice is a text or a number; got {quoted(choice)}.")
        texts.setdefault(str(value), choice)
    if len(texts) > _MAX_CHOICES or sum(map(len, texts)) > MAX_CHARACTERS:
        raise SchemaError(
            f"There are {len(texts):,} choices of {sum(map(len, texts)):,} characters; expected "
            f"{_MAX_CHOICES:,} and {MAX_CHARACTERS:,} at most.",
            keyword="choices",
            remedy="Offer fewer at a time.",
        )
    longest = max(texts, key=len, default="")
    if len(longest) > MAX_LEAST:
        raise SchemaError(
            f"The choice {longest[:40]!r}… has {len(longest):,} characters; expected {MAX_LEAST:,} at most.",
            keyword="choices",
            remedy="Offer names, and look up what they stand for.",
        )
    if not texts or "" in texts:
        raise SchemaError(
            "There is nothing to choose from." if not texts else "One of the choices is empty.",
            keyword="choices",
            remedy="Give one or more texts that are not empty.",
        )
    grammar = _regex_grammar("(?:" + "|".join(_regex.literal(text) for text in texts) + ")")
    return Constraint(
        "choices",
        grammar,
        name=f"{len(texts)} choices",
        enforced=(Keyword("", "choices"),),
        shortest=[Choice([[text] for text in texts])],
        make=texts.__getitem__,
        why=lambda text: None if text in texts else f"{text!r:.100} is not one of the choices",
    )


def from_gbnf(text: Any) -> Constraint:
    rules = _gbnf.parse(text)
    grammar = _gbnf.to_llguidance(rules)
    _refuse(error_of(grammar), "grammar")
    _refuse_empty(grammar, "grammar")
    return Constraint(
        "gbnf",
        grammar,
        name="the grammar",
        enforced=(Keyword("", "grammar"),),
        shortest=[shortest(rules)["root"]],
    )


def from_lark(text: Any) -> Constraint:
    if not isinstance(text, str) or not text.strip():
        raise SchemaError("The Lark grammar is empty.", keyword="lark", remedy="Write at least start: …")
    check_written(text)
    grammar = grammar_from_lark(text)
    _refuse(error_of(grammar), "lark")
    return Constraint("lark", grammar, name="the Lark grammar", enforced=(Keyword("", "lark"),))


def _refuse_empty(grammar: str, keyword: str) -> None:
    if is_empty(grammar):
        raise SchemaError(
            f"No text matches the {keyword}: it excludes every character it could begin with.",
            keyword=keyword,
            remedy="Look for a class without members, such as [^\\s\\S], or parts that exclude each other.",
        )


def _refuse(error: str | None, keyword: str) -> None:
    if error is not None:
        raise SchemaError(
            f"The grammar cannot be compiled: {' '.join(error.split())[:300]}",
            keyword=keyword,
            remedy="Look at the place that the message names.",
        )
