"""The modes for many prompts as one value: `%%llama map DF`, `%%llama sweep`, `%%llama decide DF`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from llama_magic import display
from llama_magic.errors import GenerationInterrupted, LlamaMagicError, OptionError
from llama_magic.experiments.choice import decide as decide_rows
from llama_magic.experiments.combinations import sweep as sweep_all
from llama_magic.experiments.each_row import map as map_all
from llama_magic.experiments.experiment import interrupted
from llama_magic.experiments.models import Models, by_name
from llama_magic.experiments.results import Results
from llama_magic.experiments.settings import MOST
from llama_magic.magics._call import CellRun
from llama_magic.magics._interpolate import interpolate_line
from llama_magic.magics._lookup import find_schema
from llama_magic.magics._variables import LineVariables
from llama_magic.session.blocks import split_blocks, split_named
from llama_magic.words.names import hint

_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
_WORD = re.compile(r"""\s*(?:(?P<quote>["'])(?P<quoted>.*?)(?P=quote)|(?P<plain>[^,]*?))\s*(?:,|$)""")
_UNKNOWN = re.compile(r"\{([^\W\d]\w*)\}|\$([^\W\d]\w*)")
_FILE = re.compile(r"\.(csv|tsv|json|jsonl|parquet|xlsx?|txt)$")
_AFTER = re.compile(r"\s*(?:,|$)")


def map_rows(call: CellRun) -> Any:
    rows = _rows(call)
    return _run(call, lambda: map_all(rows, _prompts(call.body), **_keywords(call)))


def sweep(call: CellRun) -> Any:
    rows = _rows(call) if call.command.words else None
    return _run(call, lambda: sweep_all(_prompts(call.body), rows=rows, **_keywords(call)))


def decide(call: CellRun) -> Any:
    if "options" not in call.options:
        raise OptionError(
            "%%llama decide needs --options.", remedy='Write the answers to weigh: --options "yes|no".'
        )
    rows, names = _rows(call), ("options", "abstain_below", "end", "timeout")
    given = {name: call.options[name] for name in names if name in call.options}
    return _run(call, lambda: decide_rows(rows, _prompts(call.body), **given, **_common(call)))


# --- what is asked --------------------------------------------------------------------------------


def _rows(call: CellRun) -> Any:
    """Return the value of the word behind the mode: a variable, or a Python expression such as `df[:30]`."""
    text = call.command.words[0].strip("{}").removeprefix("$")
    try:
        return eval(text, dict(call.kernel.namespace))  # noqa: S307 - the user's own line, in their own kernel
    except NameError as error:
        if _FILE.search(text):
            raise OptionError(
                f"{text} is a file; expected a variable that holds the rows.",
                remedy="Read it in a cell above, df = pd.read_csv(path) or its kin; then %%llama "
                f"{call.command.mode} df.",
            ) from None
        meant = hint(str(error.name), call.kernel.namespace)
        raise OptionError(
            f"There is no variable {error.name!r} in your namespace.{meant}",
            remedy=f"Write %%llama {call.command.mode} DF, where DF holds the rows.",
        ) from None
    except Exception as error:
        raise OptionError(f"{text} gives no rows: {type(error).__name__}: {error}.") from None


def _prompts(body: str) -> Any:
    """Return the body's one prompt, or a dict of those that stand under lines `=== name`."""
    named = split_named(body)
    return _prompt(body) if named is None else {name: _prompt(text) for name, text in named.items()}


def _prompt(text: str) -> Any:
    blocks = split_blocks(text)
    if len(blocks) == 1 and blocks[0][0] == "user":
        return blocks[0][1]
    return [{"role": role, "content": content} for role, content in blocks]


# --- how ------------------------------------------------------------------------------------------


def _keywords(call: CellRun) -> dict[str, Any]:
    """Return the keywords of `map` and `sweep`."""
    given = call.keywords()
    if "schema" in call.options:
        given["schema"] = find_schema(call.options["schema"], call.kernel.namespace)
    return given | _common(call)


def _common(call: CellRun) -> dict[str, Any]:
    """Return the keywords that all three take."""
    options, namespace = call.options, call.kernel.namespace
    given = {name: options[name] for name in ("record", "on_error", "dry_run") if name in options}
    if "system" in options:  # its {{ }} are filled row by row
        given["system"] = str(interpolate_line(options["system"], namespace, raw=True))
    if "models" in options:
        if "model" in options:
            raise OptionError("-m and --models stand together.", remedy="Give all of them in --models.")
        given["models"] = Models(by_name(options["models"]), call.kernel.get_model)
    else:
        given["model"] = call.kernel.get_model(options.get("model"))
    if "over" in options:
        given["over"] = read_axes(options["over"], namespace)
    if "score" in options:
        given["score"] = _score(options["score"], namespace)
    return {**given, "progress": not call.quiet, "variables": namespace}


def _score(given: Any, namespace: Mapping[str, Any]) -> Any:
    """Return what a name stands for: a function or dict of the notebook, else a column."""
    if not isinstance(given, str):
        return given
    found = namespace.get(given)
    return found if callable(found) or isinstance(found, dict) else given


def read_axes(text: Any, namespace: Any) -> dict[str, list[Any]]:
    """Read `style=dry,warm; temperature=0,0.8; seed=1..4`: values by name; a dict stays what it is.

    Numbers are numbers, `1..4` is each of them, quotes keep commas, `{expression}` and `$name` are variables:
    as a whole value all that they list, within one their text.
    """
    if isinstance(text, Mapping):
        return dict(text)
    variables = LineVariables(namespace)
    axes: dict[str, list[Any]] = {}
    for part in filter(str.strip, text.split(";")):
        name, equals, values = part.partition("=")
        if not equals or not values.strip():
            raise OptionError(
                f"--over holds {part.strip()!r}; expected NAME=VALUES.",
                remedy='Write it as --over "style=dry,warm; temperature=0,0.8; seed=1..4".',
            )
        axes[name.strip()] = _values(values.strip(), variables)
    return axes


def _values(text: str, variables: LineVariables) -> list[Any]:
    found: list[Any] = []
    at = 0
    while at < len(text):
        place = variables.find(text, at)
        after = None if place is None else _AFTER.match(text, place.end)
        if place is not None and after is not None and not text[at : place.start].strip():
            found += _listed(variables.value_of(place))
            at = after.end()
            continue
        word = _WORD.match(text, at)
        assert word is not None  # a plain word may be empty
        if word["quoted"] is not None:
            found.append(variables.fill(word["quoted"]))
        elif word["plain"]:
            found += _plain(_known(variables.fill(word["plain"]), variables))
        at = max(at + 1, word.end())
    return found


def _listed(value: Any) -> list[Any]:
    """Return the values of a variable: those that it lists, or it itself."""
    several = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping, type))
    return list(value) if several else [value]


def _known(word: str, variables: LineVariables) -> str:
    """Return a word; raise where the whole of it names a variable that there is not."""
    if unknown := _UNKNOWN.fullmatch(word):
        name = unknown[1] or unknown[2]
        raise OptionError(f"--over names the variable {name!r}, and there is none.{variables.hint(name)}")
    return word


def _plain(word: str) -> list[Any]:
    if range_ := _RANGE.fullmatch(word):
        first, last = int(range_[1]), int(range_[2])
        if abs(last - first) >= MOST:
            raise OptionError(f"--over holds {word}; expected a range of {MOST:,} values at most.")
        return list(range(first, last + 1) if first <= last else range(first, last - 1, -1))
    if word in ("true", "false"):
        return [word == "true"]
    try:
        value = ast.literal_eval(word)
    except (ValueError, SyntaxError):
        return [word]
    return [value] if isinstance(value, (int, float, bool)) or value is None else [word]


# --- what comes back ------------------------------------------------------------------------------


def _run(call: CellRun, run: Callable[[], Any]) -> Any:
    """Carry it out, bind and show what comes; of a stopped one what is done, and only then the reason."""
    try:
        result = run()
    except GenerationInterrupted as stop:
        if not isinstance(stop.completion, Results):
            raise
        raise interrupted(stop.completion, _kept(call, stop.completion)) from None
    except LlamaMagicError as error:
        if isinstance(error.completions, Results):
            _kept(call, error.completions)
        raise
    call.bind(result)
    _show(call, result)
    return None if "out" in call.options else call.kernel.mark_shown(result, quiet=call.quiet)


def _kept(call: CellRun, results: Results[Any]) -> str:
    """Bind and show what there is of a stopped experiment; return its name: `-o`, or what the cell gave."""
    call.bind(results)
    if "out" not in call.options:
        call.kernel.shell.displayhook.update_user_ns(results)
    _show(call, results)
    return str(call.options.get("out", "_"))


def _show(call: CellRun, result: Any) -> None:
    if call.quiet:
        return
    format = call.options.get("format", call.kernel.settings.display)
    if format == "json" and isinstance(result, Results):
        result = [one.record() for one in result]
    display.show(result, call.kernel.shell, format)
