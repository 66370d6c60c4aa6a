"""Rows of an experiment: from whatever holds them to one dict of columns each."""

from __future__ import annotations

import dataclasses
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llama_magic.errors import InputTypeError, LlamaMagicError
from llama_magic.words.given import items_of
from llama_magic.words.tables import data_frame

_BOM = "\ufeff"
TEXT, MESSAGES = "text", "messages"  # the columns of rows that are texts, or conversations, themselves


@dataclass(frozen=True)
class Row:
    """One row: its place (from 0) and its columns; `error` says why it is none that can be asked.

    `label` is what its table calls it, None where that is its place; `index` the names of the table's index.
    """

    place: int
    inputs: Mapping[str, Any] = field(default_factory=dict)
    error: LlamaMagicError | None = None
    label: Any = None
    index: tuple[Any, ...] = ()

    @property
    def itself(self) -> Any:
        """What is asked where no prompt is given: its column `messages` or `text`, or its only one."""
        only = next(iter(self.inputs.values())) if len(self.inputs) == 1 else None
        return self.inputs.get(MESSAGES, self.inputs.get(TEXT, only))


def read_rows(given: Any) -> list[Row]:
    """Return the rows of a DataFrame, a Series, results, or an iterable of dicts, texts, or conversations.

    A text has one column, `text`; a conversation (a list of messages) one, `messages`; a Series its name.
    An item that is no row keeps its place, with its error. Raises `InputTypeError` for what holds no rows.
    """
    if hasattr(given, "as_rows"):  # results of another experiment
        return list(given.as_rows())
    items = _items(given)
    rows = [_row(place, item) for place, item in enumerate(items)]
    labels = _labels(given)
    return (
        rows
        if labels is None
        else [
            replace(row, label=label, index=tuple(given.index.names))
            for row, label in zip(rows, labels, strict=True)
        ]
    )


def _labels(given: Any) -> list[Any] | None:
    """Return what a table of pandas calls its rows, None where these are numbered from 0."""
    if _kind(given) is None or not hasattr(given, "iloc"):
        return None
    labels = list(given.index)
    return None if labels == list(range(len(labels))) else labels


def _kind(given: Any) -> str | None:
    """Say whether it is a DataFrame or a Series: of pandas, of a kin of it, or a class of one's own above."""
    names = [base.__name__ for base in type(given).__mro__]
    return next((name for name in names if name in ("DataFrame", "Series")), None)


def as_table(
    records: Sequence[Mapping[str, Any]],
    places: Sequence[int],
    labels: Sequence[Any] | None,
    names: Sequence[Any],
) -> Any:
    """Return a `pandas.DataFrame` of what is told of rows, by the index of their table and its names."""
    import pandas

    index: Any = list(places) if places and len(set(places)) == len(places) else None
    if labels is not None and places:
        mine = [labels[place] for place in places]
        index = pandas.Index(mine, name=names[0] if names else None, tupleize_cols=False)
        if len(names) > 1:
            index = pandas.MultiIndex.from_tuples(mine, names=names)
    return data_frame(records, index)


def _items(given: Any) -> Iterable[Any]:
    table: Any = given
    for listed in ("to_dicts", "to_pylist"):  # tables of polars and of pyarrow
        if hasattr(given, listed):
            return list(getattr(given, listed)())
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise InputTypeError(
            f"The rows are a {type(given).__name__}; expected a DataFrame, a Series, or a list of "
            "dicts, texts or conversations.",
            remedy="Of a dict of columns or a file make a DataFrame first (pd.read_csv(path)); one text goes "
            "into a list; a lazy table is collected first (.collect()).",
        )
    kind = _kind(given)
    if kind == "DataFrame" and hasattr(given, "to_dict"):
        names = [_column(name) for name in table.columns]
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise InputTypeError(
                f"The rows have several columns called {twice[0]!r}.",
                remedy="Rename them, or leave out all but the first: df.loc[:, ~df.columns.duplicated()].",
            )
        return (dict(zip(names, row, strict=True)) for row in table.itertuples(index=False, name=None))
    if kind == "Series":
        name = getattr(given, "name", None)
        name = TEXT if name is None or name == "" else str(name)  # of polars "" where it has none
        return ({name: value} for value in given)
    if isinstance(given, io.TextIOBase):  # an open file: its lines
        return _lines(given)
    if hasattr(given, "columns"):  # of another kind of table one gets the names of its columns, or nothing
        raise InputTypeError(
            f"The rows are a {type(given).__name__}, a kind of table that is not known here.",
            remedy="Make a DataFrame of it first: most have .to_pandas(), .toPandas() or .df().",
        )
    return items_of("The rows", given)


def _lines(file: io.TextIOBase) -> list[Any]:
    """Return the lines of a file; of one that is called .jsonl or .ndjson what each holds, or its error."""
    lines = [line.rstrip("\r\n").removeprefix(_BOM) for line in file]
    if not str(getattr(file, "name", "")).endswith((".jsonl", ".ndjson")):
        return lines
    return [_of_json(line) for line in lines if line.strip()]


def _of_json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return InputTypeError(
            f"The line of this row is no JSON: {error}.", remedy="Mend it, or leave it out."
        )


def _column(name: Any) -> str:
    """Return what a key names; the mark at the beginning of a file (BOM), which nobody sees, is no part."""
    return str(name).removeprefix(_BOM)


def _row(place: int, item: Any) -> Row:
    if isinstance(item, str):
        return Row(place, {TEXT: item})
    if isinstance(item, LlamaMagicError):  # of a line of a file
        return Row(place, {}, item)
    if isinstance(item, Mapping):
        named = {_column(name): value for name, value in item.items()}
        return Row(place, named, None if len(named) == len(item) else _twice(place, item))
    if isinstance(item, (list, tuple)) and item and all(_is_message(part) for part in item):
        return Row(place, {MESSAGES: list(item)})
    if hasattr(item, "_asdict"):
        return Row(place, dict(item._asdict()))
    if hasattr(item, "keys") and hasattr(item, "__getitem__"):  # of SQLite, of df.iterrows()
        return _row(place, {name: item[name] for name in item.keys()})  # noqa: SIM118 - it is no dict
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return Row(place, {f.name: getattr(item, f.name) for f in dataclasses.fields(item)})
    if hasattr(item, "model_dump"):
        return Row(place, dict(item.model_dump()))
    found = "None" if item is None else f"a {type(item).__name__}"
    error = InputTypeError(
        f"Row {place} (from 0) is {found}; expected a dict, a text, or a list of messages.",
        remedy="Of a value make a text or a dict first: str(x), path.read_text(), {'text': x}.",
    )
    return Row(place, {}, error)


def _twice(place: int, item: Mapping[Any, Any]) -> InputTypeError:
    """Return the error of a row whose keys are not told apart as names of columns: 1 and "1"."""
    (name, count), *_ = Counter(map(_column, item)).most_common(1)
    return InputTypeError(
        f"Row {place} (from 0) has {count} keys that are written {name!r}; a column has one.",
        remedy="Rename all but one.",
    )


def _is_message(part: Any) -> bool:
    return isinstance(part, Mapping) and "role" in part
