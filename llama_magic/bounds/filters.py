"""The allow-list of templates: filters and tests, each with what bounds its work. See `calls`."""

from __future__ import annotations

from collections.abc import Sized
from itertools import chain
from typing import Any

from .calls import (
    NUMBERS,
    check_percent,
    check_replace,
    length,
    linear,
    product,
    table,
)
from .meter import Meter, refuse

_LOOKED_UP = 1000  # steps in C that it takes to look up one more name of an item, in Python
_MAX_ATTRIBUTE = 200  # characters of "a.b.c" in map(attribute=...)


def _short(limit: int, values: list[Any]) -> None:
    if sum(length(v) for v in values if isinstance(v, (str, bytes, list, dict))) > limit:
        refuse(f"a text of more than {limit:,} characters")


def _all_by_item(used: Meter, value: Any, values: list[Any]) -> None:
    _short(used.by_item, [value, *values])


def _by_regex(used: Meter, value: Any, values: list[Any]) -> None:
    _short(used.by_regex, [value, *values])


def _by_url(used: Meter, value: Any, values: list[Any]) -> None:
    _short(used.by_url, [value, *values])
    used.room(length(value) * (8 + sum(map(length, values))))


def _whole(used: Meter, value: Any, values: list[Any]) -> None:
    _short(4300, [value, *values])  # Python's own limit for whole numbers; other bases have none


def _by_item(used: Meter, value: Any, values: list[Any]) -> None:
    if isinstance(value, (str, bytes)) and len(value) > used.by_item:
        refuse(f"a text of more than {used.by_item:,} characters, one by one,")


def _counted(used: Meter, value: Any, values: list[Any]) -> None:
    _by_item(used, value, values)
    used.small(*values)


def _of_number(used: Meter, value: Any, values: list[Any]) -> None:
    # `value % 2` and `value * 10 ** digits` are other things where the value is a text.
    if any(isinstance(v, (str, bytes, list, tuple)) for v in (value, *values)):
        raise TypeError(f"a number is wanted, not a {type(value).__name__}")


def _round(used: Meter, value: Any, values: list[Any]) -> None:
    _of_number(used, value, values[:1])
    used.small(*values, limit=300)


def add_up(used: Meter, value: Any, values: list[Any]) -> None:
    start = next((v for v in values if not isinstance(v, (str, *NUMBERS)) and v is not None), None)
    if start is not None:  # lists are added one by one, each time copied whole
        used.work(length(value) * (used.size(value) + used.size(start)) // 8)


def _filter_replace(used: Meter, value: Any, values: list[Any]) -> None:
    texts = [v if hasattr(v, "__html__") else str(v) for v in (value, *values[:2])]
    check_replace(used, texts[0], texts[1:])


def _filter_join(used: Meter, value: Any, values: list[Any]) -> None:
    _by_item(used, value, values)
    if values and isinstance(value, Sized):
        used.room(len(value) * len(str(values[0])) * 4)


def _indent(used: Meter, value: Any, values: list[Any]) -> None:
    used.small(*values)
    step = values[0] if values else 4
    per_line = len(step) if isinstance(step, str) else int(step)
    used.room((str(value).count("\n") + 1) * per_line * 4)


def _wordwrap(used: Meter, value: Any, values: list[Any]) -> None:
    _by_regex(used, value, values)
    used.small(*values)
    used.room(4 * len(str(value)) * (1 + sum(len(v) for v in values if isinstance(v, str))))


def _groupby(used: Meter, value: Any, values: list[Any]) -> None:
    _by_item(used, value, values)
    # Each item without the attribute has the default as its key, a copy of it in lower case.
    large = max((used.size(v) for v in values), default=0)
    used.room(length(value) * max(0, large - _MAX_ATTRIBUTE * 2))


def _filter_format(used: Meter, value: Any, values: list[Any]) -> None:
    check_percent(used, value, tuple(values))


FILTERS = table(
    ("abs attr capitalize count d default dictsort e escape first float forceescape last", linear),
    ("length lower random safe string tojson truncate upper", linear),
    ("groupby", _groupby),
    ("items list map max min reject rejectattr reverse select selectattr sort unique", _by_item),
    ("batch center slice", _counted),
    ("title urlencode wordcount", _all_by_item),
    ("pprint striptags xmlattr", _by_regex),
    ("urlize", _by_url),
    ("wordwrap", _wordwrap),
    ("trim", product),
    ("int", _whole),
    ("filesizeformat", _of_number),
    ("round", _round),
    ("sum", add_up),
    ("replace", _filter_replace),
    ("join", _filter_join),
    ("indent", _indent),
    ("format", _filter_format),
)
# Filters that make something of all items at once: they are measured before, also what comes one by one.
EAGER = frozenset({"groupby", "join", "max", "min", "sort", "sum", "tojson", "unique"})
# Filters that give back what they were given, or do not look into it.
NOT_MEASURED = frozenset({"default", "d", "first", "last", "length", "count", "attr", "safe", "map"})
_ATTRIBUTE = {"groupby": 0, "selectattr": 0, "rejectattr": 0, "sum": 0, "unique": 1, "min": 1, "max": 1}
_ATTRIBUTE |= {"join": 1, "sort": 2}
TESTS = table(
    ("boolean callable defined escaped false filter float integer iterable lower mapping none", linear),
    ("number sameas sequence string test true undefined upper in", linear),
    ("== eq equalto != ne > gt greaterthan >= ge < lt lessthan <= le", linear),
    ("even odd divisibleby", _of_number),
)


def check_filter(used: Meter, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Measure a filter before it runs; the first of `args` is the value that is filtered."""
    value, values = args[0] if args else None, [*args[1:], *kwargs.values()]
    place = _ATTRIBUTE.get(name, len(values))
    attribute = kwargs.get("attribute", values[place] if place < len(values) else "")
    keys = 1
    if isinstance(attribute, str):
        used.small(len(attribute), limit=_MAX_ATTRIBUTE)
        keys += attribute.count(",")  # each is a key of every item, a copy in lower case
        if name in EAGER:
            used.work(length(value) * (keys - 1 + attribute.count(".")) * _LOOKED_UP)
    if name not in NOT_MEASURED:
        used.room(sum(used.size(v) for v in chain((value,), values)) * keys)
    FILTERS[name](used, value, values)


def check_test(used: Meter, name: str, args: tuple[Any, ...]) -> None:
    """Measure a test before it runs."""
    TESTS[name](used, args[0] if args else None, list(args[1:]))
