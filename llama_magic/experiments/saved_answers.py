"""The answers that a file holds: a notebook's outputs, a record's rows, an export's lines."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llama_magic.errors import InputTypeError, SourceError
from llama_magic.model.again import receipt_of
from llama_magic.model.earlier import restored
from llama_magic.model.results import RECEIPT_MIME, Completion
from llama_magic.model.shapes import Receipt
from llama_magic.record.record import Record, open_record
from llama_magic.sources import read_whole, user_path
from llama_magic.words.files import decoded
from llama_magic.words.given import quoted

_SQLITE = b"SQLite format 3\0"
_MAP = re.compile(r"^(%%llama\s+|[^#\n]*\b(lm|llama_magic)\.)(map|sweep|decide)\b", re.MULTILINE)


@dataclass(frozen=True)
class Saved:
    """One answer, and where it stands: "cell 3", "answer 12"."""

    where: str
    receipt: Receipt


def read_answers(of: Any) -> tuple[str, list[Saved]]:
    """Return what answers are read from, in words, and the answers in order.

    `of`: a path, a `Record`, an answer or answers, entries of a history too. Raises `SourceError` for a file
    that holds none of it, and `InputTypeError` for what is no answer.
    """
    if isinstance(of, Record):
        return of.path.name, list(_of_record(of))
    if isinstance(of, (str, os.PathLike)):
        path = user_path(of)
        return path.name, _of_file(path)
    found = [
        Saved(f"answer {number}", receipt_of(one)[0])
        for number, one in enumerate(_each(of), 1)
        if one is not None
    ]
    return "these answers", found


def _each(of: Any) -> Iterator[Any]:
    """Yield answers one by one: samples of one call stand in a list, and their receipts in one.

    None is a row of a map that nothing was written for.
    """
    if isinstance(of, Mapping) and "samples" in of:
        of = of["samples"]
    if isinstance(of, (Completion, Mapping)):
        yield of
    elif hasattr(of, "completion"):  # a row, or an entry of the history
        failed = of.completion is None
        yield getattr(of.error, "completion", None) if failed and hasattr(of, "error") else of
    elif isinstance(of, Iterable) and not isinstance(of, (str, bytes)):
        for one in of:
            yield from _each(one)
    else:
        raise InputTypeError(f"Got {quoted(of)}; expected a notebook, a record, or answers.")


def _of_record(record: Record) -> Iterator[Saved]:
    for number, answer in enumerate(record, 1):
        yield Saved(f"answer {number}", answer.receipt)


def _of_file(path: Path) -> list[Saved]:
    try:
        if path.is_fifo() or path.is_char_device():
            read_whole(path, "The file")  # which refuses it
        with path.open("rb") as file:
            head = file.read(len(_SQLITE))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no file can have such a name"
        raise SourceError(f"{path} cannot be read: {why}.") from None
    if head == _SQLITE:
        with open_record(path) as record:
            return list(_of_record(record))
    text = decoded(read_whole(path, "The file"), "replace")
    try:
        return _of_notebook(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    try:
        lines = [json.loads(line) for line in text.splitlines() if line.strip()]
        if not lines:
            raise ValueError("it is empty")
        return [Saved(f"line {number}", receipt_of(line)[0]) for number, line in enumerate(lines, 1)]
    except (ValueError, InputTypeError, RecursionError):
        raise SourceError(
            f"{path} is no notebook, no record and no export of one.",
            remedy="Give an .ipynb file, a record, or one of its export.",
        ) from None


def maps_of(of: Any) -> int:
    """Return how many cells of a notebook ask for many answers, which a record holds and it does not."""
    if not isinstance(of, (str, os.PathLike)) or user_path(of).suffix != ".ipynb":
        return 0
    try:
        cells = json.loads(read_whole(user_path(of), "The notebook"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError):
        return 0
    return sum(_MAP.search(text) is not None for text in texts)


def _of_notebook(notebook: Any) -> list[Saved]:
    places: list[str] = []
    receipts: list[Mapping[str, Any]] = []
    for number, cell in enumerate(notebook["cells"], 1):
        for output in cell.get("outputs", ()):
            found = output.get("data", {}).get(RECEIPT_MIME)
            if found is None:
                continue
            found = json.loads(found) if isinstance(found, str) else found
            several = found.get("samples")
            for sample, receipt in enumerate(several if several is not None else [found], 1):
                places.append(f"cell {number}" + (f", sample {sample}" if several is not None else ""))
                receipts.append(receipt)
    return [Saved(*one) for one in zip(places, restored(receipts), strict=True)]
