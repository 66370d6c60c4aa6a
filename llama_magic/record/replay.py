"""Answers of a record in place of a model's: what equals a request of the record is answered from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llama_magic.errors import ModelClosedError, OptionError
from llama_magic.model.model import Model
from llama_magic.model.results import Completion
from llama_magic.record import facts
from llama_magic.record.record import Record, open_record
from llama_magic.record.vocabulary import RecordedTokenizer
from llama_magic.request.backend import Capabilities, Sink
from llama_magic.request.events import KnownEvent
from llama_magic.words.counting import counted
from llama_magic.words.names import hint

if TYPE_CHECKING:
    from llama_magic.request.request import Request

Row = tuple[str, str, dict[str, Any]]
_CALLED = {"ctx": "window", "kv_type": "type_k"}  # load options, as a model tells them
_WHOLE = ("stop", "length")  # what was stopped is no answer to an equal request


class _Everything(Capabilities):
    """What was honoured then is honoured again."""

    def lacks(self, request: Request) -> str | None:
        return None


class Replay:
    """Answers equal requests from a record. `only`: nothing else is answered, and no file is opened.

    Where the record has several answers to one request, as of one without a seed, they come in their order,
    and then anew.
    """

    def __init__(self, record: Record, *, only: bool = False) -> None:
        self.record = record
        self.only = only
        self._asked: dict[str, int] = {}
        self._models: dict[str, Model] = {}

    def find(self, request: Request) -> Sequence[Completion[Any]] | None:
        """Return the answers to a request, one a sample; where `only` and there are none, `OptionError`."""
        calls = self._calls(request.digest, request.n)
        if calls:
            turn = self._asked.get(request.digest, 0)
            self._asked[request.digest] = turn + 1
            return [
                replace(one, replayed=f"{self.record.path.name}, {one.time[:16].replace('T', ' ')} UTC")
                for one in calls[turn % len(calls)]
            ]
        if not self.only:
            return None
        raise OptionError(
            f"The record {self.record.path.name} has no answer to this request, and nothing else may answer.",
            remedy="Ask as it was asked then; or end the replay, and load the model.",
        )

    def _calls(self, request: str, n: int) -> list[list[Completion[Any]]]:
        """Return the answers to a request, those of one call together, whole ones only."""
        calls: dict[str, list[Completion[Any]]] = {}
        for one in self.record.find(request=request):
            calls.setdefault(one.id.rpartition("-")[0] or one.id, []).append(one)
        whole = (sorted(call, key=lambda one: one.sample) for call in calls.values())
        return [call for call in whole if len(call) == n and all(map(_is_whole, call))]

    # --- models without weights -------------------------------------------------------------

    def open(self, source: Any = None, *, name: str | None = None, **options: Any) -> Model:
        """Return a model of the record, as `load` does: by its name, file or source, and its load options.

        Raises `OptionError` where the record has none such.
        """
        options.pop("progress", None)
        row = _choose(self.rows(), source, name, options, self.record.path.name)
        model = self._models.get(row[0])
        if model is None or model.closed:
            model = self._models[row[0]] = _model(self, row, name)
        return model

    def rows(self) -> list[Row]:
        """Return the models of the record: id, vocabulary, facts."""
        rows = self.record.models()
        if not rows:
            raise OptionError(
                f"The record {self.record.path.name} knows no model: it was not a kernel's record.",
                remedy="Load the model, and replay it beside that.",
            )
        return rows

    def __repr__(self) -> str:
        only = ", and nothing else" if self.only else ""
        return f"<Replay of {self.record.path.name}: {counted(len(self.record), 'answer')}{only}>"


def open_recorded(source: str, *, name: str | None = None, **options: Any) -> Model:
    """Return the model of `record:PATH`: it answers what the record holds, without weights."""
    record = open_record(source.partition(":")[2])
    replay = Replay(record, only=True)
    options.pop("progress", None)
    return _model(replay, _choose(replay.rows(), None, None, options, record.path.name), name)


def _is_whole(one: Completion[Any]) -> bool:
    return one.finish_reason in _WHOLE and one.mode != "xray"


class RecordedBackend:
    """A source of tokens that has none: what a replay knows is answered, everything else refused."""

    local = None
    capabilities = _Everything(masks=False)

    def __init__(self, tokenizer: RecordedTokenizer, replay: Replay) -> None:
        self.tokenizer = tokenizer
        self._replay = replay
        self.closed = False

    def submit(self, request: Request, sink: Sink) -> None:
        if self.closed:
            raise ModelClosedError("The model was unloaded; load it again to use it.")
        sink(KnownEvent(tuple(self._replay.find(request) or ())))

    def cancel(self, request: Request) -> None:
        """Do nothing: a request has ended when it begins."""

    settle = cancel

    def close(self) -> None:
        self.closed = True


def _model(replay: Replay, row: Row, name: str | None) -> Model:
    _, vocabulary, known = row
    record = replay.record
    tokenizer = RecordedTokenizer(record.database, vocabulary, record.vocabulary(vocabulary))
    file = facts.file_of(known)
    file.notes = (*file.notes, f"Answers come from the record {record.path.name}; no weights are loaded.")
    return Model(name or known["name"], file, RecordedBackend(tokenizer, replay))


def _choose(
    rows: Sequence[Row], source: Any, name: str | None, options: Mapping[str, Any], where: str
) -> Row:
    """Return the model that is meant: by source or name, then by its load options."""
    wanted = str(source) if source is not None else name
    named = [row for row in rows if wanted is None or wanted in _names(row[2])]
    if not named and source is None:
        named = list(rows)  # a name that it is to be kept under
    if not named:
        known = sorted({row[2]["name"] for row in rows})
        meant = hint(str(wanted), known)
        raise OptionError(f"The record {where} knows no {wanted!r}.{meant} It has: {', '.join(known)}.")
    given = {_CALLED.get(key, key): value for key, value in options.items() if value is not None}
    fits = [row for row in named if all(row[2]["options"].get(k, v) == v for k, v in given.items())]
    if not fits:
        had = ", ".join(f"{key}={named[0][2]['options'].get(key)}" for key in given)
        raise OptionError(
            f"The record {where} has {named[0][2]['name']} with {had} only.",
            remedy="Load it with the options that it was recorded with.",
        )
    demo = [row for row in fits if (row[2]["source"] or {}).get("kind") == "demo"]
    return demo[0] if source is None and name is None and demo else fits[0]


def _names(known: Mapping[str, Any]) -> set[str]:
    """Return what a model is called: its name, its source, its file, with and without folder and ending."""
    source = known["source"] or {}
    file = known["made_with"].get("file", {}).get("name", "")
    said = {known["name"], source.get("name"), source.get("origin"), file, file.removesuffix(".gguf")}
    return {name for name in said if name}
