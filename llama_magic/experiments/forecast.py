"""A dry run: the tokens of every prompt, what will not fit, and how long it takes by measured speed."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from llama_magic.errors import ContextOverflowError
from llama_magic.experiments.tasks import Task
from llama_magic.model.journal import journal
from llama_magic.words.shown import Printed
from llama_magic.words.tables import data_frame

if TYPE_CHECKING:
    from llama_magic.experiments.models import Models
    from llama_magic.model.model import Model
    from llama_magic.model.results import Completion
    from llama_magic.request.request import Request

_LATEST = 50  # answers of a model that its speed is measured by
_LEAST = 8  # tokens of one that says something of it


@dataclass(frozen=True)
class ForecastRow:
    """One answer that would be asked for: tokens of its prompt, the most of its answer; or why it cannot."""

    row: int
    sample: int
    settings: Mapping[str, Any]
    prompt_tokens: int | None
    max_tokens: int | None
    error: Exception | None = None


@dataclass(frozen=True)
class Pace:
    """What a model was measured at: tokens a second read and written, tokens of a usual answer.

    `write` is 0 where nothing is written.
    """

    read: float
    write: float
    answer: float
    answers: int


@dataclass(frozen=True)
class Forecast(Printed):
    """What an experiment would take; nothing of it was asked.

    `distinct_tokens` of the `prompt_tokens` are to be read: what prompts begin with is read once.
    `seconds` are foretold from the speed that was measured of each model (`speeds`), one answer at a time,
    so it is less where answers are written together; None where no speed is known. `notes` are those that
    the results would have.
    """

    rows: tuple[ForecastRow, ...]
    distinct_tokens: int
    seconds: float | None
    speeds: Mapping[str, Pace] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def prompt_tokens(self) -> int:
        """The tokens of all prompts that fit."""
        return sum(row.prompt_tokens or 0 for row in self.rows if row.error is None)

    @property
    def too_long(self) -> list[ForecastRow]:
        """Those that do not fit the window."""
        return [row for row in self.rows if isinstance(row.error, ContextOverflowError)]

    @property
    def failures(self) -> list[ForecastRow]:
        """Those that would be errors, too long or otherwise."""
        return [row for row in self.rows if row.error is not None]

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`, a row an answer. Raises: ImportError where pandas is not installed."""
        return data_frame(
            [
                {
                    "row": one.row, "sample": one.sample, **one.settings, "prompt_tokens": one.prompt_tokens,
                    "max_tokens": one.max_tokens, "error": None if one.error is None else str(one.error),
                }
                for one in self.rows
            ]
        )  # fmt: skip


class Askable(Protocol):
    """What is foretold of: an `Experiment`."""

    @property
    def models(self) -> Models: ...
    @property
    def tasks(self) -> Sequence[Task]: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    def request(self, model: Model, task: Task) -> Request: ...
    def measured(self, model: Model, task: Task | None) -> Pace | None: ...


def forecast(experiment: Askable) -> Forecast:
    """Count what an experiment would read, and foretell how long it takes.

    Where a model in this process was not measured yet, one row is asked for it.
    """
    rows: list[ForecastRow] = []
    distinct, seconds, known = 0, 0.0, True
    speeds: dict[str, Pace] = {}
    for name in experiment.models.names:
        tasks = [task for task in experiment.tasks if task.setting.model == name]
        if not tasks:
            continue
        model = experiment.models.open(name)
        try:
            made = _count(experiment, model, tasks)
            fit = [(row, ids) for row, ids in made.values() if row.error is None]
            read = _distinct(sorted(ids for _, ids in fit))
            first = next((task for task in tasks if made[task.place][1]), None)
            speed = experiment.measured(model, first)
        finally:
            experiment.models.leave(name)
        rows += [row for row, _ in made.values()]
        distinct += read
        if speed is None:
            known = known and not fit
            continue
        speeds[name or model.name] = speed
        written = sum(min(speed.answer, row.max_tokens or 0) for row, _ in fit)
        seconds += read / speed.read + (written / speed.write if speed.write else 0.0)
    return Forecast(tuple(rows), distinct, seconds if known else None, speeds, experiment.notes)


def _count(
    experiment: Askable, model: Model, tasks: Sequence[Task]
) -> dict[int, tuple[ForecastRow, tuple[int, ...]]]:
    made: dict[int, tuple[ForecastRow, tuple[int, ...]]] = {}
    for task in tasks:
        setting = task.setting
        head = (task.row.place, task.sample, setting.values)
        try:
            request = experiment.request(model, task)
        except Exception as error:  # of this row alone
            count = error.prompt_tokens if isinstance(error, ContextOverflowError) else None
            made[task.place] = (ForecastRow(*head, count, None, error.with_traceback(None)), ())
            continue
        ids = tuple(request.prompt)
        made[task.place] = (ForecastRow(*head, len(ids), request.max_tokens), ids)
    return made


def _distinct(prompts: Sequence[tuple[int, ...]]) -> int:
    """Count the nodes of the prefix tree of sorted prompts."""
    total = len(prompts[0]) if prompts else 0
    for before, after in itertools.pairwise(prompts):
        shared = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
        total += len(after) - (min(len(before), len(after)) if shared is None else shared)
    return total


def pace_so_far(model: Model) -> Pace | None:
    """Return the speed of the answers that this process has had of a model."""
    answers = [one for one in journal if one.model == model.name and one.mode != "xray"]
    return pace_of(answers[-_LATEST:])


def pace_of(answers: Sequence[Completion[Any]]) -> Pace | None:
    """Return the speed that answers show; None where they are too short to."""
    read = [(a.usage.prompt_tokens - a.usage.cached_tokens, a.timings.prompt_s) for a in answers]
    read = [(tokens, spent) for tokens, spent in read if tokens >= _LEAST and spent > 0]
    written = [a for a in answers if a.usage.completion_tokens > 1 and a.timings.tokens_per_second > 0]
    if not read or not written:
        return None
    return Pace(
        sum(tokens for tokens, _ in read) / sum(spent for _, spent in read),
        statistics.median(a.timings.tokens_per_second for a in written),
        statistics.fmean(a.usage.completion_tokens for a in written),
        len(written),
    )
