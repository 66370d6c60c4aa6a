"""The two registers of views: of one object, and of several of one kind shown together."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from llama_magic.display.static.doc import Node
from llama_magic.display.views.data import fields


@functools.singledispatch
def view(obj: Any) -> Sequence[Node]:
    """Return the nodes that show `obj`: field by field, unless its class (or a base) has a view.

    `@view.register(Kind)` on a function of one object gives a class its view. To show an object, call
    `find.nodes`, which knows where views stand.
    """
    return fields(obj)


@functools.singledispatch
def together(first: Any, items: Sequence[Any]) -> Sequence[Node]:
    """Return the nodes that show a list of one kind; chosen by the class of its `first` item."""
    return fields(items)
