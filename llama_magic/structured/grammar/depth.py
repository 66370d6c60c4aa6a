"""Lark grammars on their way to llguidance: chains of rules that it would not survive are refused."""

from __future__ import annotations

import itertools
import re

from llama_magic.errors import SchemaError
from llama_magic.structured.schema.regex_runs import check_runs

# llguidance walks rules by recursion in native code: a chain of 2,000 ends the process (1.9.1).
_DEEPEST = 400
_MOST = 100_000
_COUNT = re.compile(r"\{\s*(\d{6,4000})\s*(?:,\s*)?\}|\{\s*(\d*)\s*,\s*(\d{6,4000})\s*\}")
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"|/(?:\\.|[^/\\\n])+/|//[^\n]*')
_RULE = re.compile(r"^[?!]?([A-Za-z_][\w-]*)[^:\n]*:", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_MAX_TEXT = 200_000


def grammar_from_lark(text: str) -> str:
    """Return llguidance's form of a Lark grammar; `SchemaError` for one nested too deeply."""
    from llguidance import LLMatcher

    check_depth(text)
    check_counts(text)
    return str(LLMatcher.grammar_from_lark(text))


def check_counts(text: str) -> None:
    """Refuse a repetition of more than 100,000, in rules and in regular expressions."""
    for match in _COUNT.finditer(text):
        if max(map(int, filter(None, match.groups()))) > _MOST:
            raise SchemaError(
                f"The Lark grammar repeats something {match[0]} times; expected {_MOST:,} at most.",
                keyword="lark",
                remedy="Repeat less often.",
            )


def check_written(text: str) -> None:
    """Refuse what somebody wrote that is too long, or whose terminals have too many parts to leave out."""
    if len(text) > _MAX_TEXT:
        raise SchemaError(
            f"The Lark grammar has {len(text):,} characters; {_MAX_TEXT:,} are read.",
            keyword="lark",
            remedy="Repeat with * or {n} what is written out.",
        )
    starts = [*_RULE.finditer(text), None]
    for match, following in itertools.pairwise(starts):
        assert match is not None  # only the last one is
        body = text[match.end() : following.start() if following else None]
        literals = [literal for literal in _QUOTED.findall(body) if literal[:1] == "/" != literal[1:2]]
        for literal in literals:
            check_runs(literal[1:-1], "lark")
        if match[1].isupper():  # a terminal is one expression; those that it names may be empty
            plain = _NAME.sub("(?:x?)", _QUOTED.sub("x", body).replace("~", ""))
            check_runs(re.sub(r"\s+", "", plain), "lark", f", in {match[1]},")


def check_depth(text: str) -> None:
    """Refuse a grammar in which rules lead to one another more than 400 deep."""
    bare = _QUOTED.sub(" ", text)
    starts = list(_RULE.finditer(bare))
    ends = [match.start() for match in starts[1:]] + [len(bare)]
    uses = {m[1]: _NAME.findall(bare[m.end() : end]) for m, end in zip(starts, ends, strict=True)}
    seen: set[str] = set()
    for root, used in uses.items():
        path = [(root, iter(used))] if root not in seen else []
        seen.add(root)
        while path:
            name = next((n for n in path[-1][1] if n in uses and n not in seen), None)
            if name is None:
                path.pop()
                continue
            seen.add(name)
            path.append((name, iter(uses[name])))
            if len(path) > _DEEPEST:
                raise SchemaError(
                    f"Rules lead to one another more than {_DEEPEST} deep, from {root!r} to {name!r}.",
                    keyword=root,
                    remedy="Write long sequences in one rule.",
                )
