"""A small table: headers and rows of plain values, that pandas can take over."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from llama_magic.words.plain import said
from llama_magic.words.shown import Printed


@dataclass(frozen=True)
class Share:
    """A candidate and its probability (0 to 1), shown as words and a bar; `gone` strikes it through."""

    text: str
    share: float
    gone: bool = False


@dataclass(frozen=True)
class Marked:
    """A text in pieces, some of them marked: (piece, whether it is)."""

    pieces: tuple[tuple[str, bool], ...]


class Figure(str):
    """A number in words of its own: its minus is one to who looks, and a hyphen in what is copied as data."""

    __slots__ = ()


@dataclass(frozen=True)
class Table(Printed):
    """Rows of `str`, `Figure`, numbers, `None`, `Marked` or tuples of `Share` under `headers`.

    `caption` says what it lists. Its first `together` columns are said once where rows have them in common.
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    caption: str = ""
    empty: str = "Nothing yet."
    together: int = 0

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with one column a header.

        Raises: ImportError where pandas is not installed.
        """
        import pandas

        return pandas.DataFrame([list(row) for row in self.rows], columns=list(self.headers))

    def __len__(self) -> int:
        return len(self.rows)


def data_frame(records: Sequence[Mapping[Any, Any]], index: Any = None) -> Any:
    """Return a `pandas.DataFrame` of records, in which whole numbers stay whole where some are missing.

    pandas makes floats of them (42.0), and a seed of ten digits 4.2e9; its own type for such is Int64.
    """
    import pandas

    frame = pandas.DataFrame(list(records), index)
    for place, name in enumerate(frame.columns):
        if frame.dtypes.iloc[place] not in ("float64", "object"):
            continue
        values = [record.get(name) for record in records]
        known = [value for value in values if value is not None and type(value).__name__ != "NAType"]
        whole = all(isinstance(value, Integral) and not isinstance(value, bool) for value in known)
        if known and whole and all(-(2**63) <= value < 2**63 for value in known):
            frame.isetitem(place, pandas.array(values, "Int64"))
    return frame


BRIEF = 120  # characters
_DEEP = 20  # lists in one another, as of one that holds itself


def brief(text: str) -> str:
    """Return the first words of a text, no line blank: a list is for finding, `to_pandas()` has all of it."""
    begun = text.lstrip("\n")
    lines = "\n".join(line for line in begun[: 4 * BRIEF].split("\n") if line.strip()) or begun
    return lines if len(lines) <= BRIEF and len(begun) <= 4 * BRIEF else f"{lines[: BRIEF - 1]}…"


def cell_text(value: Any, depth: int = 0) -> str:
    """Return a cell's words: thousands separated, floats to three digits, `None` as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if value.bit_length() < 200 else said(value)
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, tuple) and value and all(isinstance(item, Share) for item in value):
        words = ((item.text, "cut" if item.gone else percent(item.share)) for item in value)
        return ", ".join(" ".join(filter(None, pair)) for pair in words)  # a dot is a blank in a token
    if isinstance(value, Marked):
        return "".join(f"[{text}]" if marked else text for text, marked in value.pieces)
    if isinstance(value, (tuple, list)) and depth < _DEEP:
        return ", ".join(cell_text(item, depth + 1) for item in value)
    return said(value)


def percent(share: float) -> str:
    """Return a share in percent, with a decimal where it is small: `28%`, `2.4%`, `0.03%`."""
    if share <= 0 or share >= 0.0995:
        return f"{share:.0%}"
    return f"{share:.1%}" if share >= 0.00095 else f"{share:.2%}" if share >= 0.00005 else "<0.01%"


_FIGURE = re.compile(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]\d+)?( ?(%|ms|s|[kMGT]?B)| ± \d[\d,]*(\.\d+)?)?")


def is_number(value: Any) -> bool:
    """Return whether a cell is set flush right: a number, or its words, such as `1.59 MB` or `61.0 ± 0.7`."""
    if isinstance(value, str):
        return _FIGURE.fullmatch(value) is not None
    return isinstance(value, (int, float)) and not isinstance(value, bool)
