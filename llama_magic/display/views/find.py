"""From an object to its nodes: find the file of its view, then let the register choose by class."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

from llama_magic.display.static.doc import Node
from llama_magic.display.views import errors as _errors  # noqa: F401 - of Python's own exceptions too: always here
from llama_magic.display.views.data import fields
from llama_magic.display.views.view import together, view

_OURS = "llama_magic."
_VIEWS = "llama_magic.display.views."


def nodes(obj: Any) -> tuple[Node, ...]:
    """Return the nodes that show `obj`."""
    find(type(obj))
    return tuple(view(obj))


def find(kind: type) -> None:
    """Import the views of a class and of its bases, from where the classes' own modules say."""
    for base in kind.__mro__:
        if base.__module__.startswith(_OURS):
            _import(_VIEWS + base.__module__.removeprefix(_OURS))


@functools.cache
def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the view is there, and something that it needs is not


@view.register(list)
@view.register(tuple)
def several(items: Sequence[Any]) -> Sequence[Node]:
    """Show results of one kind together, where their kind says how."""
    if not items or not all(isinstance(item, type(items[0])) for item in items):
        return fields(items)
    find(type(items[0]))
    return together(items[0], items)
