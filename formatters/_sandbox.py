"""A Jinja environment equal to that of `transformers`, which untrusted templates cannot leave,
hang or fill memory with.

A template comes out of a model file, so it is a stranger's program (CVE-2024-34359). Jinja's
immutable sandbox keeps it away from Python. It does not stop `"a" * 10**10` or two nested loops of
99,999 steps; a process of its own for each chat turn would cost more than the rendering, and a
thread cannot be ended. So everything is counted where it happens:

- each loop step, call, filter, test, comparison and output is a step, and looks at the clock;
- each value is measured where it is made, the greedy operations before they run;
- all text made in one rendering has a budget, so many large values do not add up.

Between two looks at the clock lies one operation on values of at most `MAX_SIZE`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import update_wrapper
from threading import local
from typing import Any

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError, UndefinedError
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

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


class Refusal(jinja2.TemplateError):
    """The template called raise_exception()."""


class _Meter:
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


_running = local()


def _meter() -> _Meter:
    meter: _Meter | None = getattr(_running, "meter", None)
    if meter is None:
        # While a template is compiled Jinja tries to fold constants; any exception stops that.
        raise LimitError("not while compiling")
    return meter


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


def _refuse(what: str) -> None:
    raise LimitError(f"{what} is out of all proportion for a prompt")


def _small(*values: Any, limit: int = MAX_COUNT) -> None:
    for value in values:
        if isinstance(value, (int, float)) and abs(value) > limit:
            _refuse(f"the number {value if abs(value) < 10**30 else 'given'} as a width or count")


def _check_percent(text: Any, args: Any) -> None:
    """Measure `text % args` before it is made."""
    form = str(text)
    for digits in re.findall(r"\d+", form):
        if len(digits) > 5:
            _refuse(f"the width {digits[:12]}")
    if "*" in form:
        _small(*(args if isinstance(args, tuple) else (args,)))
    if form.count("%") * size_of(args) + len(form) > MAX_SIZE:
        _refuse("the formatted text")


def _check_binop(operator: str, left: Any, right: Any) -> None:
    if operator == "*":
        for text, count in ((left, right), (right, left)):
            if isinstance(count, int) and isinstance(text, (str, bytes, list, tuple)):
                if count > 0 and size_of(text) * count > MAX_SIZE:
                    _refuse("the repeated value")
                return
        if isinstance(left, int) and isinstance(right, int):
            _small(left.bit_length() + right.bit_length())
    elif operator == "**":
        if isinstance(left, int) and isinstance(right, int) and right > 0:
            _small(left.bit_length() * right)
    elif operator == "%":
        if isinstance(left, (str, bytes)):
            _check_percent(left if isinstance(left, str) else left.decode("latin-1"), right)
    elif (
        operator == "+"
        and isinstance(left, (str, bytes, list, tuple))
        and size_of(left) + size_of(right) > MAX_SIZE
    ):
        _refuse("the joined value")


def _check_method(owner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Measure a call of a method of str, bytes or int before it runs; return the arguments to use."""
    values = [*args, *kwargs.values()]
    if name in ("ljust", "rjust", "center", "zfill", "expandtabs", "to_bytes"):
        _small(*values)
        if name == "expandtabs" and values and isinstance(values[0], int):
            _small(len(owner) * max(values[0], 1), limit=MAX_SIZE)
    elif name == "replace" and len(args) >= 2 and isinstance(args[1], (str, bytes)):
        if len(owner) + (owner.count(args[0]) + 1) * len(args[1]) > MAX_SIZE:
            _refuse("the text after replace()")
    elif name == "join" and args:
        items = list(args[0]) if isinstance(args[0], Iterator) else args[0]
        if size_of(items) + len(owner) * len(items) > MAX_SIZE:
            _refuse("the joined text")
        return (items, *args[1:])
    elif name == "translate" and args and isinstance(args[0], dict):
        widest = max((len(v) for v in args[0].values() if isinstance(v, str)), default=1)
        _small(len(owner) * widest, limit=MAX_SIZE)
    elif name in ("rfind", "rindex", "rsplit", "rpartition") and args and isinstance(args[0], (str, bytes)):
        _small(len(owner) * len(args[0]), limit=10**9)  # these search by the naive way
    return args


_GREEDY = frozenset({"center", "indent", "batch", "slice", "wordwrap", "truncate", "round", "filesizeformat"})
_BY_REGEX = frozenset({"urlize", "wordwrap", "striptags", "title", "wordcount", "truncate", "xmlattr"})
_BY_ITEM = frozenset({"batch", "dictsort", "groupby", "join", "list", "map", "max", "min", "reject"}) | {
    *("rejectattr", "select", "selectattr", "slice", "sort", "sum", "unique"),
}
_NOT_MEASURED = frozenset({"default", "d", "first", "last", "length", "count", "attr", "safe", "list"})


def _check_filter(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    values = [*args, *kwargs.values()]
    if name in _GREEDY:
        _small(*values[1:], limit=300 if name == "round" else MAX_COUNT)
    if name == "format":
        _check_percent(args[0], args[1:] or kwargs)
    elif name == "replace" and len(args) >= 3:
        text, old, new = str(args[0]), str(args[1]), str(args[2])
        _check_method(text, "replace", (old, new), {})
    elif name == "indent":
        width = values[1] if len(values) > 1 else 4
        per_line = len(width) if isinstance(width, str) else int(width)
        _small((str(args[0]).count("\n") + 1) * per_line, limit=MAX_SIZE)
    elif name == "join" and len(values) > 1 and hasattr(args[0], "__len__"):
        _small(len(args[0]) * len(str(values[1])), limit=MAX_SIZE)
    if name in _BY_ITEM and args and isinstance(args[0], (str, bytes)):
        _small(len(args[0]), limit=_SLOW)
    if name in _BY_REGEX:
        _small(sum(size_of(value) for value in values), limit=_SLOW)
    elif name not in _NOT_MEASURED and sum(map(size_of, values)) > MAX_SIZE:
        _refuse(f"the value given to the filter {name!r}")


def _metered(name: str, func: Callable[..., Any], is_test: bool) -> Callable[..., Any]:
    """Wrap a filter or test so that it is counted and its work is bounded."""
    leading = 1 if getattr(func, "jinja_pass_arg", None) is not None else 0

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        meter = _meter()
        meter.charge()
        if is_test:
            result = func(*args, **kwargs)
            meter.look()
            return result
        plain = args[leading:]
        if name == "join" and plain and isinstance(plain[0], Iterator):
            plain = (list(plain[0]), *plain[1:])
            args = (*args[:leading], *plain)
        _check_filter(name, plain, kwargs)
        result = func(*args, **kwargs)
        meter.charge(0 if result is (plain[0] if plain else None) else size_of(result))
        return result

    return update_wrapper(wrapper, func)


class _CodeGenerator(CodeGenerator):
    """Jinja's compiler, with the meter written into loops, joins, literals, slices and comparisons."""

    @staticmethod
    def _tick(text: int) -> nodes.Call:
        return nodes.Call(nodes.EnvironmentAttribute("tick"), [nodes.Const(text)], [], None, None)

    def _meter_body(self, node: Any) -> None:
        # The text that one pass through the body can write at most, nested loops counted by themselves.
        text = sum(len(n.data) for n in node.find_all(nodes.TemplateData))
        text += sum(len(n.value) for n in node.find_all(nodes.Const) if isinstance(n.value, str))
        node.body.insert(0, nodes.ExprStmt(self._tick(text)).set_lineno(node.lineno))

    def visit_For(self, node: nodes.For, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        self._meter_body(node)
        if node.test is not None:
            node.test = nodes.And(self._tick(0), node.test)
        nodes.Node.set_environment(node, self.environment)
        super().visit_For(node, frame)

    def visit_Macro(self, node: nodes.Macro, frame: Frame) -> None:  # noqa: N802
        self._meter_body(node)
        node.set_environment(self.environment)
        super().visit_Macro(node, frame)

    def visit_CallBlock(self, node: nodes.CallBlock, frame: Frame) -> None:  # noqa: N802
        self._meter_body(node)
        node.set_environment(self.environment)
        super().visit_CallBlock(node, frame)

    def _wrapped(self, method: str, visit: Callable[[Any, Frame], None], node: Any, frame: Frame) -> None:
        self.write(f"environment.{method}(")
        visit(node, frame)
        self.write(")")

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:  # noqa: N802
        self._wrapped("passed", super().visit_Compare, node, frame)

    def visit_List(self, node: nodes.List, frame: Frame) -> None:  # noqa: N802
        self._wrapped("made", super().visit_List, node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802
        self._wrapped("made", super().visit_Dict, node, frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:  # noqa: N802
        if node.ctx == "load":
            self._wrapped("made", super().visit_Tuple, node, frame)
        else:
            super().visit_Tuple(node, frame)

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        if isinstance(node.arg, nodes.Slice):
            self._wrapped("sliced", super().visit_Getitem, node, frame)
        else:
            super().visit_Getitem(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        join = "markup_join" if frame.eval_ctx.autoescape else "str_join"
        if frame.eval_ctx.volatile:
            join = "(markup_join if context.eval_ctx.volatile else str_join)"
        self.write(f"environment.joined({join}, (")
        for item in node.nodes:
            self.visit(item, frame)
            self.write(", ")
        self.write("))")


class _SafeNamespace(Namespace):
    """Jinja's namespace without underscore names."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, rest = args[0], args[1:]
        values = dict(*rest, **kwargs)
        for name in values:
            _public(name)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _public(name)
        super().__setitem__(name, value)


def _public(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace cannot hold the name {name!r}")


class _SafeDict:
    """The global `dict`: an object, so that the type itself is out of reach."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


class _Generation(jinja2.ext.Extension):
    """`{% generation %}…{% endgeneration %}`, by which templates mark what a model wrote."""

    tags = {"generation"}  # noqa: RUF012 - Jinja's way

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    @staticmethod
    def _body(caller: Macro) -> str:
        return str(caller())


class Environment(ImmutableSandboxedEnvironment):
    """The environment of chat templates: that of `transformers`, with a meter."""

    code_generator_class = _CodeGenerator
    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, jinja2.ext.loopcontrols],
            finalize=self._output,
            cache_size=0,
        )
        self.filters["tojson"] = _tojson
        filters: dict[str, Any] = dict(self.filters)
        tests: dict[str, Any] = dict(self.tests)
        self.filters = {name: _metered(name, func, False) for name, func in filters.items()}
        self.tests = {name: _metered(name, func, True) for name, func in tests.items()}
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _strftime_now
        self.globals["dict"] = _SafeDict()
        self.globals["namespace"] = _SafeNamespace
        del self.globals["lipsum"]  # random filler has no place in a prompt

    # Called from compiled templates.

    def tick(self, text: int) -> bool:
        _meter().charge(text)
        return True

    def passed(self, value: Any) -> Any:
        _meter().charge()
        return value

    def made(self, value: Any) -> Any:
        _meter().charge(size_of(value))
        return value

    def sliced(self, value: Any) -> Any:
        _meter().charge(len(value) if hasattr(value, "__len__") else 0)
        return value

    def joined(self, join: Callable[[Any], str], items: tuple[Any, ...]) -> str:
        _meter().charge(sum(map(size_of, items)))
        return join(items)

    @staticmethod
    def _output(value: Any) -> Any:
        meter: _Meter | None = getattr(_running, "meter", None)
        if meter is not None:
            meter.charge(size_of(value))
        return value

    # Jinja's own hooks.

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        meter = _meter()
        _check_binop(operator, left, right)
        result = super().call_binop(context, operator, left, right)
        meter.charge(size_of(result))
        return result

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        meter = _meter()
        meter.charge()
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, (str, bytes, int)):
            args = _check_method(owner, getattr(obj, "__name__", ""), args, kwargs)
        result = super().call(context, obj, *args, **kwargs)
        meter.charge(size_of(result))
        return result

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        inner = super().wrap_str_format(value)
        if inner is None:
            return None
        form = str(value.__self__)

        def wrapper(*args: Any, **kwargs: Any) -> str:
            if any(len(digits) > 5 for digits in re.findall(r"\d+", form)):
                _refuse("the width in a format")
            if re.search(r":[^{}]*\{", form):  # a width that is itself an argument
                _small(*args, *kwargs.values())
                if any(isinstance(a, (str, dict, list, tuple)) and size_of(a) > 1000 for a in args):
                    _refuse("the nested format")
            if form.count("{") * size_of([*args, *kwargs.values()]) > MAX_SIZE:
                _refuse("the formatted text")
            return str(inner(*args, **kwargs))

        return update_wrapper(wrapper, value)


def _raise_exception(message: Any) -> None:
    raise Refusal(str(message)[:2000])


def _strftime_now(form: str) -> str:
    if len(form) > 1000 or re.search(r"\d{3}", form):
        _refuse("the time format")
    return datetime.now().strftime(form)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON as `transformers` does: no HTML escapes, ASCII not forced."""
    width = len(indent) if isinstance(indent, str) else indent or 0
    _small(width, limit=100)
    if separators is not None:
        _small(*(len(s) for s in separators), limit=100)
    if width:
        _small(_indented(value, width), limit=MAX_SIZE)
    text = json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    if ensure_ascii:
        hidden: dict[str, str] = getattr(_running, "hidden", {})
        for char, guarded in hidden.items():
            escaped = json.dumps(char)[1:-1]
            text = text.replace(escaped, char if guarded.isascii() else json.dumps(guarded)[1:-1])
    return text


def _indented(value: Any, width: int, depth: int = 1) -> int:
    """Return how much white space an indented JSON text would hold at most."""
    if not isinstance(value, (dict, list, tuple)):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    total = (len(value) + 1) * depth * width
    for item in inner:
        total += _indented(item, width, depth + 1)
    return total


environment = Environment()


def render(template: jinja2.Template, variables: dict[str, Any], hidden: dict[str, str]) -> str:
    """Run a compiled template under the limits and return its text.

    `hidden` maps placeholder characters to the guarded strings that they stand for.
    Raises whatever the template raises: LimitError, Refusal, a Jinja or a Python error.
    """
    before = getattr(_running, "meter", None), getattr(_running, "hidden", {})
    _running.meter, _running.hidden = _Meter(size_of(list(variables.values()))), hidden
    try:
        out: list[str] = []
        length = 0
        for text in template.generate(**variables):
            out.append(text)
            length += len(text)
            if length > MAX_SIZE:
                raise LimitError(f"its text is longer than {MAX_SIZE:,} characters")
        return "".join(out)
    finally:
        _running.meter, _running.hidden = before


__all__ = ["MAX_SOURCE", "LimitError", "Refusal", "SecurityError", "UndefinedError", "environment", "render"]
