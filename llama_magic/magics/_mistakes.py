"""The errors for words that a line cannot mean: each names what was likely meant, and where it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_magic.errors import OptionError
from llama_magic.magics import _options as table
from llama_magic.magics import _other_names
from llama_magic.magics._rows import Mode, Option
from llama_magic.request.stages import OTHER_NAMES, PARAMETERS
from llama_magic.words.names import hint, likeliest, nearest

TO_THE_CELL = "A text is answered by %%llama, with two %, and stands in the lines below."


def unknown_verb(word: str, rest: str) -> OptionError:
    """Return the error for a word that is no verb; `rest` is what follows it on the line."""
    if word in table.MODES:
        return OptionError(f"{word} is a mode of the cell magic, not a verb.", remedy=_as_a_cell(word))
    said = f"There is no verb {word!r}."
    if word in _other_names.INSTEAD_OF_VERBS:
        return OptionError(said, remedy=_other_names.INSTEAD_OF_VERBS[word])
    verbs = f"Verbs: {', '.join(table.VERBS)}."
    mode = _other_names.OF_MODES.get(word)
    if mode is not None and word not in _other_names.OF_VERBS:
        return OptionError(f"{said} Did you mean the cell magic's {mode}?", remedy=_as_a_cell(mode))
    if word in _other_names.OF_VERBS or nearest(word, table.VERBS, cutoff=0.8):
        return OptionError(said + hint(word, table.VERBS, _other_names.OF_VERBS), remedy=verbs)
    parameter = OTHER_NAMES.get(word, word)
    if parameter in PARAMETERS:
        flag = PARAMETERS[parameter].option
        sets = (
            f"%llama sampler {parameter}=… sets it for the cells to come, {flag} on a %%llama line for one."
        )
        return OptionError(said, remedy=sets)
    if word.isidentifier() and (found := _other_names.home(word)):
        return OptionError(f"{said} {found[0]} is an option of {found[1]}.", remedy=verbs)
    if " " in word or len(rest.split()) > 1 or rest.endswith("?"):
        return OptionError(f"{said}{hint(word, table.VERBS)}", remedy=f"{TO_THE_CELL} {verbs}")
    return OptionError(f"{said}{hint(word, table.VERBS)}", remedy=verbs)


def _as_a_cell(mode: str) -> str:
    return f"Write %%llama {mode}, the text below it; in a loop {_other_names.IN_PYTHON[mode]}."


def unknown_mode(word: str) -> OptionError:
    """Return the error for a word that is no mode."""
    if rest := _other_names.undashed(word):
        known = {
            flag: option for mode in table.MODES.values() for option in mode.options for flag in option.flags
        }
        return unknown_option(f"--{rest.partition('=')[0]}", known, "%%llama")
    if word in table.VERBS:
        return OptionError(
            f"{word} is a verb of the line magic, not a mode.", remedy=f"Write %llama {word} with one %."
        )
    if flag := _as_an_option(word):
        return OptionError(f"There is no mode {word!r}. Did you mean {flag}?", remedy="%%llama? lists them.")
    return OptionError(
        f"There is no mode {word!r}.{hint(word, table.MODES, _other_names.OF_MODES)}",
        remedy=f"Modes: {', '.join(table.MODES)}. The prompt goes into the lines below; quote a value that "
        "holds blanks.",
    )


def further_word(mode: Mode, word: str, line: str, options: Mapping[str, Any]) -> OptionError:
    """Return the error for a word behind a mode that takes none, or no more."""
    said = f"%%llama {mode.usage} takes no further word, and {word!r} is one."
    if flag := _as_an_option(word):
        return OptionError(said, remedy=f"Did you mean {flag}?")
    if mode.name == "structured" and "schema" not in options:
        return OptionError(
            said, remedy=f"Did you mean --schema {word}? The prompt goes into the lines below."
        )
    return OptionError(
        said,
        remedy="The prompt goes into the lines below; quote a value that holds blanks"
        + (" with \" or ': typographic quotes do not." if set(line) & set("“”„«»‘’") else "."),
    )


def _as_an_option(word: str) -> str:
    """Return `--temperature 0.2` for `temperature=0.2`, as `%llama sampler` and Python have it; else ""."""
    name, equals, value = word.partition("=")
    found = _other_names.home(name.replace("-", "_")) if equals and name else None
    return f"{found[0]} {value}".strip() if found else ""


def unknown_option(flag: str, known: Mapping[str, Option], where: str) -> OptionError:
    """Return the error for an option that `where` (`%llama load`) has not; `known` are those that it has."""
    all_of_them = "%%llama?" if where == "%%llama" else f"{where} --help"  # no cell magic runs without a body
    meant = _other_names.hint(flag, known)
    cell = table.MODES.get(where.removeprefix("%llama "))  # a verb and a mode: %llama chat, %%llama chat
    if cell is not None and any(flag in option.flags for option in cell.options):
        meant = f"It belongs to %%llama {cell.name}, with two %, and the text in the lines below."
    word = flag.lstrip("-")
    parameter = word.replace("-", "_")
    parameter = OTHER_NAMES.get(parameter, parameter)
    if where == "%llama history" and flag in ("-n", "--limit", "--tail", "--head"):
        meant = "%llama history N shows the last N."
    if where == "%llama sampler" and parameter in PARAMETERS:
        meant = f"Write {parameter}=…, without dashes."
    if not meant and len(word) > 1 and (near := likeliest(word, [x[2:] for x in known if x[:2] == "--"])):
        meant = f"Did you mean --{near}?"
    return OptionError(f"{where} has no option {flag}. {meant}".strip(), remedy=f"{all_of_them} lists them.")
