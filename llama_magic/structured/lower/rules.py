"""Every keyword that is lowered, with its rule: the one table, and `lower`, which goes by it."""

from __future__ import annotations

from llama_magic.structured.lower import any_type, arrays, combinators, numbers, objects, sets, strings
from llama_magic.structured.lower.lowered import Loosening, Lowered, Rules
from llama_magic.structured.schema.bundle import Bundle

RULES: Rules = {
    **any_type.RULES,
    **objects.RULES,
    **arrays.RULES,
    **sets.RULES,
    **strings.RULES,
    **numbers.RULES,
    **combinators.RULES,
}


def lower(bundle: Bundle, loosening: Loosening) -> Lowered:
    """Lower a schema by all rules; raises `TooWideError` where the rewrites grow too many."""
    return Lowered(bundle, loosening, RULES)
