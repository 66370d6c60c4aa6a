"""What `map` and `sweep` give back: one `Run` an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llama_magic.experiments.answers import flat, plain_answer
from llama_magic.experiments.results import Results
from llama_magic.model.other_names import RUN, CalledElsewhere
from llama_magic.words.counting import counted
from llama_magic.words.plain import plain, said
from llama_magic.words.shown import Shown

if TYPE_CHECKING:
    from llama_magic.model.results import Completion


@dataclass(frozen=True)
class Run(CalledElsewhere, Shown):
    """One answer of an experiment.

    `row` is the place of its row (from 0), `sample` which of `n` answers it is, `inputs` the columns,
    `settings` the values of the axes. There is a `completion` or an `error`; `scores` are by name, those of
    a function that failed are exceptions. `seconds` is the time that the model took, `seed` what the answer
    was drawn with: asked alone with it, the row gives the same tokens where a seed was given.
    """

    _elsewhere, _called = RUN, "run"

    place: int
    row: int
    sample: int
    inputs: Mapping[str, Any]
    settings: Mapping[str, Any]
    completion: Completion[Any] | None = None
    error: Exception | None = None
    scores: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    seed: int | None = None

    def _within(self, name: str) -> str:
        return f"run.inputs[{name!r}]." if name in self.__dict__.get("inputs", ()) else ""

    def __repr__(self) -> str:
        said = f"error: {self.error!r}" if self.error is not None else repr(self.text)
        settings = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        return f"<Run of row {self.row}{settings}: {said if len(said) <= 80 else said[:79] + '…'}>"

    @property
    def text(self) -> str:
        """The answer's text, of one with an error what was written of it."""
        return "" if self.written is None else str(self.written.text)

    @property
    def written(self) -> Completion[Any] | None:
        """The completion, of one with an error what was written until then; None where nothing was."""
        made: Completion[Any] | None = self.completion or getattr(self.error, "completion", None)
        return made

    @property
    def parsed(self) -> Any:
        """The instance of a structured answer, None where there is none."""
        return None if self.completion is None else self.completion.parsed

    def answer(self, field: str | None = None) -> Any:
        """Return the answer as plain data, None where there is an error; see `plain_answer`."""
        return None if self.completion is None else plain_answer(self.completion, field)

    def record(self) -> dict[str, Any]:
        """Return it as one flat dict: columns of the row, settings, answer, its fields, scores, figures."""
        made = self.written
        usage = None if made is None else made.usage
        return flat(
            {"row": self.row, "sample": self.sample},
            self.inputs,
            [
                *self.settings.items(),
                ("answer", self._written()),
                *self._fields(),
                ("error", None if self.error is None else str(self.error)),
                *((name, None if isinstance(s, Exception) else s) for name, s in self.scores.items()),
                ("seed", self.seed),
                ("finish_reason", None if made is None else made.finish_reason),
                ("prompt_tokens", None if usage is None else usage.prompt_tokens),
                ("completion_tokens", None if usage is None else usage.completion_tokens),
                ("seconds", self.seconds),
            ],
        )

    def _written(self) -> Any:
        """Return the answer as one value; of an error none, so that a table shows none, and no empty text."""
        if self.completion is None or self.parsed is None:
            return None if self.completion is None else self.text
        answer = self.answer()
        return (
            answer
            if isinstance(answer, (str, int, float))
            else json.dumps(answer, default=said, ensure_ascii=False)
        )

    def _fields(self) -> list[tuple[str, Any]]:
        data = plain(self.parsed)
        return [(f"answer.{name}", value) for name, value in data.items()] if isinstance(data, dict) else []


class Runs(Results[Run]):
    """Answers of `lm.map` or `lm.sweep`, in row order."""

    _blank = Run(0, 0, 0, {}, {})


# What differs between notes that say the same of two answers: numbers, and words of their prompts.
_OWN = re.compile(r"""'[^']*'|"[^"]*"|\d[\d,]*""")


def notes_of(runs: Iterable[Run]) -> list[str]:
    """Return what the notes of the answers say, each kind once: of which row, and of how many answers."""
    told: dict[str, list[tuple[Run, str]]] = {}
    count, rows = 0, set()
    for run in runs:
        count += 1
        rows.add(run.row)
        for note in () if run.completion is None else run.completion.notes:
            told.setdefault(_OWN.sub("…", note), []).append((run, note))
    return [_together(where, count, rows=len(rows) > 1) for where in told.values()]


def _together(where: list[tuple[Run, str]], count: int, *, rows: bool) -> str:
    (first, note), *more = where
    if more and len(where) == count and len({said for _, said in where}) == 1:
        return f"All {count:,} answers: {note}"
    if not rows and count > 1:  # of a sweep without rows
        return f"{len(where):,} of {count:,} answers: {note}"
    others = f" and {counted(len(more), 'other answer')}" if more else ""
    return f"Row {first.row}{others}: {note}"
