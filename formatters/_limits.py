"""The limits of a template's rendering: what is counted, and what is measured before it is made."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import update_wrapper
from threading import local
from typing import Any

MAX_SECONDS = 0.5  # of this thread's own CPU time: a busy machine does not make a good template fail
MAX_SIZE = 8_000_000  # of one value: characters, 16 for each node of a list or dict
MAX_MADE = 96_000_000  # all values of one rendering together
# A megabyte in 2,000 messages took the templates of released models up to 1.1 s.
_SECONDS_PER_SIZE = 3e-6
_MADE_PER_SIZE = 200
MAX_SOURCE = 64_000  # characters of a template, compiled in about 2 s; the longest known one has 20,000
MAX_COUNT = 100_000  # a width, a number of repeats
_SLOW = 200_000  # characters for filters that work by regular expression


class LimitError(Exception):
    """A template wants more time or memory than a prompt can need."""


class Meter:
    """What one rendering has used so far."""

    def __init__(self, given: int) -> None:
        self.started = time.thread_time()
        self.seconds = MAX_SECONDS + given * _SECONDS_PER_SIZE
        self.most = MAX_MADE + given * _MADE_PER_SIZE
        self.made = 0
        self.steps = 0

    def charge(self, size: int = 0) -> None:
        self.made += size
        self.steps += 1
        if size > MAX_SIZE or self.made > self.most:
            raise LimitError(f"it makes more text than a prompt can need (over {MAX_SIZE:,} characters)")
        # The clock costs about 1 us, so it is read at every 16th cheap step.
        if size > 1000 or not self.steps % 16:
            self.look()

    def look(self) -> None:
        if time.thread_time() - self.started > self.seconds:
            raise LimitError(f"it runs for more than {self.seconds:.1f} s")


running = local()


def meter() -> Meter:
    found: Meter | None = getattr(running, "meter", None)
    if found is None:
        # While a template is compiled Jinja tries to fold constants; any exception stops that.
        raise LimitError("not while compiling")
    return found


def size_of(value: Any) -> int:
    """Return the size of a value, its parts counted as often as they appear; stops above MAX_SIZE."""
    if isinstance(value, (str, bytes)):
        return len(value)
    total = 0
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, (str, bytes)):
            total += 16 + len(item)
        elif isinstance(item, int):
            total += 16 + item.bit_length() // 8
        elif isinstance(item, dict):
            total += 16
            stack.extend(item.keys())
            stack.extend(item.values())
        elif isinstance(item, (list, tuple, set, frozenset)):
            total += 16 + 16 * len(item)
            if total <= MAX_SIZE:
                stack.extend(item)
        else:
            total += 16
        if total > MAX_SIZE:
            break
    return total


def refuse(what: str) -> None:
    raise LimitError(f"{what} is out of all proportion for a prompt")


def small(*values: Any, limit: int = MAX_COUNT) -> None:
    for value in values:
        if isinstance(value, (int, float)) and abs(value) > limit:
            refuse(f"the number {value if abs(value) < 10**30 else 'given'} as a width or count")


def check_percent(text: Any, args: Any) -> None:
    """Measure `text % args` before it is made."""
    form = str(text)
    for digits in re.findall(r"\d+", form):
        if len(digits) > 5:
            refuse(f"the width {digits[:12]}")
    if "*" in form:
        small(*(args if isinstance(args, tuple) else (args,)))
    if form.count("%") * size_of(args) + len(form) > MAX_SIZE:
        refuse("the formatted text")


def check_binop(operator: str, left: Any, right: Any) -> None:
    if operator == "*":
        for text, count in ((left, right), (right, left)):
            if isinstance(count, int) and isinstance(text, (str, bytes, list, tuple)):
                if count > 0 and size_of(text) * count > MAX_SIZE:
                    refuse("the repeated value")
                return
        if isinstance(left, int) and isinstance(right, int):
            small(left.bit_length() + right.bit_length())
    elif operator == "**":
        if isinstance(left, int) and isinstance(right, int) and right > 0:
            small(left.bit_length() * right)
    elif operator == "%":
        if isinstance(left, (str, bytes)):
            check_percent(left if isinstance(left, str) else left.decode("latin-1"), right)
    elif (
        operator == "+"
        and isinstance(left, (str, bytes, list, tuple))
        and size_of(left) + size_of(right) > MAX_SIZE
    ):
        refuse("the joined value")


def check_method(owner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Measure a call of a method of str, bytes or int before it runs; return the arguments to use."""
    values = [*args, *kwargs.values()]
    if name in ("ljust", "rjust", "center", "zfill", "expandtabs", "to_bytes"):
        small(*values)
        if name == "expandtabs" and values and isinstance(values[0], int):
            small(len(owner) * max(values[0], 1), limit=MAX_SIZE)
    elif name == "replace" and len(args) >= 2 and isinstance(args[1], (str, bytes)):
        if len(owner) + (owner.count(args[0]) + 1) * len(args[1]) > MAX_SIZE:
            refuse("the text after replace()")
    elif name == "join" and args:
        items = list(args[0]) if isinstance(args[0], Iterator) else args[0]
        if size_of(items) + len(owner) * len(items) > MAX_SIZE:
            refuse("the joined text")
        return (items, *args[1:])
    elif name == "translate" and args and isinstance(args[0], dict):
        widest = max((len(v) for v in args[0].values() if isinstance(v, str)), default=1)
        small(len(owner) * widest, limit=MAX_SIZE)
    elif name in ("rfind", "rindex", "rsplit", "rpartition") and args and isinstance(args[0], (str, bytes)):
        small(len(owner) * len(args[0]), limit=10**9)  # these search by the naive way
    return args


_GREEDY = frozenset({"center", "indent", "batch", "slice", "wordwrap", "truncate", "round", "filesizeformat"})
_BY_REGEX = frozenset({"urlize", "wordwrap", "striptags", "title", "wordcount", "truncate", "xmlattr"})
_BY_ITEM = frozenset({"batch", "dictsort", "groupby", "join", "list", "map", "max", "min", "reject"}) | {
    *("rejectattr", "select", "selectattr", "slice", "sort", "sum", "unique"),
}
_NOT_MEASURED = frozenset({"default", "d", "first", "last", "length", "count", "attr", "safe", "list"})


def check_filter(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    values = [*args, *kwargs.values()]
    if name in _GREEDY:
        small(*values[1:], limit=300 if name == "round" else MAX_COUNT)
    if name == "format":
        check_percent(args[0], args[1:] or kwargs)
    elif name == "replace" and len(args) >= 3:
        text, old, new = str(args[0]), str(args[1]), str(args[2])
        check_method(text, "replace", (old, new), {})
    elif name == "indent":
        width = values[1] if len(values) > 1 else 4
        per_line = len(width) if isinstance(width, str) else int(width)
        small((str(args[0]).count("\n") + 1) * per_line, limit=MAX_SIZE)
    elif name == "join" and len(values) > 1 and hasattr(args[0], "__len__"):
        small(len(args[0]) * len(str(values[1])), limit=MAX_SIZE)
    if name in _BY_ITEM and args and isinstance(args[0], (str, bytes)):
        small(len(args[0]), limit=_SLOW)
    if name in _BY_REGEX:
        small(sum(size_of(value) for value in values), limit=_SLOW)
    elif name not in _NOT_MEASURED and sum(map(size_of, values)) > MAX_SIZE:
        refuse(f"the value given to the filter {name!r}")


def metered(name: str, func: Callable[..., Any], is_test: bool) -> Callable[..., Any]:
    """Wrap a filter or test so that it is counted and its work is bounded."""
    leading = 1 if getattr(func, "jinja_pass_arg", None) is not None else 0

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        used = meter()
        used.charge()
        if is_test:
            result = func(*args, **kwargs)
            used.look()
            return result
        plain = args[leading:]
        if name == "join" and plain and isinstance(plain[0], Iterator):
            plain = (list(plain[0]), *plain[1:])
            args = (*args[:leading], *plain)
        check_filter(name, plain, kwargs)
        result = func(*args, **kwargs)
        used.charge(0 if result is (plain[0] if plain else None) else size_of(result))
        return result

    return update_wrapper(wrapper, func)
