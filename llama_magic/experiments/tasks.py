"""Tasks of an experiment, one an answer, and how one becomes a request to a model."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from llama_magic.errors import InputTypeError, LlamaMagicError, OptionError
from llama_magic.experiments.prompts import TextOrMessages
from llama_magic.experiments.rows import Row
from llama_magic.experiments.settings import Setting
from llama_magic.model.asked import Beside, Call
from llama_magic.model.attempts import StructuredStream
from llama_magic.model.gaps import is_gap
from llama_magic.model.interpolate import BraceTemplate
from llama_magic.model.keyed import told_apart
from llama_magic.model.prompt import as_messages
from llama_magic.model.stream import Stream
from llama_magic.model.structured import StructuredCall
from llama_magic.model.wording import PROMPT
from llama_magic.request.request import row_seed, sample_seed
from llama_magic.request.sampling import check_seed
from llama_magic.words.given import is_function, quoted

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.model import Model
    from llama_magic.structured import Constraint

MODES = ("chat", "complete")
_KINDS = ("grammar", "regex", "choices")
_BESIDE = ("seed", "tag", "timeout")
# Options of a task beside those of a call: what an axis may hold, too.
OPTIONS = frozenset(
    {"mode", "system", "schema", "template_variables", "retries", "thinking", "show_schema", *_KINDS}
)


@dataclass(frozen=True)
class Task:
    """One answer to ask for: `place` is where it stands among the results, `values` fill its prompt."""

    place: int
    row: Row
    setting: Setting
    sample: int = 0
    namespace: Mapping[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, Any]:
        """What fills the prompt: an axis before a column, a column before a name of the notebook.

        A gap in a column (NaN, NaT, NA) is None there, so that `{{ text or "none" }}` says what to put.
        """
        row = {name: None if is_gap(value) else value for name, value in self.row.inputs.items()}
        return {**self.namespace, **row, **self.setting.variables}

    @property
    def seed(self) -> int | None:
        """The seed of this answer, None where none was given.

        That of the row (`row_seed`: the given one for the first row, for others of SHA-256) and in it of
        the sample (`sample_seed`).
        """
        given = self.setting.options.get("seed")
        return (
            None if given is None else sample_seed(row_seed(check_seed(given), self.row.place), self.sample)
        )

    @property
    def options(self) -> dict[str, Any]:
        """The options of its call; in place of a function (`schema=`, `choices=`) what it gives for the row.

        Raises `OptionError` where it fails.
        """
        given = self.setting.options
        return {**given, **{name: self.of_row(name, given[name]) for name in _of_rows(given)}}

    def of_row(self, name: str, function: Callable[[dict[str, Any]], Any]) -> Any:
        """Return what a function, given as option `name`, gives for this row. Raises `OptionError`."""
        if self.row.error is not None:
            raise self.row.error
        try:
            made = function({**self.row.inputs, **self.setting.variables})
        except Exception as error:
            words = f"{name}= failed on this row: {type(error).__name__}: {error}"
            raise OptionError(words, remedy="It is told a dict of the row's columns.") from error
        if made is None:
            raise OptionError(
                f"{name}= gave None for this row.", remedy="Let it return what the answer must be."
            )
        return made

    def filled(self) -> TextOrMessages:
        """Return the prompt of this row. Raises what is wrong with the row, or `TemplateError`."""
        if self.row.error is not None:
            raise self.row.error
        return self.setting.prompt.of(self.row, self.values)

    def system(self) -> str | None:
        """Return the system prompt of this row."""
        given = self.setting.options.get("system")
        return BraceTemplate(given, PROMPT).fill(self.values) if isinstance(given, str) else given


def in_reading_order(tasks: Iterable[Task]) -> list[Task]:
    """Order tasks so that those whose prompts begin alike follow each other: a walk of the prefix tree.

    Each distinct beginning is then read once, and what is read is still there when the next one needs it.
    """
    return sorted(tasks, key=_words)


def _words(task: Task) -> tuple[str, ...]:
    try:
        filled, system = task.filled(), task.system() or ""
    except Exception:  # it is said when its turn comes
        return ()
    if isinstance(filled, str):
        return (system, filled)
    return (system, *(f"{message.get('role')}\n{message.get('content')}" for message in filled))


def begin(model: Model, task: Task) -> Stream[Any] | StructuredStream[Any]:
    """Ask the model; returns at once. Raises what is wrong with this task."""
    made = _made(model, task)
    if isinstance(made, tuple):
        return StructuredStream(*made)
    return Stream(model.backend, made)


def prepared(model: Model, task: Task) -> Assembler:
    """Return the request of a task, which is not asked. Raises what is wrong with it."""
    made = _made(model, task)
    return made[0].assembler(made[1]) if isinstance(made, tuple) else made


def _made(model: Model, task: Task) -> Assembler | tuple[StructuredCall, list[Any]]:
    filled, system, calls = task.filled(), task.system(), model.calls.passing()
    options = {**task.options, "seed": task.seed}
    own = {name: options.pop(name, None) for name in OPTIONS}
    if own["schema"] is not None:
        call = StructuredCall(
            calls,
            own["schema"],
            options,
            system=system,
            retries=own["retries"] or 0,
            thinking=bool(own["thinking"]),
            show_schema=bool(own["show_schema"]),
            template_variables=own["template_variables"],
        )
        return call, call.messages(filled)
    constraint = constraint_of(model, own)
    if own["mode"] == "complete":
        return calls.text(text_alone(filled, system), constraint, options)
    messages = conversation(filled, system)
    beside = Beside(template_variables=own["template_variables"] or {})
    return calls.chat("chat", messages, constraint, options, beside)


def conversation(filled: TextOrMessages, system: str | None) -> Sequence[Any]:
    """Return a prompt as messages, after `system` where there is one."""
    if isinstance(filled, str):
        return as_messages(filled, system)
    return filled if system is None else [{"role": "system", "content": system}, *filled]


def text_alone(filled: TextOrMessages, system: str | None) -> str:
    """Return the text that is gone on from. Raises `OptionError` for a conversation."""
    if isinstance(filled, str) and system is None:
        return filled
    raise OptionError(
        "mode='complete' goes on from a text, and this is a conversation.",
        remedy="Leave mode and system out, or give a text.",
    )


def keys_of(model: Model, tasks: Iterable[Task]) -> dict[int, str]:
    """Return the name under which a record keeps each answer, by place; none for rows that cannot be asked.

    It is of what is asked, wherever the row stands now. Where no seed tells equal rows apart, they are
    numbered, as each has a draw of its own: so `tasks` are all of an experiment, in their order.
    """
    keys: dict[int, str] = {}
    seen: Counter[str] = Counter()
    for task in tasks:
        try:
            key = key_of(model, task)
        except LlamaMagicError:  # it is said when its turn comes
            continue
        twin = seen[key] if task.seed is None else 0
        seen[key] += 1
        keys[task.place] = key_of(model, task, twin=twin) if twin else key
    return keys


def key_of(model: Model, task: Task, **more: Any) -> str:
    """Return the SHA-256, in hexadecimal, of what is asked as JSON.

    That is the model file, prompt, options, seed and sample, and `more`. The seed is the row's; a tag, and
    how long an answer may take, are no part of what is asked.
    """
    options = {name: value for name, value in task.options.items() if name not in _BESIDE}
    schema = options.pop("schema", None)
    if schema is not None:
        options["schema"] = told_apart(model.constraint(schema).schema)
    asked = {
        "model": model.calls.made_with.get("file", {}).get("fingerprint", model.name),
        "prompt": task.filled(),
        "system": task.system(),
        "options": options,
        "setting": task.setting.values,
        "seed": task.seed,
        "sample": task.sample,
        **more,
    }
    text = json.dumps(asked, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def check_call(model: Model, setting: Setting) -> None:
    """Raise for what is wrong with a setting's options for this model, whatever the row is."""
    options = {name: value for name, value in setting.options.items() if name not in OPTIONS}
    Call.read(model.sampling, options, model.backend.tokenizer)
    of_rows = _of_rows(setting.options)
    constraint_of(model, {name: value for name, value in setting.options.items() if name not in of_rows})


def _of_rows(options: Mapping[str, Any]) -> list[str]:
    """Return which options are functions of the row."""
    return [name for name in ("schema", *_KINDS) if is_function(options.get(name))]


def constraint_of(model: Model, options: Mapping[str, Any]) -> Constraint | None:
    """Return what an answer must be, None where it may be anything."""
    kinds = {kind: options[kind] for kind in _KINDS if options.get(kind) is not None}
    schema = options.get("schema")
    return model.constraint(schema, **kinds) if kinds or schema is not None else None


def check_options(options: Mapping[str, Any]) -> None:
    """Raise for what is wrong with options whatever the row is."""
    mode = options.get("mode", "chat")
    if mode not in MODES:
        raise OptionError(f"mode is {quoted(mode)}; expected one of {', '.join(MODES)}.")
    if options.get("schema") is not None and mode == "complete":
        raise OptionError("mode='complete' takes no schema.", remedy="Leave one of them out.")
    system = options.get("system")
    if system is not None and not isinstance(system, str):
        raise InputTypeError(f"system is a {type(system).__name__}; expected a text.")


def samples_of(task: Task, n: int) -> list[Task]:
    """Return the tasks of `n` answers to one prompt, in place order from that of `task`."""
    return [replace(task, place=task.place + i, sample=i) for i in range(n)]
