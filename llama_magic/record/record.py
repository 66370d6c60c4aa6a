"""A record: answers in a file, as a sequence that grows while kernels write to it."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, overload

from llama_magic.errors import InputTypeError, OptionError, SourceError
from llama_magic.model.results import Completion
from llama_magic.model.shapes import check
from llama_magic.record.database import Database
from llama_magic.record.saved import as_text, beside, completion_of, line
from llama_magic.sources import user_path, write_whole
from llama_magic.threads import to_its_end
from llama_magic.words.counting import counted
from llama_magic.words.shown import Printed
from llama_magic.words.signature import checked
from llama_magic.words.tables import Table, brief

_OF_A_BATCH = re.compile("[0-9a-f]{64}")  # a digest, by which a batch finds its rows again
_COLUMNS = ("answer", "request", "label", "time", "tag", "receipt", "more")
_TABLE = (
    "id", "time", "tag", "label", "model", "mode", "prompt", "text", "seed", "seeded", "finish_reason",
    "prompt_tokens", "completion_tokens", "total_s", "tokens_per_second", "request", "answer",
)  # fmt: skip
_SUMMARY = ("#", "time", "tag", "label", "mode", "model", "prompt", "answer", "tokens", "ended", "seed")
_SHOWN = 50  # lines of the short view
_PAGE = 200  # rows read at once
_AT_ONCE = 1000  # rows written by one statement: as many as a call has samples


class Record(Printed, Sequence[Completion[Any]]):
    """The answers of one file, oldest first. Threads and other kernels may add to it at any time.

    With `create` a missing file is begun. Each answer is in it whole or not at all, whenever a kernel is
    killed. Raises `SourceError` for a file that is no record, or of a later version.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True) -> None:
        self.path: Path = user_path(path)
        self.database = Database(self.path, create=create)

    def __reduce__(self) -> Any:
        return partial(Record, create=False), (str(self.path),)  # a copy is another door to the same file

    def add(self, *made: Completion[Any], label: str | None = None, tag: str | None = None) -> None:
        """Keep the answers of a call, all of them or none; one that is there already is not kept twice.

        `label` is a name of the caller's own to find them by, and `tag` goes to those that have none.
        A Ctrl-C meanwhile comes out when they are kept.
        """
        for start in range(0, len(made), _AT_ONCE):
            self._add([_row(one, label, tag) for one in made[start : start + _AT_ONCE]])

    def _add(self, rows: list[tuple[Any, ...]]) -> None:
        places = ", ".join([f"({', '.join('?' * len(_COLUMNS))})"] * len(rows))
        sql = (
            f"INSERT INTO answers ({', '.join(_COLUMNS)}) VALUES {places} "
            "ON CONFLICT (answer) DO UPDATE SET label = coalesce(excluded.label, label)"
        )
        values = [value for row in rows for value in row]
        to_its_end(partial(self.database.write, sql, values))

    def check_writable(self) -> None:
        """Raise `SourceError` where nothing can be added, before somebody waits for what is to be."""
        self.database.write("DELETE FROM answers WHERE 0")

    def find(self, *, request: str | None = None, label: str | None = None) -> list[Completion[Any]]:
        """Return the answers to one request (`Completion.request`), or of one label, oldest first."""
        if (request is None) == (label is None):
            raise OptionError("Give a request or a label to find answers by, one of them.")
        column, value = ("request", request) if label is None else ("label", label)
        return list(map(_completion, self._rows(f"WHERE {column} = ? ORDER BY id", (value,))))

    def __len__(self) -> int:
        return int(self.database.read("SELECT count(*) FROM answers")[0][0])

    def __iter__(self) -> Iterator[Completion[Any]]:
        return map(_completion, self._pages())

    def _pages(self) -> Iterator[tuple[Any, ...]]:
        last = 0
        while rows := self._rows("WHERE id > ? ORDER BY id LIMIT ?", (last, _PAGE)):
            yield from rows
            last = rows[-1][-1]

    @overload
    def __getitem__(self, index: int) -> Completion[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Completion[Any]]: ...
    def __getitem__(self, index: int | slice) -> Completion[Any] | list[Completion[Any]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        order, skip = ("id", index) if index >= 0 else ("id DESC", -index - 1)
        rows = self._rows(f"ORDER BY {order} LIMIT 1 OFFSET ?", (skip,)) if skip < 2**63 else []
        if not rows:
            raise IndexError(f"The record holds {counted(len(self), 'answer')}, and none numbered {index}.")
        return _completion(rows[0])

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with a row an answer. Raises ImportError where pandas is missing."""
        import pandas

        rows = self.database.read(f"SELECT {', '.join(_TABLE)} FROM answers ORDER BY id")
        frame = pandas.DataFrame(rows, columns=list(_TABLE)).set_index("id")
        time = pandas.to_datetime(frame["time"], format="ISO8601", utc=True, errors="coerce")
        return frame.assign(time=time, seeded=frame["seeded"].astype(bool))

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write a JSON object a line: `id`, `time`, `tag`, `label`, `receipt`, and what stands beside it."""
        target = user_path(path)
        write_whole(target, self._lines(), "The record")
        return target

    def _lines(self) -> Iterator[bytes]:
        return (line(_completion(row), label=row[5]) for row in self._pages())

    def table(self) -> Table:
        """Return the short view: a line for each of the last answers."""
        rows = self._rows("ORDER BY id DESC LIMIT ?", (_SHOWN,))
        every = len(self)
        hidden = f", the last {len(rows)} of them shown" if every > len(rows) else ""
        lines = tuple(_summary(row) for row in reversed(rows))
        caption = f"{self.path.name}: {counted(every, 'answer')}{hidden}"
        return Table(_SUMMARY, lines, caption, "No answer is kept here yet.")

    def models(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return the models that wrote here while it was a kernel's record: id, vocabulary, facts."""
        rows = self.database.read("SELECT id, vocabulary, facts FROM models ORDER BY rowid")
        return [(name, vocabulary, json.loads(facts)) for name, vocabulary, facts in rows]

    def vocabulary(self, name: str) -> dict[str, Any]:
        """Return the facts of a vocabulary."""
        ((facts,),) = self.database.read("SELECT facts FROM vocabularies WHERE id = ?", (name,))
        return dict(json.loads(facts))

    def close(self) -> None:
        """Close the file; using the record again opens it again."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Record {str(self.path)!r}: {counted(len(self), 'answer')}>"

    def _rows(self, condition: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.database.read(
            f"SELECT receipt, more, answer, time, tag, label, id FROM answers {condition}", values
        )


@checked
def open_record(path: str | os.PathLike[str]) -> Record:
    """Open the record of a file that is there: a sequence of `Completion`, oldest first.

    Raises `SourceError` where there is none, or the file is something else.
    """
    return Record(path, create=False)


def _row(one: Completion[Any], label: str | None, tag: str | None) -> tuple[Any, ...]:
    receipt, more = as_text(one.receipt), as_text(beside(one))
    return one.id or uuid.uuid4().hex, one.request, label, one.time, one.tag or tag, receipt, more


def _summary(row: tuple[Any, ...]) -> tuple[Any, ...]:
    one, label, number = _completion(row), *row[-2:]
    when, answer = one.time.partition(".")[0].replace("T", " "), (brief(one.question), brief(one.text))
    ended = (one.usage.completion_tokens, one.finish_reason, str(one.seed))
    shown = "" if label is None or _OF_A_BATCH.fullmatch(label) else label
    return (number, when, one.tag or "", shown, one.mode, one.model, *answer, *ended)


def _completion(row: tuple[Any, ...]) -> Completion[Any]:
    receipt, more, answer, time, tag, *_, number = row
    try:
        if not isinstance(time, str):
            raise InputTypeError("Its time is no text.")
        told = check(json.loads(receipt))
        return completion_of(told, json.loads(more), id=answer, time=time, tag=tag)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = error.message if isinstance(error, InputTypeError) else f"{error!r:.200}."
        raise SourceError(
            f"Answer {number} of the record is damaged: {why}",
            remedy="The others are not lost: record[0], record[1], … give them one by one.",
        ) from None
