"""Lists of kept answers: texts have columns, what else is known of each stands in one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from llama_magic.request.events import CUT
from llama_magic.words.counting import counted
from llama_magic.words.tables import Table, cell_text

_NAMED = ("tag", "label", "seed")  # what would not be known for what it is without its name
_HOW = ("tokens", "tag", "label", "mode", "model", "ended", "seed", "seconds", "tok/s")
_UNITS = {"seconds": "s", "tok/s": "tok/s"}


def listed(whole: Table, columns: Sequence[str], left_out: Collection[str] = ()) -> Table:
    """Return a list with these `columns`, and how each answer came about in a last one.

    That is its tokens, tag, label, mode, model, its end unless it came by itself, seed, time and speed, but
    what is `left_out`: a column for each of them would leave the texts a few letters a line.
    """
    rows = [dict(zip(whole.headers, row, strict=True)) for row in whole.rows]
    for row in rows:
        row["ended"] = CUT.get(row.get("ended", ""))
    how = [name for name in _HOW if name in whole.headers and name not in left_out]
    told = tuple((*(row[name] for name in columns), ", ".join(_told(row, how))) for row in rows)
    return replace(whole, headers=(*columns, "how"), rows=told)


def _told(row: dict[str, Any], names: Sequence[str]) -> list[str]:
    return [_words(name, row[name]) for name in names if row[name] not in (None, "")]


def _words(name: str, value: Any) -> str:
    if name == "tokens":
        return counted(value, "token").replace(" ", "\u00a0")
    if name in _UNITS:
        return f"{cell_text(value)}\u00a0{_UNITS[name]}"
    return f"{name}\u00a0{value}" if name in _NAMED else str(value)
