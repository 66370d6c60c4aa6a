"""The experiment whose results are answers that a model writes: what `map` and `sweep` carry out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from llama_magic.errors import LlamaMagicError, StructuredOutputError
from llama_magic.experiments.experiment import Experiment
from llama_magic.experiments.forecast import pace_of, pace_so_far
from llama_magic.experiments.results import Results
from llama_magic.experiments.runs import Run
from llama_magic.experiments.scheduler import Scheduler
from llama_magic.experiments.scoring import scores_of
from llama_magic.experiments.tasks import Task, begin, check_call, constraint_of, keys_of, prepared
from llama_magic.model.finished import finished, is_cut
from llama_magic.request.events import CUT
from llama_magic.threads import to_its_end

if TYPE_CHECKING:
    from llama_magic.experiments.forecast import Pace
    from llama_magic.model.model import Model
    from llama_magic.model.results import Completion
    from llama_magic.request.request import Request


@dataclass
class Generation(Experiment[Run]):
    """Every answer is one request; as many at a time as the backend works on."""

    def ask(self, model: Model, tasks: list[Task], results: Results[Run], tick: Callable[[], None]) -> None:
        for setting in {id(task.setting): task.setting for task in tasks}.values():
            check_call(model, setting)
        keys: dict[int, str] = {}

        def take(task: Task, outcome: Any) -> None:
            to_its_end(lambda: self.put(results, self._result(task, outcome, keys.get(task.place))))

        if self.record is not None:
            name = tasks[0].setting.model if tasks else ""
            keys = keys_of(model, (task for task in self.tasks if task.setting.model == name))
            tasks = [task for task in tasks if not self._found(model, task, keys.get(task.place), results)]
            if any(task.place in keys for task in tasks):  # others have nothing to be kept
                self.record.check_writable()
        width = model.backend.capabilities.parallel
        Scheduler(width, lambda task: begin(model, task), take, tick).run(tasks)

    def _found(self, model: Model, task: Task, key: str | None, results: Results[Run]) -> bool:
        """Whether the record holds the answer, which then is the result."""
        assert self.record is not None
        if key is None or task.place in results.anew:
            return False
        try:
            completion = self._as_long(model, task, self.record.find(label=key))
            if completion is None:
                return False
            if (constraint := constraint_of(model, task.options)) is not None:
                completion = finished(completion, constraint)
            run = self._run(task, completion)
        except StructuredOutputError as error:
            if not is_cut(error.completion):  # what is kept is no instance any more
                return False
            run = self.failed(task, error)
        except LlamaMagicError:
            return False
        self.put(results, run)
        return True

    def _as_long(self, model: Model, task: Task, kept: Sequence[Completion[Any]]) -> Completion[Any] | None:
        """Return an answer that ended, else one that would not become longer now: cut again, as soon."""
        timeout, most = (task.setting.options.get(name) for name in ("timeout", "max_tokens"))
        for one in sorted(kept, key=lambda one: one.finish_reason in CUT):
            if one.finish_reason == "timeout":
                had = one.receipt["asked"].get("timeout")
                longer = had is not None and (timeout is None or timeout > had)
            elif one.finish_reason == "length":  # a limit that is given is part of the key
                longer = most is None and prepared(model, task).terms.max_tokens > one.budget.max_tokens
            else:
                longer = False
            if not longer:
                return one
        return None

    def _result(self, task: Task, outcome: Any, key: str | None) -> Run:
        if isinstance(outcome, Exception):
            return self.failed(task, outcome)
        try:
            completion = outcome.run()
        except Exception as error:  # an answer that is no instance, a validator, a lane that failed
            made = getattr(error, "completion", None)
            if self.record is not None and key is not None and made is not None and is_cut(made):
                self.record.add(made, label=key)  # it would be cut again
            return self.failed(task, error)
        if self.record is not None and key is not None:
            self.record.add(completion, label=key)
        return self._run(task, completion)

    def _run(self, task: Task, completion: Completion[Any]) -> Run:
        made = replace(
            _blank(task), completion=completion, seconds=completion.timings.total_s, seed=completion.seed
        )
        return replace(made, scores=scores_of(made, self.scores))

    def request(self, model: Model, task: Task) -> Request:
        check_call(model, task.setting)
        return prepared(model, task).request

    def measured(self, model: Model, task: Task | None) -> Pace | None:
        found = pace_so_far(model)
        if found is not None or task is None or model.backend.local is None:  # elsewhere it may cost money
            return found
        try:
            return pace_of([begin(model, task).run()])
        except LlamaMagicError as error:
            completion = getattr(error, "completion", None)
            return None if completion is None else pace_of([completion])

    def failed(self, task: Task, error: Exception) -> Run:
        completion = getattr(error, "completion", None)
        made = replace(_blank(task), error=error.with_traceback(None))  # it would hold frames, and memory
        if completion is None:
            return made
        return replace(made, seconds=completion.timings.total_s, seed=completion.seed)


def _blank(task: Task) -> Run:
    return Run(task.place, task.row.place, task.sample, task.row.inputs, task.setting.values, seed=task.seed)
