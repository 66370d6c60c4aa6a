"""The experiment whose results are decisions: what `decide` carries out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from llama_magic.errors import OptionError
from llama_magic.experiments.experiment import Experiment, whole
from llama_magic.experiments.forecast import Speed, speed_so_far
from llama_magic.experiments.odds import Decision, prefixes
from llama_magic.experiments.results import Results
from llama_magic.experiments.scoring import scores_of
from llama_magic.experiments.tasks import Task, conversation, key_of
from llama_magic.model.asked import Beside
from llama_magic.model.scoring import Texts, prepare, score
from llama_magic.model.thinking import Thinking

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.model import Model
    from llama_magic.request.request import Request


@dataclass
class Deciding(Experiment[Decision]):
    """Every row is read once for all options of it, one row after the other."""

    options: Mapping[str, str] = field(default_factory=dict)  # by name: what is written for it
    end: bool = False
    abstain_below: float = 0.0

    def ask(
        self, model: Model, tasks: list[Task], results: Results[Decision], tick: Callable[[], None]
    ) -> None:
        texts = self._texts(model)
        named = dict(zip(self.options, texts.tokens, strict=True))
        results.notes = tuple(
            f"{one!r} begins {other!r}: its probability holds that of the other. With end=True the end of "
            "the answer counts, and they exclude each other."
            for one, other in prefixes(named)
        )
        for task in tasks:
            try:
                made = self._decided(model, task, texts)
            except Exception as error:  # of this row alone
                made = self.failed(task, error)
            whole(partial(self.put, results, made))
            tick()

    def _texts(self, model: Model) -> Texts:
        return Texts.of(model.calls, list(self.options.values()), end=self.end)

    def _decided(self, model: Model, task: Task, texts: Texts) -> Decision:
        """Read a row, or take its odds from the record."""
        began = time.perf_counter()
        assembler = self._prepared(model, task, texts)
        odds, seconds = self._kept(model, task) or ([], 0.0)
        if not odds:
            odds = score(model.calls, assembler.request, texts)
            seconds = time.perf_counter() - began
            self._keep(model, task, assembler, odds, seconds)
        logprobs = dict(zip(self.options, odds, strict=True))
        made = replace(_blank(task), logprobs=logprobs, prompt=assembler.request.text, seconds=seconds)
        if made.confidence < self.abstain_below:
            return replace(made, abstained=True)
        return replace(made, scores=scores_of(made, self.scores))

    def _prepared(self, model: Model, task: Task, texts: Texts) -> Assembler:
        own = task.setting.options
        filled, system = task.filled(), task.system()
        given = own.get("template_variables") or {}
        variables = Thinking.choose(model.calls.formatter, False, given).variables
        raw = own["mode"] == "complete"
        if raw and (not isinstance(filled, str) or system is not None):
            raise OptionError(
                "mode='complete' goes on from a text, and this is a conversation.",
                remedy="Leave mode and system out, or give a text.",
            )
        prompt = filled if raw else conversation(filled, system)
        return prepare(model.calls, prompt, texts, Beside(template_variables=variables))

    def _key(self, model: Model, task: Task) -> str:
        return key_of(model, task, choices=list(self.options.values()), end=self.end)

    def _kept(self, model: Model, task: Task) -> tuple[list[float], float] | None:
        found = self.record.find(label=self._key(model, task)) if self.record is not None else []
        if not found:
            return None
        return [float(odds) for _, odds in found[0].made_with["odds"]], found[0].timings.total_s

    def _keep(
        self, model: Model, task: Task, assembler: Assembler, odds: list[float], seconds: float
    ) -> None:
        """Keep a row's odds as an answer that holds them: its text is the likeliest option."""
        if self.record is None:
            return
        pairs = list(zip(self.options.values(), odds, strict=True))
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
        return self._prepared(model, task, self._texts(model)).request

    def measured(self, model: Model, task: Task | None) -> Speed | None:
        found = speed_so_far(model)
        if found is None and task is not None and model.backend.local is not None:
            tokens = len(self.request(model, task).prompt)
            seconds = self._decided(model, task, self._texts(model)).seconds
            return Speed(tokens / seconds, 0.0, 0.0, 1)
        return None if found is None else replace(found, write=0.0)


def _blank(task: Task) -> Decision:
    return Decision(task.place, task.row.place, task.row.inputs, task.setting.values)
