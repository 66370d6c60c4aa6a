"""What a chat template finds beside its messages: JSON, dates, dicts, namespaces, and its way to refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.utils import Namespace

from llama_magic.bounds.meter import meter, refuse, running


class TemplateRefusal(jinja2.TemplateError):
    """The template called raise_exception()."""


_MAX_KEYS = 1000  # of other types than str in one dict


class SafeNamespace(Namespace):
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


class SafeDict:
    """The global `dict`: an object, so that the type itself is out of reach."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        args = tuple(list(value) if isinstance(value, Iterator) else value for value in args)
        for value in args:
            _hashed(value if isinstance(value, dict) else [pair[0] for pair in value])
        return dict(*args, **kwargs)

    def fromkeys(self, keys: Any, value: Any = None) -> dict[Any, Any]:
        return dict.fromkeys(_hashed(list(keys)), value)


def _hashed(keys: Any) -> Any:
    # Numbers are easily chosen so that all have one hash; then each is compared with each.
    meter().small(sum(not isinstance(key, str) for key in keys), limit=_MAX_KEYS)
    return keys


def raise_exception(message: Any) -> None:
    raise TemplateRefusal(str(message)[:2000])


def strftime_now(form: str) -> str:
    if len(form) > 1000 or re.search(r"\d{3}", form):
        refuse("the time format")
    return datetime.now().strftime(form)


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON as `transformers` does: no HTML escapes, ASCII not forced. What `map` gives is a list."""
    width = len(indent) if isinstance(indent, str) else indent or 0
    meter().small(width, limit=100)
    if separators is not None:
        meter().small(*(len(s) for s in separators), limit=100)
    if width:
        meter().room(_indented(value, width))
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
