"""A Jinja environment equal to that of `transformers`, which untrusted templates cannot leave,
hang or fill memory with.

A template comes out of a model file, so it is a stranger's program (CVE-2024-34359). Jinja's
immutable sandbox keeps it away from Python. It does not stop `"a" * 10**10` or two nested loops of
99,999 steps; a process of its own for each chat turn would cost more than the rendering, and a
thread cannot be ended. So everything is counted where it happens:

- each loop step, call, filter, test, comparison and output is a step, and looks at the clock;
- each value is measured where it is made;
- only what stands in the tables of `bounds` can be called, and it is measured first;
- all values made in one rendering have a budget, so many large ones do not add up.

Between two looks at the clock lies one call of at most `MAX_WORK` steps on values of at most `MAX_SIZE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import update_wrapper
from sys import getsizeof
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.exceptions import SecurityError, UndefinedError
from jinja2.parser import Parser
from jinja2.runtime import BlockReference, Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Cycler, Joiner

from llama_magic.bounds.calls import check_binop, check_format, check_method
from llama_magic.bounds.filters import EAGER, FILTERS, TESTS, check_filter, check_test
from llama_magic.bounds.meter import MAX_SOURCE, SMALL, LimitError, Meter, meter, running, size_of

from ._codegen import MeteredCodeGenerator
from ._globals import SafeDict, SafeNamespace, TemplateRefusal, raise_exception, strftime_now, tojson


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

    code_generator_class = MeteredCodeGenerator
    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, jinja2.ext.loopcontrols],
            finalize=self._output,
            cache_size=0,
        )
        self.filters["tojson"] = tojson
        # An allow-list: what a later Jinja adds is not there before it is bounded.
        filters: dict[str, Any] = dict(self.filters)
        tests: dict[str, Any] = dict(self.tests)
        self.filters = {name: _filter(name, filters[name]) for name in FILTERS if name in filters}
        self.tests = {name: _test(name, tests[name]) for name in TESTS if name in tests}
        self.globals["raise_exception"] = raise_exception
        self.globals["strftime_now"] = strftime_now
        self.globals["dict"] = SafeDict()
        self.globals["namespace"] = SafeNamespace
        del self.globals["lipsum"]  # random filler has no place in a prompt

    # Called from compiled templates.

    def tick(self, text: int) -> bool:
        meter().charge(text)
        return True

    def passed(self, value: Any) -> Any:
        meter().charge()
        return value

    def made(self, value: Any) -> Any:
        meter().value(value)
        return value

    def joined(self, join: Callable[[Any], str], items: tuple[Any, ...]) -> str:
        used = meter()
        used.room(sum(size_of(item, used.most) for item in items))
        text = join(items)
        used.value(text)
        return text

    def concat(self, pieces: Iterable[str]) -> str:
        """Join what a macro, a block or `{% set %}` wrote."""
        used = meter()
        held, size = [], 0
        for piece in pieces:
            held.append(piece)
            size += size_of(piece)
            used.room(size)
        return "".join(held)

    @staticmethod
    def _output(value: Any) -> Any:
        used: Meter | None = getattr(running, "meter", None)
        if used is not None:
            used.value(value)
        return value

    # Jinja's own hooks.

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        used = meter()
        if operator == "+" and type(left) is type(right) is str and len(left) + len(right) < SMALL:
            text: str = left + right  # nearly all that templates of conversations do
            used.charge(getsizeof(text))
            return text
        check_binop(used, operator, left, right)
        result = super().call_binop(context, operator, left, right)
        used.value(result)
        return result

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        used = meter()
        used.charge()
        owner = getattr(obj, "__self__", None)
        if isinstance(obj, BuiltinFunctionType) or (isinstance(obj, MethodType) and isinstance(owner, str)):
            args = check_method(used, owner, obj.__name__, args, kwargs)
        elif not _own(obj, owner):
            raise SecurityError(f"{type(obj).__name__} {obj!s:.60} may not be called by a template")
        result = super().call(context, obj, *args, **kwargs)
        used.value(result)
        return result

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        inner = super().wrap_str_format(value)
        if inner is None:
            return None
        form = str(value.__self__)

        def wrapper(*args: Any, **kwargs: Any) -> str:
            check_format(meter(), form, [*args, *kwargs.values()])
            return str(inner(*args, **kwargs))

        wrapper = update_wrapper(wrapper, value)
        wrapper.of_sandbox = True  # type: ignore[attr-defined]
        return wrapper


# What else a template may call: things of Jinja that are bounded by what they run.
_OWN = (Macro, LoopContext, BlockReference, Cycler, Joiner, jinja2.Undefined, SafeDict)
_OWNERS = (LoopContext, Cycler, SafeDict, Environment)


def _own(obj: Any, owner: Any) -> bool:
    if isinstance(obj, FunctionType):
        return obj in (safe_range, raise_exception, strftime_now, _Generation._body) or hasattr(
            obj, "of_sandbox"
        )
    if isinstance(obj, MethodType):
        return isinstance(owner, _OWNERS)  # their public methods do little
    return isinstance(obj, _OWN) or obj in (SafeNamespace, Cycler, Joiner)


def _filter(name: str, func: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a filter so that it is counted and its work is measured before it runs."""
    leading = 1 if getattr(func, "jinja_pass_arg", None) is not None else 0

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        used = meter()
        used.charge()
        if name in EAGER and len(args) > leading and isinstance(args[leading], Iterator):
            args = (*args[:leading], list(args[leading]), *args[leading + 1 :])
        plain = args[leading:]
        check_filter(used, name, plain, kwargs)
        result = func(*args, **kwargs)
        if isinstance(result, Iterator):
            return _counted(used, result)
        if not plain or result is not plain[0]:
            used.value(result)
        return result

    return update_wrapper(wrapper, func)


def _counted(used: Meter, items: Iterator[Any]) -> Iterator[Any]:
    """Count each item that a filter gives on, as it may be asked for all of them by one call."""
    for item in items:
        used.charge()
        yield item


def _test(name: str, func: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a test so that it is counted and its work is measured before it runs."""
    leading = 1 if getattr(func, "jinja_pass_arg", None) is not None else 0

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        used = meter()
        used.charge()
        check_test(used, name, args[leading:])
        result = func(*args, **kwargs)
        used.look()
        return result

    return update_wrapper(wrapper, func)


environment = Environment()


def render(template: jinja2.Template, variables: dict[str, Any], hidden: dict[str, str]) -> str:
    """Run a compiled template under the limits and return its text.

    `hidden` maps placeholder characters to the guarded strings that they stand for.
    Raises whatever the template raises: LimitError, TemplateRefusal, a Jinja or a Python error.
    """
    before = getattr(running, "meter", None), getattr(running, "hidden", {})
    given = size_of(list(variables.values()), most=float("inf"))
    used = running.meter = Meter(given)
    running.hidden = hidden
    try:
        out: list[str] = []
        size = 0
        for text in template.generate(**variables):
            out.append(text)
            size += size_of(text)
            used.room(size)
        return "".join(out)
    finally:
        running.meter, running.hidden = before


__all__ = [
    "MAX_SOURCE",
    "LimitError",
    "SecurityError",
    "TemplateRefusal",
    "UndefinedError",
    "environment",
    "render",
]
