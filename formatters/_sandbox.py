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
from collections.abc import Callable
from datetime import datetime
from functools import update_wrapper
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

from ._limits import (
    MAX_SIZE,
    MAX_SOURCE,
    LimitError,
    Meter,
    check_binop,
    check_method,
    meter,
    metered,
    refuse,
    running,
    size_of,
    small,
)


class Refusal(jinja2.TemplateError):
    """The template called raise_exception()."""


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
        self.filters = {name: metered(name, func, False) for name, func in filters.items()}
        self.tests = {name: metered(name, func, True) for name, func in tests.items()}
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _strftime_now
        self.globals["dict"] = _SafeDict()
        self.globals["namespace"] = _SafeNamespace
        del self.globals["lipsum"]  # random filler has no place in a prompt

    # Called from compiled templates.

    def tick(self, text: int) -> bool:
        meter().charge(text)
        return True

    def passed(self, value: Any) -> Any:
        meter().charge()
        return value

    def made(self, value: Any) -> Any:
        meter().charge(size_of(value))
        return value

    def sliced(self, value: Any) -> Any:
        meter().charge(len(value) if hasattr(value, "__len__") else 0)
        return value

    def joined(self, join: Callable[[Any], str], items: tuple[Any, ...]) -> str:
        meter().charge(sum(map(size_of, items)))
        return join(items)

    @staticmethod
    def _output(value: Any) -> Any:
        used: Meter | None = getattr(running, "meter", None)
        if used is not None:
            used.charge(size_of(value))
        return value

    # Jinja's own hooks.

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        used = meter()
        check_binop(operator, left, right)
        result = super().call_binop(context, operator, left, right)
        used.charge(size_of(result))
        return result

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        used = meter()
        used.charge()
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, (str, bytes, int)):
            args = check_method(owner, getattr(obj, "__name__", ""), args, kwargs)
        result = super().call(context, obj, *args, **kwargs)
        used.charge(size_of(result))
        return result

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        inner = super().wrap_str_format(value)
        if inner is None:
            return None
        form = str(value.__self__)

        def wrapper(*args: Any, **kwargs: Any) -> str:
            if any(len(digits) > 5 for digits in re.findall(r"\d+", form)):
                refuse("the width in a format")
            if re.search(r":[^{}]*\{", form):  # a width that is itself an argument
                small(*args, *kwargs.values())
                if any(isinstance(a, (str, dict, list, tuple)) and size_of(a) > 1000 for a in args):
                    refuse("the nested format")
            if form.count("{") * size_of([*args, *kwargs.values()]) > MAX_SIZE:
                refuse("the formatted text")
            return str(inner(*args, **kwargs))

        return update_wrapper(wrapper, value)


def _raise_exception(message: Any) -> None:
    raise Refusal(str(message)[:2000])


def _strftime_now(form: str) -> str:
    if len(form) > 1000 or re.search(r"\d{3}", form):
        refuse("the time format")
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
    small(width, limit=100)
    if separators is not None:
        small(*(len(s) for s in separators), limit=100)
    if width:
        small(_indented(value, width), limit=MAX_SIZE)
    text = json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    if ensure_ascii:
        hidden: dict[str, str] = getattr(running, "hidden", {})
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
    before = getattr(running, "meter", None), getattr(running, "hidden", {})
    running.meter, running.hidden = Meter(size_of(list(variables.values()))), hidden
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
        running.meter, running.hidden = before


__all__ = ["MAX_SOURCE", "LimitError", "Refusal", "SecurityError", "UndefinedError", "environment", "render"]
