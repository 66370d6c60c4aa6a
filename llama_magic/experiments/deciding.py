"""The experiment whose results are decisions: what `decide` carries out."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from llama_magic.doors import here, option
from llama_magic.errors import BackendError, SourceError
from llama_magic.experiments.experiment import Experiment
from llama_magic.experiments.forecast import Pace, pace_so_far
from llama_magic.experiments.odds import Decision, prefixes
from llama_magic.experiments.results import Results
from llama_magic.experiments.scoring import scores_of
from llama_magic.experiments.tasks import Task, conversation, key_of, text_alone
from llama_magic.model.asked import Beside
from llama_magic.model.bounded import bounded
from llama_magic.model.scoring import Texts, check_scores, prepare, score
from llama_magic.model.thinking import Thinking
from llama_magic.request.backend import Scores, Scoring
from llama_magic.threads import to_its_end

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.model import Model
    from llama_magic.request.request import Request

_TOGETHER = 16  # rows that are read together, and the most that an interrupt loses


@dataclass(frozen=True)
class _Row:
    """What is asked of one row."""

    task: Task
    assembler: Assembler
    texts: Texts


@dataclass
class Deciding(Experiment[Decision]):
    """Every row is read once for all options of it, some rows together."""

    options_of: Callable[[Task], Mapping[str, str]] = field(kw_only=True)  # by name: what is written for it
    by_row: bool = False  # whether each row has options of its own
    end: bool = False
    abstain_below: float = 0.0
    timeout: float | None = None  # of a row
    _shared: Texts | None = None  # of the options that all rows have, as the model at work cuts them

    def check(self, model: Model, tasks: Sequence[Task]) -> None:
        """Raise for a model that tells no probabilities, or a record that takes none.

        Not where the record holds all that is asked.
        """
        try:
            check_scores(model.calls)
            if self.record is not None:
                self.record.check_writable()
        except (BackendError, SourceError):
            if self.record is None or any(self._is_new(model, task) for task in tasks):
                raise

    def ask(
        self, model: Model, tasks: list[Task], results: Results[Decision], tick: Callable[[], None]
    ) -> None:
        if not self.by_row:
            options = self.options_of(tasks[0])
            self._shared = self._texts(model, options)  # a server would be asked for them with each row
            named = dict(zip(options, self._shared.tokens, strict=True))
            results.notes = self.notes + tuple(map(here, overlaps(named)))
        try:
            for made in self._decisions(model, tasks):
                to_its_end(partial(self.put, results, made))
                tick()
        finally:
            self._shared = None

    def _decisions(self, model: Model, tasks: Sequence[Task]) -> Iterator[Decision]:
        if isinstance(model.backend, Scores):
            yield from self._decided_elsewhere(model, model.backend, tasks)
            return
        # The first row alone, so that somebody who watches sees one as soon as there can be one.
        for some in (tasks[:1], *_portions(tasks[1:], _TOGETHER)):
            yield from self._decided(model, some)

    def _texts(self, model: Model, options: Mapping[str, str]) -> Texts:
        return self._shared or Texts.of(model.calls, list(options.values()), end=self.end)

    def _decided(self, model: Model, tasks: Sequence[Task]) -> Iterator[Decision]:
        """Read rows together, or take their odds from the record; an error is that of its row alone."""
        asked: list[_Row] = []
        for task in tasks:
            found = self._row(model, task)
            if isinstance(found, Decision):
                yield found
            else:
                asked.append(found)
        outcomes = _read(model, [(row.assembler.request, row.texts) for row in asked], self.timeout)
        for row, outcome in zip(asked, outcomes, strict=True):
            yield self._decision(model, row, outcome)

    def _decided_elsewhere(self, model: Model, source: Scores, tasks: Sequence[Task]) -> Iterator[Decision]:
        """Have as many rows at a time read as the source works on, and give them in their order."""
        most = model.backend.capabilities.parallel
        begun: deque[tuple[_Row, Scoring] | Decision] = deque()
        try:
            for task in tasks:
                begun.append(self._begun(model, source, task))
                while begun and (len(begun) >= most or _is_known(begun[0])):
                    yield self._heard(model, begun[0])
                    begun.popleft()
            while begun:
                yield self._heard(model, begun[0])
                begun.popleft()
        finally:
            for one in begun:
                if not isinstance(one, Decision):
                    one[1].cancel()

    def _begun(self, model: Model, source: Scores, task: Task) -> tuple[_Row, Scoring] | Decision:
        row = self._row(model, task)
        if isinstance(row, Decision):
            return row
        try:
            return row, source.score(row.assembler.request, row.texts.tokens)
        except Exception as error:
            return self.failed(task, error)

    def _heard(self, model: Model, begun: tuple[_Row, Scoring] | Decision) -> Decision:
        if isinstance(begun, Decision):
            return begun
        row, scoring = begun
        try:
            with bounded(self.timeout):
                odds = [sum(tokens) for tokens in scoring.wait()]
        except Exception as error:
            return self._decision(model, row, error)
        return self._decision(model, row, (odds, scoring.seconds))

    def _row(self, model: Model, task: Task) -> _Row | Decision:
        """Return what to ask of a row, or its decision: from the record, or where it cannot be asked."""
        try:
            texts = self._texts(model, self.options_of(task))
            row = _Row(task, self._prepared(model, task, texts), texts)
            kept = self._kept(model, task)
        except Exception as error:
            return self.failed(task, error)
        return row if kept is None else self._made(task, row.assembler, *kept)

    def _decision(self, model: Model, row: _Row, outcome: tuple[list[float], float] | Exception) -> Decision:
        """Return what was decided, and keep it; an error is that of its row, unless it is the record's."""
        if isinstance(outcome, Exception):
            return self.failed(row.task, outcome)
        self._keep(model, row.task, row.assembler, *outcome)
        try:
            return self._made(row.task, row.assembler, *outcome)
        except Exception as error:
            return self.failed(row.task, error)

    def _made(self, task: Task, assembler: Assembler, odds: list[float], seconds: float) -> Decision:
        logprobs = dict(zip(self.options_of(task), odds, strict=True))
        prompt = assembler.request.text
        made = replace(_blank(task), logprobs=logprobs, prompt=prompt, seconds=seconds, by_row=self.by_row)
        return made.judged(self.abstain_below, lambda made: scores_of(made, self.scores))

    def _prepared(self, model: Model, task: Task, texts: Texts) -> Assembler:
        own = task.setting.options
        filled, system = task.filled(), task.system()
        given = own.get("template_variables") or {}
        variables = Thinking.choose(model.calls.formatter, False, given).variables
        as_asked = text_alone if own["mode"] == "complete" else conversation
        prompt = as_asked(filled, system)
        return prepare(model.calls, prompt, texts, Beside(template_variables=variables))

    def _key(self, model: Model, task: Task) -> str:
        return key_of(model, task, choices=list(self.options_of(task).values()), end=self.end)

    def _kept(self, model: Model, task: Task) -> tuple[list[float], float] | None:
        found = self.record.find(label=self._key(model, task)) if self.record is not None else []
        if not found:
            return None
        return [float(odds) for _, odds in found[0].made_with["odds"]], found[0].timings.total_s

    def _is_new(self, model: Model, task: Task) -> bool:
        """Whether a row would be asked: the record does not hold it, and nothing is wrong with it."""
        try:
            return self._kept(model, task) is None
        except SourceError:
            raise
        except Exception:  # it is said when its turn comes
            return False

    def _keep(
        self, model: Model, task: Task, assembler: Assembler, odds: list[float], seconds: float
    ) -> None:
        """Keep a row's odds as an answer that holds them: its text is the likeliest option."""
        if self.record is None:
            return
        pairs = list(zip(self.options_of(task).values(), odds, strict=True))
        (answer,) = assembler.completions()
        answer = replace(
            answer,
            text=max(pairs, key=lambda pair: pair[1])[0],
            finish_reason="stop",
            timings=replace(answer.timings, total_s=seconds),
            made_with={**answer.made_with, "odds": pairs},
        )
        self.record.add(answer, label=self._key(model, task))

    def failed(self, task: Task, error: Exception) -> Decision:
        return replace(_blank(task), error=error.with_traceback(None))

    # --- a dry run ----------------------------------------------------------------------------

    def request(self, model: Model, task: Task) -> Request:
        return self._prepared(model, task, self._texts(model, self.options_of(task))).request

    def measured(self, model: Model, task: Task | None) -> Pace | None:
        found = pace_so_far(model)
        if found is None and task is not None and model.backend.local is not None:
            tokens = len(self.request(model, task).prompt)
            (decision,) = self._decided(model, [task])
            if decision.error is not None:
                raise decision.error
            return Pace(tokens / decision.seconds, 0.0, 0.0, 1)
        return None if found is None else replace(found, write=0.0)


def _read(
    model: Model, rows: Sequence[tuple[Request, Texts]], timeout: float | None
) -> list[tuple[list[float], float] | Exception]:
    """Return the odds of each row and the seconds it took, or its error: whose that is, is found out."""
    began = time.perf_counter()
    try:
        if not rows:
            return []
        with bounded(None if timeout is None else timeout * len(rows)):
            found = score(model.calls, rows)
    except Exception as error:
        if len(rows) == 1:
            return [error]
        return [outcome for row in rows for outcome in _read(model, [row], timeout)]
    seconds = (time.perf_counter() - began) / len(found)
    return [(odds, seconds) for odds in found]


def _is_known(begun: tuple[_Row, Scoring] | Decision) -> bool:
    return isinstance(begun, Decision) or begun[1].done


def _blank(task: Task) -> Decision:
    return Decision(task.place, task.row.place, task.row.inputs, task.setting.values)


def overlaps(tokens: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
    """Say which options are not apart: the same tokens, or one the beginning of another."""
    for one, other in prefixes(tokens):
        if tokens[one] != tokens[other]:
            yield (
                f"{one!r} begins {other!r}: its probability holds that of the other. With "
                f"{option('end', True)} the end of the answer counts, and they exclude each other."
            )
        elif one < other:
            yield f"{one!r} and {other!r} are the same tokens for this model: it cannot tell them apart."


def _portions(tasks: Sequence[Task], size: int) -> Iterator[Sequence[Task]]:
    return (tasks[i : i + size] for i in range(0, len(tasks), size))
