"""Lower what combines schemas; `not`, `if` and `oneOf` become unions where that can be said exactly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llama_magic.structured.schema.bundle import Path
from llama_magic.structured.schema.disjoint import disjoint
from llama_magic.structured.schema.negate import InexactError, negate

if TYPE_CHECKING:
    from llama_magic.structured.lower.lower import Lowered


def many(lowered: Lowered, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
    parts = [lowered.lower((*path, keyword, str(i)), sub) for i, sub in enumerate(node[keyword])]
    if keyword == "allOf":
        extra += parts
    else:
        out[keyword] = parts
    lowered.enforce(path, keyword)


def _one_of(lowered: Lowered, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
    branches = node["oneOf"]
    options = [lowered.lower((*path, "oneOf", str(i)), sub) for i, sub in enumerate(branches)]
    surrounding = {key: node[key] for key in ("type", "properties", "required") if key in node}
    if disjoint(branches, lowered.bundle, surrounding):
        extra.append({"anyOf": options})
        lowered.enforce(path, "oneOf", "branches that exclude each other")
        return
    exclusive = _exclusive(lowered, path, branches)
    if exclusive is not None:
        extra.append({"anyOf": exclusive})
        lowered.enforce(path, "oneOf")
        return
    extra.append({"anyOf": options})
    lowered.leave(path, "oneOf", "that not two branches hold at once")


def _exclusive(lowered: Lowered, path: Path, branches: list[Any]) -> list[Any] | None:
    """Return "this one and none of the others" for each branch, or None where that cannot be said."""
    if not 1 < len(branches) <= 4 or "negation" in lowered.loosening.kinds:
        return None
    try:
        inverse = [negate(sub, lowered.bundle) for sub in branches]
    except InexactError:
        return None
    return [
        lowered.quiet(
            (*path, "oneOf"), {"allOf": [sub, *(inverse[j] for j in range(len(branches)) if j != i)]}
        )
        for i, sub in enumerate(branches)
    ]


def _not(lowered: Lowered, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
    _rewritten(lowered, path, "not", extra, lambda: negate(node["not"], lowered.bundle))


def _if(lowered: Lowered, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
    if "then" not in node and "else" not in node:
        return
    condition, then, other = node["if"], node.get("then", True), node.get("else", True)

    def rewrite() -> Any:
        no = negate(condition, lowered.bundle)
        return {"anyOf": [{"allOf": [condition, then]}, {"allOf": [no, other]}]}

    _rewritten(lowered, path, "if", extra, rewrite)


def _dependencies(lowered: Lowered, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
    for name, needs in node[keyword].items():
        then = {"required": needs} if isinstance(needs, list) else needs
        without = {"properties": {name: False}}
        present = {"allOf": [{"required": [name]}, then]}
        either = {"anyOf": [without, present]}
        _rewritten(lowered, (*path, keyword, name), keyword, extra, functools.partial(dict, either))


def _rewritten(lowered: Lowered, path: Path, keyword: str, extra: Any, rewrite: Callable[[], Any]) -> None:
    if "negation" in lowered.loosening.kinds or lowered.depth > 6:
        lowered.leave(path, keyword)
        return
    lowered.depth += 1
    try:
        extra.append(lowered.quiet(path, rewrite()))
    except InexactError:
        lowered.leave(path, keyword)
    else:
        lowered.enforce(path, keyword, "rewritten")
    finally:
        lowered.depth -= 1


RULES = {
    "allOf": many,
    "anyOf": many,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    **dict.fromkeys(("dependencies", "dependentRequired", "dependentSchemas"), _dependencies),
}
