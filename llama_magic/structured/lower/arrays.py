"""Lower what a schema says of arrays; what looks at several items at once is checked after the answer."""

from __future__ import annotations

from llama_magic.structured.lower.combinators import many
from llama_magic.structured.lower.lowered import Lowered, Site


def _items(lowered: Lowered, site: Site) -> None:
    items = site.node["items"]
    if isinstance(items, list):
        site.out["prefixItems"] = [
            lowered.lower((*site.path, "items", str(i)), sub) for i, sub in enumerate(items)
        ]
        if "additionalItems" in site.node:
            site.out["items"] = lowered.lower((*site.path, "additionalItems"), site.node["additionalItems"])
            lowered.enforce(site.path, "additionalItems")
    else:
        site.out["items"] = lowered.lower((*site.path, "items"), items)
    lowered.enforce(site.path, "items")


def _check_later(lowered: Lowered, site: Site) -> None:
    if site.value is not True:
        lowered.leave(site.path, site.keyword)


_AFTER = ("unevaluatedProperties", "unevaluatedItems")
RULES = {"items": _items, "prefixItems": many, **dict.fromkeys(_AFTER, _check_later)}
