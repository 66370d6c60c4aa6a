"""Lower what combines schemas; `not`, `if` and `oneOf` become unions where that can be said exactly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from llama_magic.structured.lower.lowered import Lowered, Site
from llama_magic.structured.schema.disjoint import disjoint
from llama_magic.structured.schema.negate import InexactError, negate
from llama_magic.structured.schema.tree import Path


def many(lowered: Lowered, site: Site) -> None:
    parts = [lowered.lower((*site.path, site.keyword, str(i)), sub) for i, sub in enumerate(site.value)]
    if site.keyword == "allOf":
        site.extra.extend(parts)
    else:
        site.out[site.keyword] = parts
    lowered.enforce(site.path, site.keyword)


def _one_of(lowered: Lowered, site: Site) -> None:
    branches = site.node["oneOf"]
    options = [lowered.lower((*site.path, "oneOf", str(i)), sub) for i, sub in enumerate(branches)]
    surrounding = {key: site.node[key] for key in ("type", "properties", "required") if key in site.node}
    if disjoint(branches, lowered.bundle, surrounding):
        site.extra.append({"anyOf": options})
        lowered.enforce(site.path, "oneOf", "branches that exclude each other")
        return
    exclusive = _exclusive(lowered, site.path, branches)
    if exclusive is not None:
        site.extra.append({"anyOf": exclusive})
        lowered.enforce(site.path, "oneOf")
        return
    site.extra.append({"anyOf": options})
    lowered.leave(site.path, "oneOf", "that not two branches hold at once")


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


def _not(lowered: Lowered, site: Site) -> None:
    _rewritten(lowered, site.path, "not", site.extra, lambda: negate(site.node["not"], lowered.bundle))


def _if(lowered: Lowered, site: Site) -> None:
    if "then" not in site.node and "else" not in site.node:
        return
    condition, then, other = site.node["if"], site.node.get("then", True), site.node.get("else", True)

    def rewrite() -> Any:
        no = negate(condition, lowered.bundle)
        return {"anyOf": [{"allOf": [condition, then]}, {"allOf": [no, other]}]}

    _rewritten(lowered, site.path, "if", site.extra, rewrite)


def _dependencies(lowered: Lowered, site: Site) -> None:
    for name, needs in site.value.items():
        then = {"required": needs} if isinstance(needs, list) else needs
        without = {"properties": {name: False}}
        present = {"allOf": [{"required": [name]}, then]}
        either = {"anyOf": [without, present]}
        _rewritten(
            lowered,
            (*site.path, site.keyword, name),
            site.keyword,
            site.extra,
            functools.partial(dict, either),
        )


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
