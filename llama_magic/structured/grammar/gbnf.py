"""GBNF, llama.cpp's grammar notation, read strictly and handed to llguidance.

llguidance's own converter makes lexemes of whole rules, and its lexer takes the longest match:
`root ::= [a-z]* "end"` could then never end. Here a grammar without recursion becomes one regular
expression; in a recursive one every lexeme is one character. Both are exact.
Notation: llama.cpp `grammars/README.md`.
"""

from __future__ import annotations

from llama_magic.errors import SchemaError
from llama_magic.structured.grammar.depth import grammar_from_lark
from llama_magic.structured.grammar.gbnf_reader import CURE, GbnfNode, GbnfReader
from llama_magic.structured.grammar.gbnf_rules import (
    names_in,
    refuse_endless,
    refuse_left_recursion,
    refuse_long_runs,
)

MAX_GRAMMAR = 200_000  # characters
_MAX_REGEX = 100_000  # characters of a grammar written out as one expression


def parse(grammar: str) -> dict[str, GbnfNode]:
    """Return the rules of a grammar by name; raises `SchemaError` with line and column."""
    if not isinstance(grammar, str):
        raise SchemaError(f"A grammar is a text; got {type(grammar).__name__}.", keyword="grammar")
    if not grammar.strip():
        raise SchemaError("The grammar is empty.", keyword="grammar", remedy="Write at least root ::= …")
    if len(grammar) > MAX_GRAMMAR:
        raise SchemaError(
            f"The grammar has {len(grammar):,} characters; {MAX_GRAMMAR:,} are read.", keyword="grammar"
        )
    rules = GbnfReader(grammar).rules()
    if "root" not in rules:
        raise SchemaError(
            f"The grammar has no rule called root (it has {', '.join(sorted(rules)[:8]) or 'none'}).",
            keyword="root",
            remedy="Name the rule to start with root.",
        )
    for name, node in rules.items():
        for other in names_in(node):
            if other not in rules:
                raise SchemaError(
                    f"The rule {name} uses {other}, which is not defined.", keyword=other, remedy=CURE
                )
    refuse_left_recursion(rules)
    refuse_endless(rules)
    refuse_long_runs(rules)
    return rules


def to_llguidance(rules: dict[str, GbnfNode]) -> str:
    """Return an llguidance grammar for exactly the texts of `root`."""
    from llguidance import LLMatcher

    expression = _as_regex(rules["root"], rules, (), {})
    if expression is not None and len(expression) <= _MAX_REGEX:
        return str(LLMatcher.grammar_from_regex(expression))
    names = {name: f"r{i}" for i, name in enumerate(rules)}
    lines = [f"start: {names['root']}"]
    lines += [f"{names[name]}: {_as_lark(node, names)}" for name, node in rules.items()]
    return grammar_from_lark("\n".join(lines))


def _as_regex(
    node: GbnfNode, rules: dict[str, GbnfNode], inside: tuple[str, ...], known: dict[str, str | None]
) -> str | None:
    """Write a rule out as one expression, None where it is recursive or grows too long.

    `known` keeps what was found for each rule, so that each is written once.
    """
    if node.kind == "chars":
        return node.text
    if node.kind == "rule":
        if node.text in inside or len(inside) > 50:
            return None
        if node.text not in known:
            known[node.text] = _as_regex(rules[node.text], rules, (*inside, node.text), known)
        return known[node.text]
    texts: list[str] = []
    left = _MAX_REGEX
    for part in node.parts:
        text = _as_regex(part, rules, inside, known)
        left -= len(text or "")
        if text is None or left < 0:
            return None
        texts.append(text)
    if node.kind == "repeat":
        return f"(?:{texts[0]}){{{node.low},{'' if node.high is None else node.high}}}"
    return "(?:" + ("|" if node.kind == "alt" else "").join(texts) + ")"


def _as_lark(node: GbnfNode, names: dict[str, str]) -> str:
    match node.kind:
        case "chars":
            return "/" + node.text.replace("/", r"\/") + "/"
        case "rule":
            return names[node.text]
        case "seq":
            return "(" + " ".join(_as_lark(part, names) for part in node.parts) + ")" if node.parts else '""'
        case "alt":
            return "(" + " | ".join(_as_lark(part, names) for part in node.parts) + ")"
    return f"({_as_lark(node.parts[0], names)}){{{node.low},{'' if node.high is None else node.high}}}"
