"""A signature that names every option, where a function takes them as `**options`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class _Own:
    """Stands in a signature for a default that is not one value."""

    def __init__(self, words: str) -> None:
        self._words = words

    def __repr__(self) -> str:
        return self._words


def spelled_out(options: type, defaults: Mapping[str, Any], others: str) -> Callable[[F], F]:
    """Return a decorator that shows each key of a TypedDict in place of `**options`.

    Keys in `defaults` come first, with these; the default of the others is `others`, in words.
    Shift-Tab, `help()` and completers read the signature; the function itself is not touched.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        kept = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        keys = options.__annotations__
        order = [
            *(name for name in defaults if name in keys),
            *(name for name in keys if name not in defaults),
        ]
        shown = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(name, _Own(others)),
                annotation=getattr(keys[name], "__forward_arg__", keys[name]),
            )
            for name in order
        ]
        function.__signature__ = signature.replace(parameters=[*kept, *shown])  # type: ignore[attr-defined]
        return function

    return decorate
