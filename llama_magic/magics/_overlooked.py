"""What a body says in a notation that is not ours: it is sent as it stands, and that is said beforehand."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping
from typing import Any

from llama_magic.session.blocks import ROLES

_SINGLE = re.compile(r"(?<![{\w$])\{([^\W\d]\w*)\}(?!\})")
_ROLE = re.compile(rf"({'|'.join(ROLES)})[ \t]*:(?:\s|$)", re.IGNORECASE)


def overlooked(body: str, namespace: Mapping[str, Any], *, blocks: bool) -> Iterator[str]:
    """Yield a sentence for what was probably meant to be filled, or as `blocks` to open a turn."""
    names = [name for name in dict.fromkeys(_SINGLE.findall(body)) if _is_value(name, namespace)]
    if names and "{{" not in body:
        single, double = (
            " and ".join(f"{a}{name}{b}" for name in names) for a, b in (("{", "}"), ("{{ ", " }}"))
        )
        yield f"Sent as it stands: {single}. Double braces fill in a variable: {double}."
    first = next((line for line in body.split("\n") if line.strip()), "")
    if blocks and (found := _ROLE.match(first)) and not first.startswith(f"{found[1].lower()}:"):
        yield f"Sent as it stands: {found[0].strip()} A turn begins in small letters, {found[1].lower()}:"


def _is_value(name: str, namespace: Mapping[str, Any]) -> bool:
    """Say whether a variable of that name could have been meant: no module, no function."""
    value = namespace.get(name)
    return value is not None and not (callable(value) or isinstance(value, types.ModuleType))
