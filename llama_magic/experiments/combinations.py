"""`sweep`: every combination of prompts, options, variables and models, with or without rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llama_magic.errors import OptionError, shown_briefly
from llama_magic.experiments.caller import names_of_caller
from llama_magic.experiments.design import read_design
from llama_magic.experiments.forecast import forecast
from llama_magic.experiments.generation import Generation
from llama_magic.experiments.results import Progress
from llama_magic.experiments.rows import Row, read_rows
from llama_magic.experiments.runs import Runs
from llama_magic.model.options import StructuredOptions, shows
from llama_magic.words.given import quoted
from llama_magic.words.signature import checked


@shows(StructuredOptions)
@checked
@shown_briefly("The sweep")
def sweep(
    prompt: Any,
    over: Mapping[str, Any] | None = None,
    *,
    rows: Any = None,
    schema: Any = None,
    model: Any = None,
    models: Any = None,
    n: int = 1,
    score: Any = None,
    record: Any = None,
    on_error: str = "keep",
    dry_run: bool = False,
    progress: Progress = True,
    variables: Mapping[str, Any] | None = None,
    mode: str = "chat",
    system: str | None = None,
    grammar: str | None = None,
    regex: str | None = None,
    choices: Sequence[Any] | None = None,
    template_variables: Mapping[str, Any] | None = None,
    retries: int = 0,
    thinking: bool = False,
    show_schema: bool = False,
    **options: Any,
) -> Any:
    """Ask a prompt with every combination of the axes in `over`, `n` times, and return `Runs`.

    `over` is a dict of names to values: options of a call (`temperature`, `seed`, `system`, …) and names in
    the prompt. Prompts are an axis as a dict of names, models as `models=[a, "smollm2"]`. A name in the
    prompt that is neither is a keyword (`thing="the sea"`), or a column of `rows`; without rows, a variable
    where this is called, as in a `%%llama` cell. What prompts begin with is read once.

    An axis `seed` holds the very seeds for a sweep without rows. All other arguments are those of `map`.
    """
    keywords = {
        "schema": schema, "mode": mode, "system": system, "grammar": grammar, "regex": regex,
        "choices": choices, "template_variables": template_variables, "retries": retries,
        "thinking": thinking, "show_schema": show_schema, **options,
    }  # fmt: skip
    if rows is None and variables is None:
        variables = names_of_caller()
    design = read_design(
        [Row(0)] if rows is None else read_rows(rows),
        prompt,
        over=over,
        model=model,
        models=models,
        n=n,
        score=score,
        record=record,
        on_error=on_error,
        progress=progress,
        variables=variables,
        keywords=keywords,
    )
    if rows is None and len(design.settings) * design.n == 1:
        _check_one(design.settings[0].prompt.names(), options)
    made = Generation.of(design)
    return forecast(made) if dry_run else Runs(made, {}).resume()


def _check_one(asked: frozenset[str], given: Mapping[str, Any]) -> None:
    """Refuse a list for a name in the prompt where nothing varies: it was meant to be an axis."""
    for name, value in given.items():
        if name in asked and isinstance(value, (list, tuple, range)):
            raise OptionError(
                f"The sweep has no axis, and {name} is one value: {quoted(value)}.",
                remedy=f"Several are an axis: over={{{name!r}: […]}}.",
            )
