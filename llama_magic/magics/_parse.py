"""From a line to a frozen command. Every mistake is an `OptionError` that names the nearest right word."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from llama_magic.errors import OptionError
from llama_magic.magics import _mistakes, _other_names
from llama_magic.magics import _options as table
from llama_magic.magics._actions import check_count
from llama_magic.magics._filling import line_variables
from llama_magic.magics._rows import Mode, Option, Verb
from llama_magic.magics._variables import LineVariables
from llama_magic.magics._words import Arguments, Word, Words


def _none() -> Mapping[str, Any]:
    return MappingProxyType({})


_EXPRESSIONS = {"schema": "a_{", "choices": "["}  # kinds of values that keep their quotes, and how they begin


@dataclass(frozen=True)
class LineCommand:
    """`%llama VERB …`. `words` are the free words, or the one text of a text verb.

    `silent`: the line ended in `;`, which in IPython means "do not show the result".
    """

    verb: str
    words: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=_none)
    help: bool = False
    silent: bool = False


@dataclass(frozen=True)
class CellCommand:
    """`%%llama [MODE] [options]`. `words` are those behind the mode's name, as they stand."""

    mode: str = table.DEFAULT_MODE
    options: Mapping[str, Any] = field(default_factory=_none)
    help: bool = False
    words: tuple[str, ...] = ()


def parse_line(line: str, namespace: Mapping[str, Any] = MappingProxyType({})) -> LineCommand:
    """Read what follows `%llama`; the variables that it names are those of `namespace`."""
    variables = line_variables(line, namespace)
    words = Words(line, variables.end_of)
    first = words.take()
    if first is not None and first.text.removesuffix(";") in table.VERBS:
        first = replace(first, text=first.text.removesuffix(";"))
    if first is None or first.text in ("--help", "-h", "?"):
        return LineCommand("", help=True)
    if first.text == "help":  # of a verb, where one is named
        named = words.take()
        return LineCommand(named.text if named and named.text in table.VERBS else "", help=True)
    verb = table.VERBS.get(first.text)
    if verb is None:
        raise _mistakes.unknown_verb(first.text, words.rest())
    if verb.text:
        return _parse_text_verb(verb, words, variables)
    silent = line.rstrip().endswith(";")
    words.line = line.rstrip().removesuffix(";")
    words.position = min(words.position, len(words.line))
    free, options, wants_help = _read(words, verb.options, f"%llama {verb.name}", variables)
    command = LineCommand(
        verb.name, tuple(map(variables.word, free)), MappingProxyType(options), wants_help, silent
    )
    if not wants_help:
        check_count(verb, free)
    return command


def parse_arguments(verb: Verb, arguments: Sequence[str]) -> LineCommand:
    """Read the arguments of `llama-magic VERB …`, by the same rows as those of `%llama`."""
    where = f"llama-magic {verb.name}"
    free, options, wants_help = _read(Arguments(arguments), verb.options, where, LineVariables({}))
    command = LineCommand(verb.name, tuple(free), MappingProxyType(options), wants_help)
    if not wants_help:
        check_count(verb, free, "llama-magic")
    return command


def parse_cell(line: str, namespace: Mapping[str, Any] = MappingProxyType({})) -> CellCommand:
    """Read what follows `%%llama` on its line; the variables that it names are those of `namespace`."""
    every = tuple({option.flags: option for mode in table.MODES.values() for option in mode.options}.values())
    variables = line_variables(line, namespace)
    words = Words(line, variables.end_of)
    free, options, wants_help = _read(words, every, "%%llama", variables, is_python=_takes_rows)
    name = free[0] if free else table.DEFAULT_MODE
    mode = table.MODES.get(name)
    if mode is None:
        raise _mistakes.unknown_mode(name)
    more = tuple(free[1:])
    if len(more) > mode.most:
        raise _mistakes.further_word(mode, more[mode.most], line, options)
    if len(more) < mode.least and not wants_help:
        raise OptionError(
            f"%%llama {name} needs {mode.arguments}.",
            remedy=f"Write %%llama {mode.usage}, where {mode.arguments} is a variable that holds the rows: a "
            "DataFrame, or a list of dicts or texts.",
        )
    _check_fit(mode, options)
    return CellCommand(name, MappingProxyType(options), wants_help, more)


def _parse_text_verb(verb: Verb, words: Words, variables: LineVariables) -> LineCommand:
    free, options, wants_help = _read(words, verb.options, f"%llama {verb.name}", variables, text=True)
    text = variables.word(free[0]) if free else ""
    if not text and not wants_help and not options.get("live"):  # typed later
        raise OptionError(
            f"%llama {verb.name} needs a text.", remedy=f"Write %llama {verb.name} {verb.arguments}."
        )
    return LineCommand(verb.name, (text,), MappingProxyType(options), wants_help)


def _read(
    words: Words,
    options: tuple[Option, ...],
    where: str,
    variables: LineVariables,
    *,
    text: bool = False,
    is_python: Callable[[Sequence[str]], bool] = lambda before: False,
) -> tuple[list[str], dict[str, Any], bool]:
    known = {flag: option for option in options for flag in option.flags}
    values: dict[str, Any] = {}
    free: list[str] = []
    while True:
        before = words.position
        word = _take_text_start(words, known) if text else words.take()
        if word is None:
            break
        if word.bare and word.text == "#" and not text:
            raise OptionError(f"A comment cannot stand behind {where}.", remedy="Leave it out.")
        if word.bare and word.text in ("--help", "-h"):
            return free, values, True
        if word.bare:
            word = replace(word, text=_other_names.with_hyphens(word.text, known))
        if not (word.bare and word.text == "--"):
            if _is_option(word, words.line) or (word.bare and word.text.partition("=")[0] in known):
                _read_option(word, words, known, values, where, variables)
                continue
            if not text:
                python = is_python(free) and words.expression(word.start, "a_{[(")
                free.append(python or word.text)
                continue
            words.position = before
        if text:
            free.append(words.rest())
        else:
            free.extend(_all_words(words))
        break
    return free, values, False


def _takes_rows(before: Sequence[str]) -> bool:
    """Say whether an expression comes next, such as `df[df["stars"] > 2]`: quotes in it are its own."""
    return len(before) == 1 and before[0] in table.MODES and table.MODES[before[0]].most > 0


def _take_text_start(words: Words, known: Mapping[str, Option]) -> Word | None:
    """Return the next word up to a blank, quotes and all: where a text may begin, a quote need not close."""
    rest = words.line[words.position :]
    stripped = rest.lstrip()
    if not stripped:
        return None
    first = stripped.split(None, 1)[0]
    if first.startswith("-") or _other_names.with_hyphens(first, known) != first:
        return words.take()
    return Word(stripped, words.position, len(words.line), False)


def _all_words(words: Words) -> list[str]:
    found = []
    while (word := words.take()) is not None:
        found.append(word.text)
    return found


def _is_option(word: Word, line: str) -> bool:
    """Tell `-n`, `--stop="a b"` and `-t0.5` from values: `-5`, `-` and whatever starts with a quote."""
    start = line[word.start : word.start + 2]
    return len(start) == 2 and start[0] == "-" and (start[1] == "-" or start[1].isalpha())


def _read_option(
    word: Word,
    words: Words,
    known: Mapping[str, Option],
    values: dict[str, Any],
    where: str,
    variables: LineVariables,
) -> None:
    flag, equals, attached = word.text.partition("=")
    if flag not in known and len(flag) > 2 and flag[2].isalpha() and _other_names.hint(flag, known):
        raise _mistakes.unknown_option(flag, known, where)
    if flag not in known and flag[1] != "-" and flag[:2] in known and known[flag[:2]].takes_value:
        if f"-{flag}" in known:
            raise OptionError(f"There is no option {flag}. Did you mean -{flag}?")
        flag, equals, attached = flag[:2], "=", word.text[2:]  # -n64
    option = known.get(flag)
    if option is None:
        raise _mistakes.unknown_option(flag, known, where)
    if not option.takes_value:
        if equals:
            raise OptionError(f"{flag} takes no value, and got {attached!r}.")
        value = option.value
    else:
        openings = _EXPRESSIONS.get(option.kind)
        if openings and (raw := words.value(word, attached=bool(equals), openings=openings)):
            text = raw
        else:
            text = attached if equals else _value_word(flag, option, words, known)
        value, *more = variables.read(flag, text, option)
    if option.repeat:
        values[option.key] = (*values.get(option.key, ()), value, *more)
    elif option.key in values and values[option.key] != value:
        raise OptionError(f"{flag} stands twice with different values: {values[option.key]!r} and {value!r}.")
    else:
        values[option.key] = value


def _value_word(flag: str, option: Option, words: Words, known: Mapping[str, Option]) -> str:
    word = words.peek()
    if word is None or (word.bare and (word.text in known or word.text.split("=", 1)[0] in known)):
        raise OptionError(
            f"{flag} needs a value" + (f", and {word.text} is an option." if word else "."),
            remedy=f"Write {option.usage.split(', ')[-1]}.",
        )
    words.take()
    return word.text


def _check_fit(mode: Mode, options: Mapping[str, Any]) -> None:
    held = [o for o in table.CONSTRAINTS if o.key in options]
    if len(held) > 1:
        raise OptionError(
            f"{' and '.join(o.flags[-1] for o in held)} stand together; an answer is held to one of them.",
            remedy="Leave one out, or write both into one --regex or --grammar.",
        )
    allowed = {option.key for option in mode.options}
    for key in options:
        if key in allowed:
            continue
        owners = [m.name for m in table.MODES.values() if any(o.key == key for o in m.options)]
        flag = next(o.flags[-1] for m in table.MODES.values() for o in m.options if o.key == key)
        if (mode.name, key) == ("decide", "choices"):
            raise OptionError(f"{flag} means nothing in %%llama decide. Did you mean --options?")
        raise OptionError(
            f"{flag} means nothing in %%llama {mode.name}; it belongs to {' and '.join(owners)}.",
            remedy=f"Write %%llama {owners[0]} …, or leave {flag} out.",
        )
