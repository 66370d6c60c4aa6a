"""Lower what a schema says of arrays; what looks at several items at once is checked after the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llama_magic.structured.lower.combinators import many
from llama_magic.structured.schema.bundle import Path

if TYPE_CHECKING:
    from llama_magic.structured.lower.lower import Lowered


def _items(lowered: Lowered, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
    items = node["items"]
    if isinstance(items, list):
        out["prefixItems"] = [lowered.lower((*path, "items", str(i)), sub) for i, sub in enumerate(items)]
        if "additionalItems" in node:
            out["items"] = lowered.lower((*path, "additionalItems"), node["additionalItems"])
            lowered.enforce(path, "additionalItems")
    else:
        out["items"] = lowered.lower((*path, "items"), items)
    lowered.enforce(path, "items")


def _check_later(lowered: Lowered, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
    if node[keyword] is not True:
        lowered.leave(path, keyword)


_AFTER = ("unevaluatedProperties", "unevaluatedItems")
RULES = {"items": _items, "prefixItems": many, **dict.fromkeys(_AFTER, _check_later)}
