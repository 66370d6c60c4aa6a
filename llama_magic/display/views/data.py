"""Plain data: any object as dicts and lists, JSON as rows, and the view of what has none of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_magic.display.static.doc import Code, Grid, Head, Node
from llama_magic.words.plain import plain as plain_data
from llama_magic.words.plain import said
from llama_magic.words.tables import Table


def fields(obj: Any) -> list[Node]:
    """Show an object without a view of its own: a mapping or a dataclass, field by field."""
    data = plain(obj)
    if not isinstance(data, Mapping):
        return [Code(str(obj))]
    rows = tuple((str(key), _short(value)) for key, value in data.items())
    return [Head(type(obj).__name__), Grid(Table(("field", "value"), rows))]


def _short(value: Any) -> Any:
    text = value if isinstance(value, (int, float, str, type(None))) else str(value)
    return text[:400] + "…" if isinstance(text, str) and len(text) > 400 else text


def plain(value: Any) -> Any:
    """Return a value as dicts and lists, for models of pydantic, dataclasses and plain data alike."""
    return plain_data(value, "json")


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """Flatten JSON data into (path, value) rows: `address.street`, `tags[0]`."""
    if isinstance(value, Mapping) and value:
        return [
            row for key, item in value.items() for row in leaves(item, f"{path}.{key}" if path else str(key))
        ]
    if isinstance(value, list) and value:
        return [row for index, item in enumerate(value) for row in leaves(item, f"{path}[{index}]")]
    shown = {True: "true", False: "false"}.get(value, value) if isinstance(value, bool) else value
    if isinstance(value, (list, Mapping)):
        shown = "[]" if isinstance(value, list) else "{}"
    shown = "null" if shown is None else shown if isinstance(shown, str) else said(shown)
    return [(path or "value", shown)]
