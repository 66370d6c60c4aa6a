"""An answer as plain data that can be compared, counted and put into a table."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from llama_magic.model.gaps import is_gap
from llama_magic.words.plain import alike, plain, said

if TYPE_CHECKING:
    from llama_magic.model.results import Completion


def plain_answer(completion: Completion[Any], field: str | None = None) -> Any:
    """Return the instance of a structured answer as plain data, or the text without blanks around it.

    Of an object with a key `field` that value; of an object with a single key its value.
    """
    if completion.parsed is None:
        return completion.text.strip()
    data = plain(completion.parsed)
    if isinstance(data, dict):
        if field in data:
            return data[field]
        if len(data) == 1:
            return next(iter(data.values()))
    return data


def same(answer: Any, wanted: Any) -> bool:
    """Tell whether an answer is what a column holds: equal as values, or as texts without blanks around.

    So "5" is 5 and "yes" is "yes "; upper and lower case differ; an é is an é in either form that Unicode
    has for it. Nothing is equal to a gap.
    """
    wanted = plain(wanted)
    if answer is None or is_gap(wanted):
        return False
    if isinstance(answer, bool) or isinstance(wanted, bool):
        return answer is wanted or said(answer).strip().casefold() == said(wanted).strip().casefold()
    return alike(answer, wanted) or as_label(answer) == as_label(wanted)


def as_label(value: Any) -> str:
    """Return a value as a text that is equal for what reads alike: without blanks around, composed (NFC)."""
    return unicodedata.normalize("NFC", said(plain(value))).strip()


def flat(
    place: Mapping[str, Any], columns: Mapping[str, Any], own: Iterable[tuple[str, Any]]
) -> dict[str, Any]:
    """Put what is told of a result beside the columns of its row, which keep their names; nothing is lost.

    `place` stands before them, `own` after them. What has a name that is taken is called "seed (run)".
    """
    made: dict[str, Any] = {}
    for name, value in place.items():
        made[_free(name, {**columns, **made})] = value
    made |= columns
    for name, value in own:
        made[_free(name, made)] = value
    return made


def _free(name: str, taken: Container[str]) -> str:
    """Return the name, or what it is called beside another of that name."""
    if name not in taken:
        return name
    names = (f"{name} (run{f' {count}' if count else ''})" for count in itertools.count())
    return next(one for one in names if one not in taken)
