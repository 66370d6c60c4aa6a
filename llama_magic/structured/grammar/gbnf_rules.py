"""What the rules of a GBNF grammar come to: which begin with themselves, which can end, how short."""

from __future__ import annotations

from collections.abc import Iterator

from llama_magic.errors import SchemaError
from llama_magic.structured.grammar.gbnf_reader import GbnfNode
from llama_magic.structured.schema.regex_runs import CHARACTER, NOTHING, RegexPart, either, refuse_work


def names_in(node: GbnfNode) -> set[str]:
    found = {node.text} if node.kind == "rule" else set()
    return found.union(*(names_in(part) for part in node.parts))


def _nullable(node: GbnfNode, known: set[str]) -> bool:
    match node.kind:
        case "chars":
            return False
        case "rule":
            return node.text in known
        case "seq":
            return all(_nullable(part, known) for part in node.parts)
        case "alt":
            return any(_nullable(part, known) for part in node.parts)
    return node.low == 0 or node.high == 0 or _nullable(node.parts[0], known)


def _first(node: GbnfNode, empty: set[str]) -> set[str]:
    if node.kind == "rule":
        return {node.text}
    if node.kind == "seq":
        found: set[str] = set()
        for part in node.parts:
            found |= _first(part, empty)
            if not _nullable(part, empty):
                break
        return found
    return set().union(*(_first(part, empty) for part in node.parts))


def refuse_left_recursion(rules: dict[str, GbnfNode]) -> None:
    empty: set[str] = set()
    order = list(reversed(rules.items()))  # rules mostly use later ones
    while True:
        before = len(empty)
        empty |= {name for name, node in order if name not in empty and _nullable(node, empty)}
        if len(empty) == before:
            break
    name = _circle({name: _first(node, empty) for name, node in rules.items()})
    if name is not None:
        raise SchemaError(
            f"The rule {name} is left-recursive: it can begin with itself.",
            keyword=name,
            remedy='Write the repetition with * or +, as list ::= item ("," item)*.',
        )


def _circle(leads_to: dict[str, set[str]]) -> str | None:
    """Return a node that lies on a circle of a graph, the first in order of that circle."""
    done: set[str] = set()
    for start in leads_to:
        path: dict[str, Iterator[str]] = {}  # the way from `start`, in order
        node: str | None = start if start not in done else None
        while node is not None or path:
            if node is not None:
                path[node] = iter(leads_to[node])
            here = next(reversed(path))
            node = next((other for other in path[here] if other not in done), None)
            if node in path:
                way = list(path)
                return min(way[way.index(node) :], key=list(leads_to).index)
            if node is None:
                done.add(here)
                del path[here]
    return None


_MAX_SHORTEST = 100_000  # characters; forced text of this length takes the mask's engine 0.2 s a step


def shortest(rules: dict[str, GbnfNode]) -> dict[str, str]:
    """Return a shortest text for every rule that has one."""
    found: dict[str, str] = {}
    # Rules mostly use later ones, so the last comes first: a long chain is through in one round.
    order = list(reversed(rules.items()))
    changed = True
    while changed:
        changed = False
        for name, node in order:
            text = _shortest(node, found)
            if text is not None and (name not in found or len(text) < len(found[name])):
                found[name] = text
                changed = True
        order.reverse()
    return found


def _shortest(node: GbnfNode, known: dict[str, str]) -> str | None:
    if node.kind == "chars":
        return node.sample or None
    if node.kind == "rule":
        return known.get(node.text)
    parts = [_shortest(part, known) for part in node.parts]
    if node.kind == "alt":
        return min((part for part in parts if part is not None), key=len, default=None)
    if node.kind == "repeat":
        if node.low == 0:
            return ""
        parts = parts * node.low if parts[0] else parts
    texts = [part for part in parts if part is not None]
    if len(texts) < len(parts):
        return None
    if sum(map(len, texts)) > _MAX_SHORTEST:
        raise SchemaError(
            f"The grammar asks for a text of more than {_MAX_SHORTEST:,} characters.",
            keyword="repeat",
            remedy="Repeat less often.",
        )
    return "".join(texts)


def refuse_endless(rules: dict[str, GbnfNode]) -> None:
    if "root" not in shortest(rules):
        raise SchemaError(
            "No text can ever be complete under this grammar: root has no way to end.",
            keyword="root",
            remedy="Give a recursive rule an alternative without itself.",
        )


def refuse_long_runs(rules: dict[str, GbnfNode]) -> None:
    """Refuse too many parts in a row that may be left out, rules written out in their places."""
    known: dict[str, RegexPart] = {}
    opened: set[str] = set()
    ahead = ["root"]
    while ahead:  # what a rule uses comes before it, but for what leads back to it
        if (name := ahead[-1]) not in opened:
            opened.add(name)
            ahead += names_in(rules[name]) - opened
        else:
            known.setdefault(ahead.pop(), _part(rules[name], known))
    refuse_work(known["root"].work, "grammar")


def _part(node: GbnfNode, known: dict[str, RegexPart]) -> RegexPart:
    match node.kind:
        case "chars":
            return CHARACTER
        case "rule":
            return known.get(node.text, CHARACTER.repeated(0))
    parts = [_part(part, known) for part in node.parts]
    if node.kind == "alt":
        return either(parts)
    if node.kind == "repeat":
        return parts[0].repeated(0 if node.high == 0 else node.low)
    whole = NOTHING
    for part in parts:
        whole = whole.then(part)
    return whole
