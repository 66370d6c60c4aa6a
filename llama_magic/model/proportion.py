"""How much one `{{ expression }}` may make: what is far too large is said, not waited for.

All that Python's own types, Jinja's filters and the functions named here can do is listed in `bounds`, and
measured before it runs. What is the user's own, a function or an object, does what it does. What the
user gave extends the limits; it is measured only where one is reached. The clock is not looked at: a
function may ask a model, and Ctrl-C ends what is written in Python.
"""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import wraps
from itertools import chain
from types import BuiltinFunctionType, MethodType
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.filters import make_attrgetter
from jinja2.runtime import str_join

from llama_magic.bounds.calls import METHODS as _THEIRS
from llama_magic.bounds.calls import check_binop, check_format, linear, table
from llama_magic.bounds.filters import EAGER, FILTERS, NOT_MEASURED, TESTS, add_up, check_filter, check_test
from llama_magic.bounds.meter import Meter, meter
from llama_magic.bounds.spent import TEXTS, size_alone

_COMPARED = 8  # steps that it takes to compare two keys
_ITEM = 50  # bytes of a short text, as `split` makes them


class Measured:
    """What Jinja's sandbox asks of its environment, measured first; mixed into it."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "**", "%"})

    def call_binop(self, context: Any, sign: str, left: Any, right: Any) -> Any:
        used = meter()
        check_binop(used, sign, left, right)
        if isinstance(left, AbstractSet) and isinstance(right, AbstractSet):
            _met(used, left, [right])
        return super().call_binop(context, sign, left, right)  # type: ignore[misc]

    @staticmethod
    def joined(*items: Any) -> str:
        """Return `a ~ b` as Jinja writes it, measured first."""
        used = meter()
        used.room(sum(map(used.size, items)))
        return str_join(items)

    def wrap_str_format(self, value: Any) -> Any:
        inner = super().wrap_str_format(value)  # type: ignore[misc]
        return inner and _format_of(value, inner)


def measured(tree: nodes.Template) -> nodes.Template:
    """Change a template so that `a ~ b` is measured, too, which Jinja's sandbox does not ask about."""
    for node in list(tree.find_all(nodes.Concat)):
        joined = nodes.Call(nodes.EnvironmentAttribute("joined"), node.nodes, [], None, None)
        joined.set_lineno(node.lineno)
        node.nodes = [joined]
    return tree


def _format_of(method: Any, safe: Callable[..., str]) -> Callable[..., str]:
    @wraps(safe)
    def wrapper(*args: Any, **options: Any) -> str:
        check_format(meter(), str(method.__self__), [*args, *options.values()])
        return safe(*args, **options)

    return wrapper


def called(function: Any, run: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """Call `run` as `function` is called; where that is one of Python's own, measure first what it makes.

    Raises SecurityError for what is not listed.
    """
    used = meter()
    check, owner, given = _check_of(function, args)
    if check is None:
        return run(*args, **options)
    taken = [list(value) if isinstance(value, Iterator) else value for value in given]
    if isinstance(owner, TEXTS):
        used.room(sum(map(used.size, taken)))
    check(used, owner, taken if function is dict else [*taken, *options.values()])  # its names are keys
    result = run(*args[: len(args) - len(given)], *taken, **options)
    if owner is None or isinstance(owner, TEXTS):
        used.charge(size_alone(result) + (_ITEM * len(result) if isinstance(result, list) and owner else 0))
    return result


_Check = Callable[[Meter, Any, list[Any]], None]


def _check_of(function: Any, args: tuple[Any, ...]) -> tuple[_Check | None, Any, tuple[Any, ...]]:
    """Return the check of a call, what it works on, and what else is given; none for what is the user's."""
    name, owner = getattr(function, "__name__", ""), getattr(function, "__self__", None)
    if isinstance(function, type) or owner is builtins:
        return (_FUNCTIONS.get(name) if function is getattr(builtins, name, None) else None), None, args
    if isinstance(getattr(function, "__objclass__", None), type) and args:  # str.center("x", 80)
        owner, args = args[0], args[1:]
    elif not isinstance(function, BuiltinFunctionType) and not (
        isinstance(function, MethodType) and isinstance(owner, str) and hasattr(owner, "__html__")
    ):
        return None, None, args
    if isinstance(owner, type):  # dict.fromkeys
        return (_hashed if name == "fromkeys" else None), None, args
    for kinds, known in METHODS:
        if isinstance(owner, kinds) and any(hasattr(kind, name) for kind in kinds):
            if name not in known:
                raise SecurityError(f"{type(owner).__name__}.{name} may not be called here")
            return known[name], owner, args
    return None, None, args


def limit(environment: Any) -> None:
    """Leave of a sandbox's filters and tests those that are listed, each measured before it runs."""
    filters, tests = dict(environment.filters), dict(environment.tests)
    environment.filters = {name: _filtered(name, filters[name]) for name in FILTERS if name in filters}
    environment.tests = {name: _tested(name, tests[name]) for name in TESTS if name in tests}


def _filtered(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that is measured before it runs."""
    leading = 1 if getattr(function, "jinja_pass_arg", None) is not None else 0

    @wraps(function)  # with Jinja's mark of what it is given
    def wrapper(*args: Any, **options: Any) -> Any:
        used = meter()
        if name in EAGER and len(args) > leading and isinstance(args[leading], Iterator):
            args = (*args[:leading], list(args[leading]), *args[leading + 1 :])
        check_filter(used, name, args[leading:], options)
        if name == "tojson":
            _indented(used, *args[leading:], **options)
        elif name == "unique":
            _told_apart(used, *args, **options)
        result = function(*args, **options)
        if name not in NOT_MEASURED and not isinstance(result, Iterator):
            used.value(result)
        return result

    return wrapper


def _indented(used: Meter, value: Any, indent: Any = None) -> None:
    """Measure JSON of which each part has a line of its own."""
    width = len(indent) if isinstance(indent, str) else indent
    used.room(used.size(value) * (1 + abs(width)) if isinstance(width, int) else 0)


def _told_apart(
    used: Meter, environment: Any, value: Any, case_sensitive: bool = False, attribute: Any = None
) -> None:
    """Measure what puts the keys of all items into a set."""
    _share(used, value if attribute is None else map(make_attrgetter(environment, attribute), value))


def _tested(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a test that is measured before it runs."""
    leading = 1 if getattr(function, "jinja_pass_arg", None) is not None else 0

    @wraps(function)
    def wrapper(*args: Any, **options: Any) -> Any:
        check_test(meter(), name, args[leading:])
        return function(*args, **options)

    return wrapper


def _hashed(used: Meter, owner: Any, values: list[Any]) -> None:
    """Measure what is put into a set or dict: of keys that share a hash each is compared with each."""
    for value in values[:1]:
        pairs = owner is dict and not isinstance(value, Mapping)
        _share(used, [pair[0] for pair in value] if pairs else value)


def _share(used: Meter, keys: Iterable[Any]) -> None:
    keys = list(keys)
    if _compared(map(hash, keys)) > used.most_work:  # many keys that are equal cost nothing: look closer
        apart = {(key if isinstance(key, (str, bytes)) else repr(key), hash(key)) for key in keys}
        used.work(_compared(number for _, number in apart))


def _compared(hashes: Iterable[int]) -> int:
    return sum(_COMPARED * count * count for count in Counter(hashes).values())


def _met(used: Meter, owner: Any, values: list[Any]) -> None:
    """Measure what looks for the members of one set among those of others."""
    _share(used, chain(owner, *(value for value in values if isinstance(value, Iterable))))


def _pairs(used: Meter, owner: Any, values: list[Any]) -> None:
    _hashed(used, dict, values)


def _text(used: Meter, owner: Any, values: list[Any]) -> None:
    used.room(sum(map(used.size, values)))


def _round(used: Meter, owner: Any, values: list[Any]) -> None:
    used.small(*values[1:], limit=300)


def _add_up(used: Meter, owner: Any, values: list[Any]) -> None:
    add_up(used, values[0] if values else (), values[1:])


# Python's own functions that an expression may call, by name; a type's own text is measured as its value.
_FUNCTIONS: dict[str, _Check] = table(
    ("abs all any bool enumerate float int len list max min reversed sorted tuple zip", linear),
    ("repr str", _text),
    ("set", _hashed),
    ("dict", _pairs),
    ("round", _round),
    ("sum", _add_up),
)
_TEXT = _THEIRS[0][1]
METHODS: tuple[tuple[tuple[type, ...], dict[str, _Check]], ...] = (
    ((str, bytes), _TEXT),
    ((bytearray,), _TEXT | table(("append clear copy extend insert pop remove reverse", linear))),
    ((int,), _THEIRS[1][1]),
    ((float, complex), _THEIRS[2][1]),
    ((list,), table(("append clear copy count extend index insert pop remove reverse sort", linear))),
    ((tuple, range), _THEIRS[3][1]),
    ((dict,), table(("clear copy get items keys pop popitem setdefault values", linear), ("update", _met))),
    (
        (set, frozenset),
        table(
            ("add clear copy discard pop remove", linear),
            ("difference difference_update intersection intersection_update isdisjoint issubset", _met),
            ("issuperset symmetric_difference symmetric_difference_update union update", _met),
        ),
    ),
)
