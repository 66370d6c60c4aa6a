"""How much one `{{ expression }}` may make: a number that is far too large is said, not waited for.

An expression has no loops. What makes much of little repeats, replaces, or fills up to a number; such
operators, methods and filters are measured before they run. What a user's own function does is the user's.
"""

from __future__ import annotations

import builtins
import re
import threading
from collections.abc import Callable, Mapping, Sequence, Sized
from functools import wraps
from numbers import Integral
from types import BuiltinFunctionType
from typing import Any

from llama_magic.errors import TemplateError

MOST = 10_000_000  # characters and items that one expression may make: a prompt of them fits no window
_BITS = 1_000_000  # of a whole number: two such are multiplied in some milliseconds
_PERCENT = re.compile(r"%(?:\([^()]*\))?[-+ #0]*(\d*)(?:\.(\d*))?")
_BRACE = re.compile(r"\{[^{}:]*:([^{}]*)(\{?)")

_spent = threading.local()


class Measured:
    """What Jinja's sandbox asks of its environment, measured first; mixed into it."""

    intercepted_binops = frozenset({"*", "**", "%"})  # Jinja would compute constants while it compiles

    def call_binop(self, context: Any, sign: str, left: Any, right: Any) -> Any:
        operator(sign, left, right)
        return super().call_binop(context, sign, left, right)  # type: ignore[misc]

    def wrap_str_format(self, value: Any) -> Any:
        inner = super().wrap_str_format(value)  # type: ignore[misc]
        return inner and format_of(value, inner)


def begin() -> None:
    """Begin an expression: nothing is made yet."""
    _spent.parts = 0


def spend(parts: int) -> None:
    """Count what is about to be made. Raises `TemplateError` where it is out of all proportion."""
    _spent.parts = getattr(_spent, "parts", 0) + max(parts, 0)
    if _spent.parts > MOST:
        amount = f"{_spent.parts:,}" if _spent.parts < 10**30 else "ever so many"
        raise TemplateError(
            f"it would make {amount} characters or items, and {MOST:,} are the most",
            remedy="Look at the number that it repeats or fills up to.",
        )


def operator(sign: str, left: Any, right: Any) -> None:
    """Measure `left sign right` before it is made."""
    if isinstance(left, int) and isinstance(right, int):
        _whole(sign, left, right)
    elif sign == "*":
        for held, count in ((left, right), (right, left)):
            if isinstance(held, Sequence) and isinstance(count, Integral):
                spend(len(held) * int(count))
    elif sign == "%" and isinstance(left, (str, bytes)):
        _percent(left, right if isinstance(right, tuple) else (right,))


def _whole(sign: str, left: int, right: int) -> None:
    bits = 0
    if sign == "*":
        bits = left.bit_length() + right.bit_length()
    elif sign == "**" and right > 0:
        bits = (abs(left).bit_length() - 1) * right
    if bits > _BITS:
        raise TemplateError(f"the number would have more than {_BITS * 3 // 10:,} digits")


def call(function: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    """Measure the call of one of Python's own methods or functions."""
    owner = getattr(function, "__self__", None)
    if isinstance(getattr(function, "__objclass__", None), type) and args:  # str.center("x", 80)
        owner, args = args[0], args[1:]
    elif not isinstance(function, BuiltinFunctionType):
        return
    given = [*args, *options.values()]
    if function is builtins.round:
        _numbers(given[1:])
    elif isinstance(owner, (str, bytes, bytearray, int)):
        check = _METHODS.get(function.__name__)
        if check is not None:
            check(owner, given)


def filtered(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that is measured before it runs, or the filter itself where it makes little."""
    check = _FILTERS.get(name)
    if check is None:
        return function
    leading = 1 if getattr(function, "jinja_pass_arg", None) is not None else 0

    @wraps(function)  # with Jinja's mark of what it is given
    def wrapper(*args: Any, **options: Any) -> Any:
        value, *given = args[leading:] or (None,)
        check(value, [*given, *options.values()])
        return function(*args, **options)

    return wrapper


def format_of(method: Any, safe: Callable[..., str]) -> Callable[..., str]:
    """Return Jinja's safe form of a text's `format` method, measured before it runs."""

    @wraps(safe)
    def wrapper(*args: Any, **options: Any) -> str:
        for spec, nested in _BRACE.findall(str(method.__self__)):
            _numbers([int(digits[:30]) for digits in re.findall(r"\d+", spec)])
            if nested:  # a width that is itself given
                _numbers([*args, *options.values()])
        return safe(*args, **options)

    return wrapper


def _percent(form: Any, given: Sequence[Any]) -> None:
    text = form.decode("latin-1") if isinstance(form, bytes) else str(form)
    for width, precision in _PERCENT.findall(text):
        _numbers([int(digits[:30]) for digits in (width, precision) if digits])
    if "*" in text:
        _numbers(given)


def _numbers(values: Sequence[Any]) -> None:
    """Count each whole number among the values as what is filled up to."""
    for value in values:
        if isinstance(value, Integral):
            spend(abs(int(value)))


def _fills(owner: Any, given: list[Any]) -> None:
    _numbers(given)


def _expandtabs(owner: Any, given: list[Any]) -> None:
    if isinstance(owner, (str, bytes, bytearray)):
        tabs = owner.count("\t") if isinstance(owner, str) else owner.count(b"\t")
        _numbers([tabs * value for value in given if isinstance(value, Integral)])


def _replaces(owner: Any, given: list[Any]) -> None:
    if len(given) >= 2 and isinstance(owner, type(given[0])) and isinstance(given[1], (str, bytes)):
        spend((owner.count(given[0]) + 1) * len(given[1]))


def _joins(owner: Any, given: list[Any]) -> None:
    if given and isinstance(owner, Sized) and isinstance(given[0], Sized):
        spend(len(owner) * len(given[0]))


def _translates(owner: Any, given: list[Any]) -> None:
    if given and isinstance(owner, str) and isinstance(given[0], Mapping):
        widest = max((len(v) for v in given[0].values() if isinstance(v, str)), default=1)
        spend(len(owner) * widest)


def _indents(owner: Any, given: list[Any]) -> None:
    widths = [len(v) if isinstance(v, str) else v for v in given]
    _numbers([(str(owner).count("\n") + 1) * v for v in widths if isinstance(v, Integral)])


def _wraps(owner: Any, given: list[Any]) -> None:
    spend(len(str(owner)) * sum(len(v) for v in given if isinstance(v, str)))


def _filter_replaces(owner: Any, given: list[Any]) -> None:
    _replaces(str(owner), [str(value) for value in given[:2]])


def _filter_joins(owner: Any, given: list[Any]) -> None:
    _joins(str(given[0]) if given else "", [owner])


_METHODS: dict[str, Callable[[Any, list[Any]], None]] = {
    **dict.fromkeys(("center", "ljust", "rjust", "zfill", "to_bytes"), _fills),
    "expandtabs": _expandtabs,
    "replace": _replaces,
    "join": _joins,
    "translate": _translates,
}
_FILTERS: dict[str, Callable[[Any, list[Any]], None]] = {
    **dict.fromkeys(("batch", "center", "round", "slice", "tojson"), _fills),
    "format": _percent,
    "indent": _indents,
    "join": _filter_joins,
    "replace": _filter_replaces,
    "wordwrap": _wraps,
}
