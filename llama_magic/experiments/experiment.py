"""An experiment: rows, settings, and the answers to each of them; carried out, stopped and gone on with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Self

from llama_magic.errors import GenerationInterrupted, LlamaMagicError, ModelClosedError
from llama_magic.experiments.caller import began, bind
from llama_magic.experiments.design import Design
from llama_magic.experiments.protocols import R
from llama_magic.experiments.results import Results
from llama_magic.experiments.settings import PROMPT
from llama_magic.experiments.tasks import Task, in_reading_order, samples_of
from llama_magic.model.interpolate import STATEMENTS
from llama_magic.model.options import idle
from llama_magic.words.counting import counted
from llama_magic.words.shown import watched
from llama_magic.words.standing import Clock

if TYPE_CHECKING:
    from llama_magic.experiments.forecast import Pace
    from llama_magic.model.model import Model
    from llama_magic.request.request import Request


class Stopped(Exception):  # noqa: N818 - it is no error, but carries one
    """The `error` of a `row` that ends the experiment."""

    def __init__(self, error: Exception, row: int) -> None:
        super().__init__(str(error))
        self.error, self.row = error, row


@dataclass
class Experiment(Design, Generic[R]):
    """A design that is carried out: every row with every setting, `n` answers each. How, its kinds say."""

    @classmethod
    def of(cls, design: Design, **more: Any) -> Self:
        """Return the experiment of a design; `more` is what its kind needs besides."""
        return cls(**vars(design), **more)

    @cached_property
    def tasks(self) -> list[Task]:
        """Every answer to ask for, in the order of results: by row, in it by setting, in it by sample."""
        made: list[Task] = []
        for row in self.rows:
            for setting in self.settings:
                task = Task(len(made), row, setting, namespace=self.namespace)
                made += samples_of(task, self.n)
        return made

    @property
    def columns(self) -> list[str]:
        """The columns that the prompts ask for; all of them where a row is the prompt itself."""
        known = dict.fromkeys(name for row in self.rows for name in row.inputs)
        asked = frozenset[str]().union(*(setting.prompt.names(known) for setting in self.settings))
        return [name for name in known if name in asked] or list(known)

    @property
    def labels(self) -> list[Any] | None:
        """What the rows are called in the table that they come from, None where they are numbered from 0."""
        labels = [row.label for row in self.rows]
        return None if all(label is None for label in labels) else labels

    @property
    def index(self) -> tuple[Any, ...]:
        """What that table calls its index, a name a level."""
        return self.rows[0].index if self.rows else ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of all results: of prompts that ask every row the same, say."""
        known = list(dict.fromkeys(name for row in self.rows for name in row.inputs))
        same, unread, unused = set(), set(), set[str]()
        for setting in self.settings:
            held = {"constraint", *(["schema"] if setting.options.get("schema") is not None else [])}
            unused.update(idle(setting.options, held))
            prompt, name = setting.prompt, setting.values.get(PROMPT)
            which = f"prompt {name!r}" if name else "prompt"
            if prompt.has_statements:
                unread.add(f"In the {which} {STATEMENTS}")
            told_apart = prompt.is_row or "{{" in str(setting.options.get("system"))
            if len(self.rows) > 1 and known and not told_apart and prompt.names(known).isdisjoint(known):
                same.add(
                    f"The {which} names no column, so every row was asked the same. "
                    f"A column is written {{{{ {known[0]} }}}}."
                )
        return (
            *sorted(same),
            *sorted(unread),
            *sorted(unused),
            *self._gone_on_from(),
            *self._named_alike(known),
        )

    def _gone_on_from(self) -> list[str]:
        """Say of how many conversations the last turn is the assistant's: answers go on from it."""
        if not any(setting.prompt.is_row for setting in self.settings):
            return []
        given = [row.itself for row in self.rows]
        ends = [one[-1].get("role") for one in given if isinstance(one, list) and one]
        if not (count := ends.count("assistant")):
            return []
        return [
            f"{count:,} of {counted(len(ends), 'conversation')} end with a turn of the assistant, and "
            "answers go on from it. Leave that turn out to have it answered anew."
        ]

    def _named_alike(self, columns: Sequence[str]) -> list[str]:
        """Say which axes are called as a column is: a table of results has both."""
        axes = dict.fromkeys(name for setting in self.settings for name in setting.values)
        return [
            f"The rows have a column {name!r}, too: in to_pandas() it keeps its name, and the axis is "
            f"'{name} (run)'."
            for name in axes
            if name in columns
        ]

    def carry_out(self, results: Results[R]) -> None:
        """Ask for what is missing in `results`, model by model.

        Raises `GenerationInterrupted`, whose completion is `results`, after an interrupt, and the row's error
        where errors stop it; what is there by then is kept.
        """
        began(results)
        results.clock = Clock()
        try:
            with watched(results, self.progress) as tick:
                for name in self.models.names:
                    self._with_model(name, results, tick)
        except Stopped as stop:
            raise _of_row(stop, results) from None
        except KeyboardInterrupt:
            raise interrupted(results) from None
        except BaseException as error:  # of the record, or of a function of the user's: it may exit
            if len(results):
                error.add_note(f"{_keep(error, results)}.")
            raise
        finally:
            results.clock = None

    def _with_model(self, name: str, results: Results[R], tick: Callable[[], None]) -> None:
        tasks = [t for t in self.tasks if t.setting.model == name and not results.holds(t.place)]
        if not tasks:
            return
        try:
            model = self._opened(name, tasks)
        except LlamaMagicError as error:
            if len(self.models.names) == 1:
                raise
            for task in tasks:  # a model that cannot be had, or asked, costs the others nothing
                self.put(results, self.failed(task, error))
            return
        try:
            self.ask(model, in_reading_order(tasks), results, tick)
        finally:
            self.models.leave(name)

    def _opened(self, name: str, tasks: Sequence[Task]) -> Model:
        model = self.models.open(name)
        try:
            self.check(model, tasks)
        except LlamaMagicError:
            self.models.leave(name)
            raise
        return model

    def put(self, results: Results[R], result: R) -> None:
        """Keep a result; one whose error ends the experiment raises `Stopped`."""
        results.put(result)
        error = result.error
        if error is not None and (self.stop_on_error or isinstance(error, ModelClosedError)):
            raise Stopped(error, result.row)

    # --- what the kinds say -----------------------------------------------------------------

    def check(self, model: Model, tasks: Sequence[Task]) -> None:
        """Raise for a model that cannot be asked this kind of question at all."""

    def ask(self, model: Model, tasks: list[Task], results: Results[R], tick: Callable[[], None]) -> None:
        """Ask a model for these tasks, in this order, and `put` each result as it comes."""
        raise NotImplementedError

    def failed(self, task: Task, error: Exception) -> R:
        """Return the result of a task that ended with an error."""
        raise NotImplementedError

    def request(self, model: Model, task: Task) -> Request:
        """Return what a task would ask, which is not asked. Raises what is wrong with it."""
        raise NotImplementedError

    def measured(self, model: Model, task: Task | None) -> Pace | None:
        """Return how fast a model was here, by `task` where no more is known; None: that is not known."""
        raise NotImplementedError


def interrupted(results: Results[Any], name: str | None = None) -> GenerationInterrupted:
    """Return what to raise for an experiment that was interrupted: it holds what is done.

    `name` is what the results are bound to already.
    """
    name = name or bind(results)
    resume = f"{name}.resume()" if name else "resume()"
    words = f"{len(results):,} of {counted(results.total, results.noun)} are done and kept; {resume} goes on"
    return GenerationInterrupted(results, words)


def _of_row(stop: Stopped, results: Results[Any]) -> Exception:
    error = stop.error
    if isinstance(error, LlamaMagicError):
        error.row = stop.row
    error.add_note(f"This is of row {stop.row} (from 0); {_keep(error, results)}.")
    return error


def _keep(error: BaseException, results: Results[Any]) -> str:
    """Bind what there is, and let the error hold it; return the words for that."""
    bind(results)
    if isinstance(error, LlamaMagicError):
        error.completions = results
    return f"{counted(len(results), results.noun)} {'is' if len(results) == 1 else 'are'} kept"
