"""`decide`: how likely each option is as the answer to every row; nothing is drawn."""

from __future__ import annotations

import enum
import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from llama_magic.errors import InputTypeError, OptionError, shown_briefly
from llama_magic.experiments.deciding import Deciding
from llama_magic.experiments.design import read_design
from llama_magic.experiments.forecast import forecast
from llama_magic.experiments.odds import Odds, threshold
from llama_magic.experiments.results import Progress
from llama_magic.experiments.rows import read_rows
from llama_magic.words.given import is_function, items_of, quoted, seconds_of
from llama_magic.words.signature import checked

if TYPE_CHECKING:
    from llama_magic.experiments.tasks import Task

_OPTIONS = frozenset({"mode", "system", "template_variables"})
_BY_ROW = 'Where rows have their own, give a function: options=lambda row: row["answers"].'
_OWN = frozenset({"options", "abstain_below", "end", "timeout"})


@checked
@shown_briefly("Deciding")
def decide(
    rows: Any,
    prompt: Any = None,
    *,
    options: Iterable[Any] | Mapping[str, str] | Callable[[dict[str, Any]], Any],
    model: Any = None,
    models: Any = None,
    over: Mapping[str, Any] | None = None,
    abstain_below: float = 0.0,
    end: bool = False,
    timeout: float | None = None,
    score: Any = None,
    record: Any = None,
    on_error: str = "keep",
    dry_run: bool = False,
    progress: Progress = True,
    variables: Mapping[str, Any] | None = None,
    mode: str = "chat",
    system: str | None = None,
    template_variables: Mapping[str, Any] | None = None,
    **names: Any,
) -> Any:
    """Say for every row how likely each option is as the answer; nothing is drawn. Returns `Odds`.

    `rows` and `prompt` as for `map`; `names` are values of names in the prompt. `options` are texts, or a
    dict of names to the texts that are written for them; where rows have their own, a function of a row's
    columns that returns these: `options=lambda row: row["answers"]`. A `Decision` has the exact probability
    of each option, all its tokens counted: `raw` as it is, `probabilities` made to sum to 1; `choice` is the
    likeliest, `margin` how far it is before the next, `mass` what all options have together. Below
    `abstain_below`, a probability of the likeliest among the options, there is no `choice`, and no score.

    A row is read once for all options, and what rows begin with alike once for all rows. With `end` the
    token that ends an answer counts as well, so that "1" and "10" exclude each other. `score`, `over`,
    `models`, `record`, `on_error`, `dry_run`, `progress`, `variables`, `mode` and `system` as for `map`; a
    bad row costs no other, an interrupt keeps what is done. A row that takes more than `timeout` seconds has
    an `OutOfTimeError`; rows that are read together have their time together first.
    `odds.calibration("label")` says how far they can be trusted.
    """
    of_task, below = _options_of(options), threshold("abstain_below", abstain_below)
    design = read_design(
        read_rows(rows),
        prompt,
        over=over,
        model=model,
        models=models,
        score=score,
        record=record,
        on_error=on_error,
        progress=progress,
        variables=variables,
        keywords={"mode": mode, "system": system, "template_variables": template_variables, **names},
        known=_OPTIONS,
        own=_OWN,
    )
    how: dict[str, Any] = {"end": end, "abstain_below": below, "timeout": seconds_of(timeout)}
    made = Deciding.of(design, options_of=of_task, by_row=is_function(options), **how)
    return forecast(made) if dry_run else Odds(made, {}).resume()


def _options_of(given: Any) -> Callable[[Task], dict[str, str]]:
    """Return what says the options of a row, by name; those of all rows are read now."""
    if not is_function(given):
        named = _read_options(given)
        return lambda _task: named
    kept: dict[int, dict[str, str]] = {}  # asked for some times a row

    def of_task(task: Task) -> dict[str, str]:
        if task.place not in kept:
            kept[task.place] = _read_options(task.of_row("options", given))
        return kept[task.place]

    return of_task


def _read_options(given: Any) -> dict[str, str]:
    """Return the options by name; a list, a column of a table, a set or an Enum names them by their texts."""
    if isinstance(given, Mapping):
        named = {str(name): text for name, text in given.items()}
        count = len(given)
    else:
        listed = _listed(given)
        named, count = {str(one): str(one) for one in listed}, len(listed)
    if len(named) < 2 or len(named) != count:
        raise OptionError(f"options is {quoted(given)}; expected two or more that differ.")
    for name, text in named.items():
        if not isinstance(text, str) or not text:
            raise OptionError(f"The option {name!r} is written {quoted(text)}; expected a text.")
        twin = next(other for other, written in named.items() if written == text)
        if twin != name:
            raise OptionError(f"The options {twin!r} and {name!r} are both written {quoted(text)}.")
    return named


def _listed(given: Any) -> list[Any]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InputTypeError(
            f"options is {quoted(given)}; expected a list of texts, or a dict of names to texts.",
            remedy=_BY_ROW,
        )
    listed = sorted(given, key=str) if isinstance(given, (set, frozenset)) else items_of("The options", given)
    listed = [one.value if isinstance(one, enum.Enum) else one for one in listed]
    for one in listed:
        if not isinstance(one, (str, numbers.Real)) or (isinstance(one, float) and math.isnan(one)):
            raise OptionError(
                f"options holds {quoted(one)}; expected texts, or numbers.",
                remedy=_BY_ROW if isinstance(one, (list, tuple, dict)) else None,
            )
    return listed
