"""From what a user gives to `map`, `sweep` or `decide` to the design of an experiment, checked."""

from __future__ import annotations

import os
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llama_magic.doors import option
from llama_magic.errors import InputTypeError, OptionError, TemplateError
from llama_magic.experiments.models import Models, read_models
from llama_magic.experiments.prompts import PromptTemplate, read_prompts
from llama_magic.experiments.results import Progress
from llama_magic.experiments.rows import TEXT, Row
from llama_magic.experiments.scoring import Scores, check_columns, read_scores
from llama_magic.experiments.settings import Setting, read_settings
from llama_magic.experiments.tasks import OPTIONS, check_options
from llama_magic.model.interpolate import STATEMENTS
from llama_magic.model.options import StructuredOptions
from llama_magic.request.sampling import check_seed
from llama_magic.request.stages import PARAMETERS
from llama_magic.words.given import at_least, check_progress, quoted
from llama_magic.words.names import meant

if TYPE_CHECKING:
    from llama_magic.record.record import Record

CALL_OPTIONS = frozenset(StructuredOptions.__optional_keys__)
_MOST = 1_000_000  # answers in one experiment
# Arguments that every kind of experiment has.
_OWN = frozenset(
    {"model", "models", "over", "score", "record", "on_error", "dry_run", "progress", "variables"}
)


@dataclass
class Design:
    """What the kinds of experiment have in common, read and checked.

    `stop_on_error` ends it at the first row that fails; otherwise the error is that row's result.
    """

    rows: Sequence[Row]
    settings: Sequence[Setting]
    models: Models
    n: int
    scores: Scores
    stop_on_error: bool
    progress: Progress
    namespace: Mapping[str, Any] = field(default_factory=dict)
    record: Record | None = None


def read_design(
    rows: Sequence[Row],
    prompt: Any,
    *,
    over: Any,
    model: Any,
    models: Any,
    n: Any = 1,
    score: Any,
    record: Any,
    on_error: Any,
    progress: Progress,
    variables: Mapping[str, Any] | None,
    keywords: Mapping[str, Any],
    known: frozenset[str] = CALL_OPTIONS | OPTIONS,
    own: frozenset[str] = frozenset({"n"}),
) -> Design:
    """Check the arguments of a call and put its design together; nothing is asked, no model is loaded.

    `keywords` are options of a call (those in `known`), and values of names in the prompts. `own` are the
    arguments that only this kind of experiment has; they are read already.
    """
    prompts = read_prompts(prompt)
    asked = frozenset[str]().union(*(one.names() for one in prompts.values()))
    options = {name: value for name, value in keywords.items() if name in known and value is not None}
    given = {name: value for name, value in keywords.items() if name not in known}
    _check_single(options)
    for name in given:
        if name not in asked:
            raise OptionError(f"There is no option {name!r}. {meant(name, known | asked | _OWN | own)}")
    check_progress(progress)
    if variables is not None and not isinstance(variables, Mapping):
        raise InputTypeError(f"variables is a {type(variables).__name__}; expected a dict of names.")
    if not isinstance(on_error, str) or on_error not in ("keep", "stop"):
        raise OptionError(f"on_error is {quoted(on_error)}; expected 'keep' or 'stop'.")
    n = at_least(1, "n", n, " of answers")
    if n > _MOST:
        raise OptionError(f"n is {n:,}; expected {_MOST:,} answers at most.")
    found = read_models(model, models)
    axis = models is not None
    if "{{" not in str(options.get("system")):
        columns = {name for row in rows for name in row.inputs}
        _check_braces(prompts, columns | set(over if isinstance(over, Mapping) else ()) - known)
    settings = read_settings(prompts, found.names, over, options, given, known, model_axis=axis)
    for setting in settings:
        check_options(setting.options)
        if "seed" in setting.options:
            check_seed(setting.options["seed"])
    _check_names(prompts, rows, {**(variables or {}), **dict.fromkeys([*given, *(over or ())])})
    scores = read_scores(score)
    check_columns(score, (row.inputs for row in rows))
    return Design(
        rows,
        settings,
        found,
        n,
        scores,
        on_error == "stop",
        progress or False,
        dict(variables or {}),
        _record_of(record),
    )


def _record_of(given: Any) -> Record | None:
    """Return the record that keeps the answers, begun where its file is not there."""
    if given is None:
        return None
    from llama_magic.record.record import Record  # for weight: SQLite

    if isinstance(given, Record):
        return given
    if isinstance(given, (str, os.PathLike)):
        return Record(given)
    raise InputTypeError(f"record is a {type(given).__name__}; expected a path, or a Record.")


def _check_braces(prompts: Mapping[str, PromptTemplate], names: Iterable[object]) -> None:
    """Raise where a prompt has a column or axis in single braces and nothing in double ones.

    Every row would be asked the same, for minutes.
    """
    for prompt in prompts.values():
        if prompt.is_plain and (single := prompt.in_single_braces(sorted(map(str, names)))):
            raise TemplateError(
                f"The prompt has {{{single[0]}}} in single braces, which are sent as they stand.",
                remedy=f"Write {{{{ {single[0]} }}}}. To mean the braces themselves, write "
                f"{{{{ '{{{single[0]}}}' }}}}.",
            )


def _check_names(
    prompts: Mapping[str, PromptTemplate], rows: Sequence[Row], known: Mapping[str, Any]
) -> None:
    """Raise where a prompt asks for a name that no row has."""
    columns = {name for row in rows for name in row.inputs}
    for prompt in prompts.values():
        prompt.check(columns | known.keys())
    if not columns and not known and not rows:
        return
    # A notebook's own names are many, and its modules and functions are not meant.
    shown = columns | {name for name, value in known.items() if not (name.startswith("_") or _is_code(value))}
    for prompt in prompts.values():
        for name in sorted(prompt.names(columns | known.keys()) - columns - known.keys()):
            if rows and (error := rows[0].error) is not None and not columns:
                raise error  # no row is one at all
            parts = prompt.parts_of(name, sorted(columns))
            where = f"columns {', '.join(sorted(columns))}" if columns else "no columns"
            raise TemplateError(
                f"The prompt asks for {{{{ {name} }}}}, and the rows have {where}.",
                remedy=f"{STATEMENTS} " * prompt.has_statements
                + (
                    f"Columns are named alone: {{{{ {parts[0]} }}}}. "
                    if parts
                    else f"{meant(name, shown)} " * bool(shown)
                )
                + "A Series is one column, called as it is: series.rename('text'). "
                * (name == TEXT and len(columns) == 1)
                + f"{name} is the rows' index: df.reset_index() makes a column of it. "
                * any(name in row.index for row in rows[:1])
                + f"A value can come from a column, from an axis ({option('over')}), or as a keyword.",
            )


def _check_single(options: Mapping[str, Any]) -> None:
    """Raise where several values were given to an option that has one: that is an axis."""
    for name, value in options.items():
        single = name in ("seed", "max_tokens") or name in PARAMETERS
        if single and isinstance(value, (list, tuple, range)):
            raise InputTypeError(
                f"{name} is {value!r:.60}; expected one value.",
                remedy=f"Several are an axis: over={{{name!r}: [{', '.join(map(repr, [*value][:3]))}]}}.",
            )


def _is_code(value: Any) -> bool:
    return callable(value) or isinstance(value, types.ModuleType)
