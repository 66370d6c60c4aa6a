"""`decide`: how likely each option is as the answer to every row; nothing is drawn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from llama_magic.errors import InputTypeError, OptionError, shown_briefly
from llama_magic.experiments.experiment import Experiment, whole
from llama_magic.experiments.odds import Decision, Odds, prefixes
from llama_magic.experiments.plan import read_plan
from llama_magic.experiments.results import Progress, Results
from llama_magic.experiments.rows import read_rows
from llama_magic.experiments.scoring import scores_of
from llama_magic.experiments.tasks import Task, conversation
from llama_magic.model.asked import Beside
from llama_magic.model.scoring import Texts, request_for, score
from llama_magic.model.thinking import Thinking

if TYPE_CHECKING:
    from llama_magic.model.model import Model

_OPTIONS = frozenset({"mode", "system", "template_variables"})


@dataclass
class Deciding(Experiment[Decision]):
    """Every row is read once for all options of it, one row after the other."""

    options: Mapping[str, str] = field(default_factory=dict)  # by name: what is written for it
    end: bool = False
    abstain_below: float = 0.0

    def ask(
        self, model: Model, tasks: list[Task], results: Results[Decision], tick: Callable[[], None]
    ) -> None:
        calls = model.calls
        texts = Texts.of(calls, list(self.options.values()), end=self.end)
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

    def _decided(self, model: Model, task: Task, texts: Texts) -> Decision:
        began = time.perf_counter()
        own = task.setting.options
        filled, system = task.filled(), task.system()
        variables = Thinking.choose(
            model.calls.formatter, False, own.get("template_variables") or {}
        ).variables
        raw = own["mode"] == "complete"
        if raw and (not isinstance(filled, str) or system is not None):
            raise OptionError(
                "mode='complete' goes on from a text, and this is a conversation.",
                remedy="Leave mode and system out, or give a text.",
            )
        prompt = filled if raw else conversation(filled, system)
        request = request_for(model.calls, prompt, texts, Beside(template_variables=variables))
        logprobs = dict(zip(self.options, score(model.calls, request, texts), strict=True))
        made = replace(
            _blank(task), logprobs=logprobs, prompt=request.text, seconds=time.perf_counter() - began
        )
        if made.confidence < self.abstain_below:
            return replace(made, abstained=True)
        return replace(made, scores=scores_of(made, self.scores))

    def failed(self, task: Task, error: Exception) -> Decision:
        return replace(_blank(task), error=error.with_traceback(None))


def _blank(task: Task) -> Decision:
    return Decision(task.place, task.row.place, task.row.inputs, task.setting.values)


@shown_briefly("The decisions")
def decide(
    rows: Any,
    prompt: Any = None,
    *,
    options: Sequence[Any] | Mapping[str, str],
    model: Any = None,
    models: Any = None,
    over: Mapping[str, Any] | None = None,
    abstain_below: float = 0.0,
    end: bool = False,
    score: Any = None,
    on_error: str = "keep",
    progress: Progress = True,
    variables: Mapping[str, Any] | None = None,
    mode: str = "chat",
    system: str | None = None,
    template_variables: Mapping[str, Any] | None = None,
    **names: Any,
) -> Odds:
    """Say for every row how likely each option is as the answer; nothing is drawn. Returns `Odds`.

    `rows` and `prompt` as for `map`; `names` are values of names in the prompt. `options` are texts, or a
    dict of names to the texts that are written for them. A `Decision` has the exact probability of each
    option, all its tokens counted: `raw` as it is, `probabilities` made to sum to 1; `choice` is the
    likeliest, `margin` how far it is before the next, `mass` what all options have together. Below
    `abstain_below`, a probability of the likeliest among the options, there is no `choice`, and no score.

    A row is read once for all options, and what rows begin with alike once for all rows. With `end` the
    token that ends an answer counts as well, so that "1" and "10" exclude each other. `score`, `over`,
    `models`, `on_error`, `progress`, `variables`, `mode` and `system` as for `map`; a bad row costs no
    other, an interrupt keeps what is done. `odds.calibration("label")` says how far they can be trusted.
    """
    named = _read_options(options)
    if (
        isinstance(abstain_below, bool)
        or not isinstance(abstain_below, (int, float))
        or not 0 <= abstain_below <= 1
    ):
        raise OptionError(f"abstain_below is {abstain_below!r}; expected a probability, 0 to 1.")
    plan = read_plan(
        read_rows(rows),
        prompt,
        over=over,
        model=model,
        models=models,
        score=score,
        record=None,
        on_error=on_error,
        progress=progress,
        variables=variables,
        keywords={"mode": mode, "system": system, "template_variables": template_variables, **names},
        known=_OPTIONS,
    )
    made = Deciding.of(plan, options=named, end=end, abstain_below=float(abstain_below))
    return Odds(made, {}).resume()


def _read_options(given: Any) -> dict[str, str]:
    if isinstance(given, str) or not isinstance(given, (Sequence, Mapping)):
        raise InputTypeError(
            f"options is {given!r:.60}; expected a list of texts, or a dict of names to texts."
        )
    named = dict(given) if isinstance(given, Mapping) else {str(one): str(one) for one in given}
    if len(named) < 2 or len(named) != len(given):
        raise OptionError(f"options is {given!r:.60}; expected two or more that differ.")
    for name, text in named.items():
        if not isinstance(text, str) or not text:
            raise OptionError(f"The option {name!r} is written {text!r}; expected a text.")
    return {str(name): text for name, text in named.items()}
