"""Tab completion for `%llama` and `%%llama`: the word at the cursor, and what it may become."""

from __future__ import annotations

import dataclasses
import enum
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from inspect import isfunction
from pathlib import Path
from typing import Any

from llama_magic import formatters, sources
from llama_magic.magics._options import MODES, VERBS
from llama_magic.magics._rows import Option, Verb
from llama_magic.magics._words import line_until
from llama_magic.request.sampling import Sampling
from llama_magic.session import session as sessions
from llama_magic.words.files import expanded

# `%llama` or `%%llama` at the start of a line, or behind an assignment: `a, b = %llama …`.
_COMMAND = re.compile(r"\s*(?:(?P<cell>%%)|(?:[^=%\"'#]+=\s*)?%)llama\s+(?P<rest>.*)", re.DOTALL)
# With automagic the percent sign may be left out.
_AUTOMAGIC = re.compile(r"(?P<cell>)llama\s+(?P<rest>.*)", re.DOTALL)


def complete(shell: Any, context: Any) -> tuple[str, list[str]]:
    """Return the word at the cursor and the whole words that it may become.

    `context` is the `CompletionContext` that IPython hands to a matcher of its second API.
    The word is `""` and the list empty where the cursor is not on a line of ours.
    """
    at = context.cursor_line
    first, above = line_until(context.full_text.split("\n"), at) if at else (0, "")
    text = above + context.text_until_cursor
    found = _COMMAND.fullmatch(text)
    if found is None and shell.automagic and "llama" not in shell.user_ns:
        found = _AUTOMAGIC.fullmatch(text)
    if found is None or (found["cell"] and first > 0):
        return "", []
    before, word = _split(found["rest"])
    plain = word.replace('"', "").replace("'", "")
    candidates = _cell(shell, before, plain) if found["cell"] else _line(shell, before, plain)
    mark = next((char for char in word if char in "\"'"), "")
    fitting = (candidate for candidate in dict.fromkeys(candidates) if candidate.startswith(plain))
    return word, [_quoted(candidate, mark) for candidate in fitting]


def _quoted(candidate: str, mark: str) -> str:
    """Return a candidate as a word of the line: in quotes, as typed, where it holds blanks."""
    option, equals, value = candidate.partition("=") if candidate.startswith("--") else ("", "", candidate)
    if not mark and not any(char.isspace() for char in value):
        return candidate
    around = mark or ("'" if '"' in value else '"')
    return f"{option}{equals}{around}{value}{'' if value.endswith(('/', os.sep)) else around}"


def _split(rest: str) -> tuple[list[str], str]:
    """Return the finished words and the one at the cursor; an open quote belongs to the latter."""
    words: list[str] = []
    word, quote = "", ""
    for char in rest:
        if char.isspace() and not quote:
            if word:
                words.append(word)
            word = ""
            continue
        if char in "\"'" and quote in ("", char):
            quote = "" if quote else char
        word += char
    return words, word


def _line(shell: Any, before: list[str], word: str) -> Iterable[str]:
    if not before:
        return VERBS
    verb = VERBS.get(before[0])
    if verb is None:
        return ()
    if (value := _value(verb.options, before, shell, word)) is not None:
        return value
    if word.startswith("-"):
        return (*(flag for option in verb.options for flag in option.flags), "--help")
    return _argument(verb, _free_words(before[1:], verb.options), shell, word)


def _argument(verb: Verb, free: list[str], shell: Any, word: str) -> Iterable[str]:
    """Return what the verb's row offers for the next free word."""
    names, place = verb.completes, len(free)
    if "actions" in names and place >= names.index("actions"):
        at = names.index("actions")
        if place == at:
            return [action.name for action in verb.actions]
        names = next((action.completes for action in verb.actions if action.name == free[at]), ())
        place -= at + 1
    name = names[min(place, len(names) - 1)] if names else ""
    return OFFERS[name](shell, word) if name else ()


def _cell(shell: Any, before: list[str], word: str) -> Iterable[str]:
    mode = next((MODES[w] for w in before if w in MODES), None)
    options = mode.options if mode else tuple(o for m in MODES.values() for o in m.options)
    if (value := _value(options, before, shell, word)) is not None:
        return value
    if word.startswith("-"):
        return (*(flag for option in options for flag in option.flags), "--help")
    if mode is None:
        return MODES
    return OFFERS[mode.completes](shell, word) if mode.completes else ()


def _value(options: Iterable[Option], before: list[str], shell: Any, word: str) -> Iterable[str] | None:
    """Return candidates for the value of the option at the cursor, None if no option wants one."""
    flag, equals, value = word.partition("=")
    if equals and flag.startswith("--"):
        return [f"{flag}={found}" for found in _value(options, [flag], shell, value) or ()]
    last = before[-1] if before else ""
    option = next((o for o in options if last in o.flags and o.takes_value), None)
    if option is None:
        return None
    if option.choices:
        return option.choices
    return OFFERS[option.completes](shell, word) if option.completes else ()


def _free_words(words: list[str], options: Iterable[Option]) -> list[str]:
    takes = {flag for option in options if option.takes_value for flag in option.flags}
    free: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in takes
        else:
            free.append(word)
    return free


def _loaded(shell: Any, word: str) -> Iterable[str]:
    return sessions.current(shell).models


def _sources(shell: Any, word: str) -> Iterable[str]:
    return (*sources.aliases(), *_paths(word, ".gguf"), *_repositories(word))


def _models(shell: Any, word: str) -> Iterable[str]:
    return (*_loaded(shell, word), *_sources(shell, word))


def _chats(shell: Any, word: str) -> Iterable[str]:
    return sessions.current(shell).chats


def _rows(shell: Any, word: str) -> Iterable[str]:
    """Return the variables that hold rows."""
    kinds = ("DataFrame", "Series")
    return [
        name
        for name, value in shell.user_ns.items()
        if not name.startswith("_") and (type(value).__name__ in kinds or (isinstance(value, list) and value))
    ]


def _answers(shell: Any, word: str) -> Iterable[str]:
    """Return the variables that hold answers, or several."""
    return [
        name
        for name, value in shell.user_ns.items()
        if not name.startswith("_") and any(hasattr(one, "token_ids") for one in (value, *_firsts(value)))
    ]


def _firsts(value: object) -> list[Any]:
    return value[:1] if isinstance(value, list) else []


def _parameters(shell: Any, word: str) -> Iterable[str]:
    return ("reset", *(f"{field.name}=" for field in fields(Sampling)))


def _schemas(shell: Any, word: str) -> Iterable[str]:
    return [
        name for name, value in shell.user_ns.items() if not name.startswith("_") and is_schema_class(value)
    ]


def is_schema_class(value: object) -> bool:
    """Tell whether a value is a class of data: pydantic, dataclass, TypedDict, Enum, NamedTuple."""
    return isinstance(value, type) and (
        hasattr(value, "model_json_schema")
        or dataclasses.is_dataclass(value)
        or hasattr(value, "__required_keys__")
        or (issubclass(value, enum.Enum) and value.__module__ != "enum")
        or (issubclass(value, tuple) and hasattr(value, "_fields"))
    )


def _texts(shell: Any, word: str) -> Iterable[str]:
    names: Mapping[str, Any] = shell.user_ns
    return (
        *(n for n, v in names.items() if isinstance(v, str) and not n.startswith("_")),
        *_paths(word, ".gbnf"),
    )


def _tools(shell: Any, word: str) -> Iterable[str]:
    """Return the functions of the namespace, after those that stand before the last comma."""
    before = word[: word.rfind(",") + 1]
    known = (*before.split(","), *shell.user_ns_hidden)
    own = (name for name, value in shell.user_ns.items() if not name.startswith("_") and isfunction(value))
    return [f"{before}{name}" for name in own if name not in known]


OFFERS: dict[str, Callable[[Any, str], Iterable[str]]] = {
    "loaded": _loaded,
    "aliases": lambda shell, word: sources.own_aliases(),
    "sources": _sources,
    "models": _models,
    "chats": _chats,
    "rows": _rows,
    "answers": _answers,
    "scores": lambda shell, word: [n for n, v in shell.user_ns.items() if callable(v) and n[0] != "_"],
    "parameters": _parameters,
    "schemas": _schemas,
    "tools": _tools,
    "grammars": _texts,
    "adapters": lambda shell, word: _paths(word, ".gguf"),
    "formatters": lambda shell, word: ("auto", *formatters.names(), *_paths(word, ".jinja")),
    "chat files": lambda shell, word: _paths(word, ".json"),
    "files": lambda shell, word: _paths(word, ""),
}


def _repositories(word: str) -> Iterable[str]:
    prefix = "hf:" if word.startswith("hf:") else ""
    return [prefix + repository for repository in sources.cached_repos()]


def _paths(typed: str, suffix: str) -> list[str]:
    """Return paths that go on from what is typed: folders, and files with this suffix."""
    if typed == "~":
        return [f"~{os.sep}"]
    folder, separator, start = _folder(typed)
    real = Path(expanded(folder or "."))
    try:
        entries = sorted(os.scandir(real), key=lambda entry: entry.name)
    except (OSError, ValueError):  # none there, or no name that a folder can have
        return []
    found = []
    for entry in entries:
        hidden = entry.name.startswith(".") and not start.startswith(".")
        if hidden or not entry.name.startswith(start):
            continue
        if entry.is_dir():
            end = separator or os.sep
        elif entry.name.lower().endswith(suffix):
            end = ""
        else:
            continue
        found.append(f"{folder}{entry.name}{end}")
    return found


def _folder(typed: str) -> tuple[str, str, str]:
    """Cut a path at its last separator: `(folder with separator, separator, rest)`."""
    separators = "/\\" if os.sep == "\\" else "/"
    at = max(typed.rfind(char) for char in separators)
    return (typed[: at + 1], typed[at], typed[at + 1 :]) if at >= 0 else ("", "", typed)
