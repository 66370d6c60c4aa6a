"""Unknown names: say which one was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping


def nearest(name: str, known: Iterable[str], n: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return up to `n` of the known names that are near to `name`, the nearest first.

    `cutoff` is the least likeness, from 0 (anything) to 1 (the same).
    """
    return difflib.get_close_matches(name, list(known), n, cutoff)


def likeliest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that `word` most likely stands for: one like it, small or large, or a longer one.

    Names that begin with an underscore are not meant: the known ones may be a user's namespace.
    """
    listed = [name for name in known if not name.startswith("_")]
    as_typed = {name.lower(): name for name in reversed(listed)}
    word = word.lower()
    if found := nearest(word, as_typed):
        return as_typed[found[0]]
    longer = (name for name in listed if len(word) > 1 and name.lower().startswith(word))
    shorter = (name for name in listed if len(name) > 3 and word.startswith(f"{name.lower()}-"))
    return next(longer, next(shorter, None))


def hint(name: str, known: Iterable[str], other_names: Mapping[str, str] | None = None) -> str:
    """Return ` Did you mean …?`, to stand behind a sentence, or "" where no known name is near.

    `other_names` are what another library, or the magic, calls the same thing: their answers may be
    whole, such as `reuse=False`.
    """
    near = (other_names or {}).get(name) or likeliest(name, known)
    return f" Did you mean {near}?" if near else ""


def meant(name: str, known: Iterable[str], other_names: Mapping[str, str] | None = None) -> str:
    """Return `Did you mean …?` as `hint` does, or all known names where none is near."""
    names = sorted(known)
    return hint(name, names, other_names).lstrip() or f"Known: {', '.join(names) or 'none'}."
