"""Unknown names: say which one was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping


def meant(name: str, known: Iterable[str], other_names: Mapping[str, str] | None = None) -> str:
    """Return `Did you mean …?`, or all known names where none is near.

    `other_names` are what another library, or the magic, calls the same thing: their answers may be
    whole, such as `reuse=False`.
    """
    names = sorted(known)
    if other_names and name in other_names:
        return f"Did you mean {other_names[name]}?"
    near = difflib.get_close_matches(name, names, 1)
    return f"Did you mean {near[0]}?" if near else f"Known: {', '.join(names)}."
