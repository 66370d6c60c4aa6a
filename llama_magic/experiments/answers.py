"""An answer as plain data that can be compared, counted and put into a table."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from llama_magic.model.evaluate import is_gap

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


def plain(value: Any) -> Any:
    """Return models of pydantic, dataclasses, enumerations and containers as dicts, lists and values."""
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return value


def same(answer: Any, wanted: Any) -> bool:
    """Tell whether an answer is what a column holds: equal as values, or as texts without blanks around.

    So "5" is 5 and "yes" is "yes "; upper and lower case differ. Nothing is equal to a gap.
    """
    wanted = plain(wanted.item() if hasattr(wanted, "item") else wanted)
    if answer is None or is_gap(wanted):
        return False
    if isinstance(answer, bool) or isinstance(wanted, bool):
        return answer is wanted or str(answer).strip().casefold() == str(wanted).strip().casefold()
    return bool(answer == wanted) or str(answer).strip() == str(wanted).strip()


def flat(columns: Mapping[str, Any], own: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Put what is told of a result beside the columns of its row, which keep their names."""
    made = dict(columns)
    for name, value in own:
        made[f"{name} (run)" if name in columns else name] = value
    return made
