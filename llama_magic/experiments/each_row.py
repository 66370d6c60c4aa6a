"""`map`: one prompt, or several, asked for every row; the answers as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llama_magic.errors import shown_briefly
from llama_magic.experiments.design import read_design
from llama_magic.experiments.forecast import forecast
from llama_magic.experiments.generation import Generation
from llama_magic.experiments.results import Progress
from llama_magic.experiments.rows import read_rows
from llama_magic.experiments.runs import Runs
from llama_magic.model.options import StructuredOptions, shows
from llama_magic.words.signature import checked


@shows(StructuredOptions)
@checked
@shown_briefly("The map")
def map(
    rows: Any,
    prompt: Any = None,
    *,
    schema: Any = None,
    model: Any = None,
    models: Any = None,
    over: Mapping[str, Any] | None = None,
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
    choices: Sequence[Any] | Callable[[dict[str, Any]], Sequence[Any]] | None = None,
    template_variables: Mapping[str, Any] | None = None,
    retries: int = 0,
    thinking: bool = False,
    show_schema: bool = False,
    **options: Any,
) -> Any:
    """Ask a prompt for every row and return the answers, a `Runs`: a sequence of `Run` in row order.

    `rows`: a DataFrame, a Series, a list of dicts, of texts or of conversations, any iterable. `prompt`: a
    text or messages with `{{ column }}`, or a dict of names to such; left out, a row is the prompt itself.
    Where the last of its messages is the assistant's, the answer goes on from it, and has what is new.
    With a `schema` answers are instances of it; `schema`, `choices`, `regex` and `grammar` may be functions
    of a row's columns, a dict (`choices=lambda row: row["options"]`). `over` is a dict of axes, each an
    option of a call, a sampling parameter or a name in the prompt with its values; `models` an axis too,
    whose names are loaded when their turn comes. Every row is asked with every combination, `n` times.

    `seed` gives each row a seed of its own: itself to the first row, to row k (from 0) the first four bytes
    (big-endian) of the SHA-256 of "SEED/k", modulo 2**32 - 1; `run.seed` says which, and the row asked alone
    with it gives the same tokens. `score`: a function of a `Run` that gives a bool or a number, the name of
    a column that the answer is to equal, or a dict of names to these.

    One bad row never costs the others: its error is in `run.error` (`on_error="stop"` raises it, and keeps
    what is there). An interrupt keeps what is done: the `GenerationInterrupted` holds the runs, and in a
    notebook they are bound to the name that the call is assigned to; `runs.resume()` goes on, and so does
    the same call with the same `record`. `progress` may be False, or a function that is told a `Standing`.
    With `dry_run` a `Forecast` comes back: the tokens of each row, those that will not fit, the time by
    measured speed. `timeout` is each answer's; for all of them await `amap` in `asyncio.timeout`.
    `variables` are further names for prompts. `mode="complete"` goes on from a text without
    a template.
    """
    keywords = {
        "schema": schema, "mode": mode, "system": system, "grammar": grammar, "regex": regex,
        "choices": choices, "template_variables": template_variables, "retries": retries,
        "thinking": thinking, "show_schema": show_schema, **options,
    }  # fmt: skip
    design = read_design(
        read_rows(rows),
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
    made = Generation.of(design)
    return forecast(made) if dry_run else Runs(made, {}).resume()
