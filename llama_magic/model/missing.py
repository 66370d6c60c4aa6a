"""A name that is missing, in any place of a `{{ expression }}`: Jinja looks only where it is used.

Jinja gives a missing name a value, which `[name]`, `f(name)`, `name is none` or `| tojson` take silently.
Here each name, attribute and item must be there where it is asked for, but for `is defined` and `default`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

from jinja2 import StrictUndefined, Undefined, UndefinedError, nodes
from jinja2.runtime import TemplateReference

LOOK = "demanded"  # what a changed template calls, an attribute of its environment
WRITE = "written"  # and for what is to be made a text of
# What may be missing, as the node asks whether it is.
_ASKING_TESTS = ("defined", "undefined")
_ASKING_FILTERS = ("default", "d")
# What has a value that may turn out to be missing.
_VALUES = (nodes.Name, nodes.Getattr, nodes.Getitem, nodes.Filter, nodes.CondExpr)
# Filters for which a gap (None, NaN) is a value as another. Others make a word of it, or 0 (`int`).
_TAKE_GAPS = frozenset({*_ASKING_FILTERS, "tojson"})


class Missing(StrictUndefined):
    """What a filter found missing within a value (`map(attribute="x")`): it has no text in any form."""

    __slots__ = ()

    def _refuse(self, *_: object) -> NoReturn:
        self._fail_with_undefined_error()

    __repr__ = __format__ = __index__ = __reduce_ex__ = _refuse
    __and__ = __or__ = __xor__ = __invert__ = __abs__ = __round__ = __reversed__ = _refuse


def demand(tree: nodes.Template) -> nodes.Template:
    """Change a template so that it raises `UndefinedError` for each missing name that it comes to."""
    _in(tree, may_lack=False)
    return tree


def demanded(value: Any) -> Any:
    """Return a value that is there. Raises `UndefinedError`, which names it."""
    if isinstance(value, Undefined):
        value._fail_with_undefined_error()
    if isinstance(value, TemplateReference):
        raise UndefinedError("'self' is a name of Jinja's own; give the value another one")
    return value


def without_json(value: Any) -> NoReturn:
    """Raise for what `| tojson` cannot write, and by its name where it is missing."""
    raise TypeError(f"a {type(demanded(value)).__name__} cannot be written as JSON")


def of_what_is_there(name: str, test: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a test, so that `| select("none")` and its kin raise for what is missing."""
    if name in _ASKING_TESTS:
        return test

    @wraps(test)  # with Jinja's mark of what it is given
    def wrapper(*args: Any) -> Any:
        return test(*map(demanded, args))

    return wrapper


def _in(node: nodes.Node, may_lack: bool) -> None:
    """Demand all values below a node; with `may_lack`, its own value may be missing."""
    asks = (isinstance(node, nodes.Test) and node.name in _ASKING_TESTS) or (
        isinstance(node, nodes.Filter) and node.name in _ASKING_FILTERS
    )
    written = _written(node)
    for field, held in node.iter_fields():
        lack, text = _may_lack(node, field, asks, may_lack), field in written
        if isinstance(held, list):
            held[:] = [_with_looks(one, lack, text) for one in held]
        else:
            setattr(node, field, _with_looks(held, lack, text))


def _written(node: nodes.Node) -> tuple[str, ...]:
    """Return the parts of which a node makes a text, whatever they are."""
    if isinstance(node, nodes.Filter):
        return () if node.name in _TAKE_GAPS else ("node", "args")
    if isinstance(node, nodes.Call):
        return ("args",) if isinstance(node.node, nodes.Getattr) and node.node.attr == "format" else ()
    if isinstance(node, nodes.Concat):
        return ("nodes",)
    return ("right",) if isinstance(node, nodes.Mod) else ()


def _may_lack(node: nodes.Node, field: str, asks: bool, may_lack: bool) -> bool:
    """Say whether a part of a node may be missing: what is asked about, and what may become its value."""
    if asks:  # `a | default(b) | default("c")`: so may b, as the second asks about it
        return field == "node" or may_lack
    return may_lack and isinstance(node, nodes.CondExpr) and field != "test"


def _with_looks(held: Any, may_lack: bool, makes_text: bool = False) -> Any:
    """Return what stands for a part of a node: itself, or a call that looks whether its value is there."""
    if not isinstance(held, nodes.Node):
        return held
    if makes_text and isinstance(held, nodes.Tuple):  # "%s %s" % (a, b)
        held.items = [_with_looks(one, may_lack, makes_text) for one in held.items]
        return held
    _in(held, may_lack)
    if may_lack or not isinstance(held, _VALUES) or getattr(held, "ctx", "load") != "load":
        return held
    looked: nodes.Expr = nodes.Call(nodes.EnvironmentAttribute(LOOK), [held], [], None, None)
    if makes_text:
        name = nodes.Const(held.name if isinstance(held, nodes.Name) else "")
        looked = nodes.Call(nodes.EnvironmentAttribute(WRITE), [looked, name], [], None, None)
    return looked.set_lineno(held.lineno)
