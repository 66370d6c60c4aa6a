"""The allow-list of templates: methods and operators, and how much work and memory one call can take.

Each method that a template may use stands in a table here (filters and tests in `filters`), with a check
that runs before the call; what does not stand here is not there. Between two looks at the clock lies
one call, so each check must bound the call as a whole:

- linear calls need none: their values were measured when they were made;
- calls that compare each character of one text with each of another: the product is measured;
- calls that make more than they are given: what they would make is measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, ItemsView, Iterator, KeysView, Sized
from numbers import Integral
from typing import Any

from jinja2.exceptions import SecurityError

from .meter import Meter, refuse

Check = Callable[[Meter, Any, list[Any]], None]  # the meter, the value worked on, what else is given

_CODECS = frozenset({"utf8", "ascii", "latin1", "utf16", "utf32"})
_ON_ERROR = frozenset({"strict", "ignore", "replace"})


def length(value: Any) -> int:
    """Return the number of parts of a value, 1 for what has none."""
    return len(value) if isinstance(value, Sized) else 1


# --- methods --------------------------------------------------------------------------------------


def linear(used: Meter, owner: Any, values: list[Any]) -> None:
    """Accept a call whose time and result are a small multiple of values that were measured."""


def product(used: Meter, owner: Any, values: list[Any]) -> None:
    """Measure a call that may compare each part of one value with each part of another."""
    used.work(length(owner) * sum(map(length, values)))


def width(used: Meter, owner: Any, values: list[Any]) -> None:
    """Measure a call that fills up to a width."""
    used.small(*values)


def _expandtabs(used: Meter, owner: Any, values: list[Any]) -> None:
    used.small(*values)
    tab = values[0] if values and isinstance(values[0], int) else 8
    used.room(4 * (len(owner) + owner.count("\t" if isinstance(owner, str) else b"\t") * max(tab, 1)))


def check_replace(used: Meter, owner: Any, values: list[Any]) -> None:
    """Measure what replacing one text by another makes."""
    if len(values) >= 2 and all(isinstance(v, (str, bytes)) for v in values[:2]):
        used.room(used.size(owner) + (owner.count(values[0]) + 1) * _made_of(owner, values[1]))


def _made_of(owner: Any, text: Any) -> int:
    """Return how many bytes `text` takes at most inside a text of the kind of `owner`."""
    # The widest character decides for all; Markup escapes what is put into it ("&#34;").
    return len(text) * 4 * (6 if hasattr(owner, "__html__") else 1)


def _join(used: Meter, owner: Any, values: list[Any]) -> None:
    if values and isinstance(values[0], Sized):
        items = len(values[0])
        used.room(items * (_made_of(owner, owner) + 8))
        if hasattr(owner, "__html__"):
            used.room(6 * used.size(values[0]))


def _translate(used: Meter, owner: Any, values: list[Any]) -> None:
    used.work(len(owner) * sum(used.size(value) for value in values))
    used.room(4 * len(owner) * max((length(v) for v in _parts(values)), default=1))


def _parts(values: list[Any]) -> list[Any]:
    given = values[0] if values else ()
    if isinstance(given, dict):
        return list(given.values())
    return list(given) if isinstance(given, (list, tuple)) else []


def _codec(used: Meter, owner: Any, values: list[Any]) -> None:
    # Codecs are programs of their own; punycode and idna take the square of the length.
    known = not values or str(values[0]).lower().replace("-", "").replace("_", "")[:20] in _CODECS
    if not known and (not used.most_foreign or len(owner) > used.most_foreign):
        refuse(f"the codec {str(values[0])[:20]!r}")
    if len(values) > 1 and values[1] not in _ON_ERROR and not used.most_foreign:
        refuse(f"the error handler {str(values[1])[:20]!r}")


def table(*rows: tuple[str, Check]) -> dict[str, Check]:
    """Return a table of checks by name from rows of several names and their check."""
    return {name: check for names, check in rows for name in names.split()}


_TEXT = table(
    ("capitalize casefold count endswith find hex index isalnum isalpha isascii isdecimal isdigit", linear),
    ("isidentifier islower isnumeric isprintable isspace istitle isupper lower partition", linear),
    ("removeprefix removesuffix split splitlines startswith swapcase title upper", linear),
    ("strip lstrip rstrip rfind rindex rsplit rpartition", product),
    ("center ljust rjust zfill", width),
    ("expandtabs", _expandtabs),
    ("replace", check_replace),
    ("join", _join),
    ("translate", _translate),
    ("encode decode", _codec),
)
_WHOLE = table(("bit_length bit_count conjugate as_integer_ratio is_integer", linear), ("to_bytes", width))
_ROW = table(("index count copy", linear))
METHODS: tuple[tuple[type | tuple[type, ...], dict[str, Check]], ...] = (
    ((str, bytes), _TEXT),
    (int, _WHOLE),
    ((float, complex), table(("hex is_integer as_integer_ratio conjugate", linear))),
    ((list, tuple, range), _ROW),
    (dict, table(("get keys values items copy", linear))),
)


def check_method(used: Meter, owner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Measure a call of a method of a value before it runs; return the arguments to use.

    Raises SecurityError for a method that is not in the table, LimitError for too large a call.
    """
    check = next((known.get(name) for types, known in METHODS if isinstance(owner, types)), None)
    if check is None:
        raise SecurityError(f"{type(owner).__name__}.{name} may not be called by a template")
    if any(isinstance(value, Iterator) for value in args):
        args = tuple(list(value) if isinstance(value, Iterator) else value for value in args)
        for value in args:
            used.value(value)
    check(used, owner, [*args, *kwargs.values()])
    return args


# --- formats --------------------------------------------------------------------------------------

_PERCENT_NUMBER = re.compile(r"(?:%|\)|\.)[-+ #0]*(\d+)")
_BRACE_SPEC = re.compile(r"\{[^{}]*:([^{}]*)\}")
_PERCENT_REPR = re.compile(r"[ar]")


def _formatted(used: Meter, form: str, fields: int, widest: int, values: list[Any]) -> None:
    if len(form) > used.most_format:
        refuse(f"a format of {len(form):,} characters")
    used.small(widest)
    # A text comes out as it is; the written form of another value may be ten times its size.
    written = bool(_PERCENT_REPR.search(form))
    size = sum(used.size(v) * (10 if written or not isinstance(v, str) else 1) for v in values)
    used.room(4 * len(form) + fields * (4 * widest + size))


def check_percent(used: Meter, text: Any, args: Any) -> None:
    """Measure `text % args` before it is made."""
    form = text.decode("latin-1") if isinstance(text, bytes) else str(text)
    values = list(args) if isinstance(args, tuple) else [args]
    widths = [int(digits[:12]) for digits in _PERCENT_NUMBER.findall(form[: used.most_format])]
    if "*" in form:
        widths += [abs(v) for v in values if isinstance(v, int)]
    _formatted(used, form, form.count("%"), max(widths, default=0), values)


def check_format(used: Meter, form: str, values: list[Any]) -> None:
    """Measure `form.format(...)` before it is made."""
    specs = _BRACE_SPEC.findall(form[: used.most_format])
    if re.search(r":[^{}]*\{", form[: used.most_format]):  # a width that is itself an argument
        if not used.nests_formats:
            refuse("a format inside a format")
        specs += [str(value)[:1000] for value in values]
    widths = [int(digits[:12]) for spec in specs for digits in re.findall(r"\d+", spec)]
    _formatted(used, form, form.count("{"), max(widths, default=0), values)


# --- operators ------------------------------------------------------------------------------------

NUMBERS = (int, float, complex)
_SETS = (KeysView, ItemsView, set, frozenset)


def check_binop(used: Meter, operator: str, left: Any, right: Any) -> None:
    """Measure `left operator right` before it is made; raises LimitError."""
    if isinstance(left, NUMBERS) and isinstance(right, NUMBERS):
        _numbers(used, operator, left, right)
    elif operator == "*":
        for text, count in ((left, right), (right, left)):
            if isinstance(count, Integral) and isinstance(text, (str, bytes, bytearray, list, tuple)):
                used.room(_content(used, text) * max(int(count), 0))
    elif operator == "%" and isinstance(left, (str, bytes)):
        check_percent(used, left, right)
    elif operator == "+":
        used.room(used.size(left) + used.size(right))
    elif not used.takes_sets and (isinstance(left, _SETS) or isinstance(right, _SETS)):
        refuse(f"the operator {operator} between a {type(left).__name__} and a {type(right).__name__}")


def _content(used: Meter, value: Any) -> int:
    """Return the bytes that each repetition of a value adds."""
    if isinstance(value, str):
        return len(value) * (1 if value.isascii() else 4)
    return len(value) if isinstance(value, bytes) else used.size(value) - 56


def _numbers(used: Meter, operator: str, left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length() + right.bit_length()
        if operator == "**" and right > 0:
            bits = left.bit_length() * right
        if bits > 2 * used.most_bits:
            refuse("so large a number")
