"""Readers of option values: from the word on the line to the value that the Python API takes."""

from __future__ import annotations

import ast
import keyword
import re
import unicodedata
from collections.abc import Callable
from typing import Any

from llama_magic.errors import OptionError
from llama_magic.magics._rows import Option
from llama_magic.words.names import hint

# What IPython puts into the namespace and asks it for: no magic works where `get_ipython` is something else.
_IPYTHONS = re.compile(r"get_ipython|In|Out|exit|quit|_{1,3}|_[iod]h|_i{1,3}|_i?\d+|__\w+__")

# --- readers: (flag, text, option) -> value ---


def _number(flag: str, text: str, kind: type[int | float], what: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise OptionError(f"{flag} is {text!r}; expected {what}{_or_variable(text)}.") from None


def _or_variable(text: str) -> str:
    """Say that a name would have been looked up, had there been a variable of it."""
    return ", or the name of a variable" if text.isidentifier() else ""


def _read_int(flag: str, text: str, option: Option) -> int:
    return int(_number(flag, text, int, "a whole number"))


def _read_float(flag: str, text: str, option: Option) -> float:
    return float(_number(flag, text, float, "a number"))


def whole_number(what: str, text: str, least: int, more: str = "") -> int:
    """Return the number that a word is; `what` names it in the error, `more` stands at its end."""
    try:
        value = int(text)
    except ValueError:
        raise OptionError(f"{what} is {text!r}; expected a whole number, {least} or more{more}.") from None
    if value < least:
        raise OptionError(f"{what} is {value}; expected a whole number, {least} or more.")
    return value


def _at_least(least: int) -> Callable[[str, str, Option], int]:
    return lambda flag, text, _option: whole_number(flag, text, least, _or_variable(text))


def _read_seed(flag: str, text: str, option: Option) -> int:
    from llama_magic.request.sampling import check_seed  # weight: parsing is loaded with the extension

    return check_seed(_read_int(flag, text, option))


def _read_text(flag: str, text: str, option: Option) -> str:
    if not text:
        raise OptionError(f"{flag} is empty; expected {option.metavar or 'a text'}.")
    return text


def _read_escaped(flag: str, text: str, option: Option) -> str:
    pieces = _read_text(flag, text, option).split("\\\\")
    return "\\".join(piece.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r") for piece in pieces)


def _read_choice(flag: str, text: str, option: Option) -> str:
    if text in option.choices:
        return text
    known = ", ".join(option.choices)
    raise OptionError(f"{flag} is {text!r}; expected {known}.{hint(text, option.choices)}")


def _read_name(flag: str, text: str, option: Option) -> str:
    if not text.isidentifier() or keyword.iskeyword(text):
        raise OptionError(f"{flag} is {text!r}; expected the name of a Python variable.")
    name = unicodedata.normalize("NFKC", text)  # as Python reads a name
    if _IPYTHONS.fullmatch(name):
        raise OptionError(
            f"{flag} is {text!r}, a name of IPython's own; the kernel needs what it holds.",
            remedy="Choose another name. Without -o the result is in _ and Out.",
        )
    return name


def _read_layers(flag: str, text: str, option: Option) -> int | str:
    if text == "all":
        return text
    value = _number(flag, text, int, "a whole number or all")
    if value < 0:
        raise OptionError(f"{flag} is {value}; expected a whole number from 0, or all.")
    return int(value)


def _listed(flag: str, text: str) -> tuple[str, ...]:
    """Return the texts (or whole numbers) of a list as Python or JSON writes it; none where it is no list."""
    try:
        found = ast.literal_eval(text) if text.startswith("[") and text.endswith("]") else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    if found == [] or any(type(one) not in (str, int) for one in found or ()):
        raise OptionError(f"{flag} is {text}; expected a list of texts, one at least.")
    return tuple(map(str, found or ()))


def _read_choices(flag: str, text: str, option: Option) -> tuple[str, ...]:
    """Cut at `|`, or at commas where there is no `|`; blanks around a choice are not part of it.

    A list of texts, as Python or JSON writes it, is that list.
    """
    parts = _listed(flag, text) or tuple(part.strip() for part in text.split("|" if "|" in text else ","))
    if not all(parts):
        raise OptionError(f"{flag} is {text!r}, which holds an empty choice; expected texts separated by |.")
    return parts


def _read_tools(flag: str, text: str, option: Option) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not name.isidentifier():
            raise OptionError(f"{flag} is {text!r}; expected names of functions, as {flag} f,g.")
    return names


def _read_bias(flag: str, text: str, option: Option) -> tuple[int | str, float]:
    token, equals, bias = text.rpartition("=")
    if re.search(r"=\s*[-+.\d]+\s*[,;]", token):
        raise OptionError(f"{flag} holds several: {text!r}; expected one.", remedy=f"Write {flag} for each.")
    value = _number(flag, bias, float, "ID=NUMBER or 'TEXT'=NUMBER") if equals else None
    if value is not None and token.isdecimal():
        return int(token), float(value)
    if value is not None and len(token) > 2 and token[0] == token[-1] and token[0] in "\"'":
        return _read_escaped(flag, token[1:-1], option), float(value)
    raise OptionError(
        f"{flag} is {text!r}; expected ID=BIAS, or 'TEXT'=BIAS with the text in inner quotes.",
        remedy=f"For example {flag} 15=-2.5 or {flag} \"'yes'=4\".",
    )


def _read_models(flag: str, text: str, option: Option) -> tuple[str, ...]:
    """Cut at commas; names and sources hold none."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise OptionError(f"{flag} is {text!r}, which holds an empty name; expected {option.metavar}.")
    return names


READERS: dict[str, Callable[[str, str, Option], Any]] = {
    "int": _read_int,
    "float": _read_float,
    "count": _at_least(0),
    "positive": _at_least(1),
    "seed": _read_seed,
    "text": _read_text,
    "regex": _read_text,
    "grammar": _read_text,
    "schema": _read_text,
    "stages": _read_text,
    "escaped": _read_escaped,
    "template": _read_escaped,
    "choice": _read_choice,
    "name": _read_name,
    "layers": _read_layers,
    "choices": _read_choices,
    "tools": _read_tools,
    "bias": _read_bias,
    "model": _read_text,
    "models": _read_models,
    "axes": _read_text,
    "score": _read_text,
}
