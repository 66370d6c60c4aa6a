"""The short form of a schema: `"name, age int, vibe: as a haiku, cities list[City]"`."""

from __future__ import annotations

import ast
import re
import sys
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union

from llama_magic.errors import SchemaError

_WORDS: dict[str, Any] = {
    "str": {"type": "string"},
    "string": {"type": "string"},
    "text": {"type": "string"},
    "int": {"type": "integer"},
    "integer": {"type": "integer"},
    "float": {"type": "number"},
    "number": {"type": "number"},
    "bool": {"type": "boolean"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "any": {},
    "none": {"type": "null"},
    "null": {"type": "null"},
    "list": {"type": "array"},
    "dict": {"type": "object"},
}
_FIELD = re.compile(r'\s*("[^"]+"|[^\W\d][\w.-]*)\s*(.*?)\s*$', re.DOTALL)


@dataclass(frozen=True)
class _Typed:
    """A type of the namespace, or one built of such: pydantic describes and reads it."""

    type: Any


def short_form(text: str, classes: Mapping[str, Any] | None = None) -> Any:
    """Read `"name, age int, tags list[str], mood happy|sad, note str?"` as a closed object.

    A field is a name and a type (text where there is none); `list[T]`, `dict[str, T]`, `T?`
    and `T | null` nest; words that are no types, joined by `|`, are the values to choose from. What
    follows a colon describes the field (or is its type, where it is one): `vibe: as a haiku`,
    `age int: in years`. In several lines, each is a field. `classes` are names that may stand for
    types, as those of a notebook do; with one of them a TypeAdapter comes back, else a JSON schema.
    """
    fields: dict[str, Any] = {}
    known = vars(sys.modules["__main__"]) if classes is None else classes
    for part, at in _split(text.strip(), "\n" if "\n" in text.strip() else ","):
        match = _FIELD.match(part)
        if not match:
            raise SchemaError(
                f"The short form has no field name at character {at}: {part.strip()!r:.60}.",
                remedy='Write "name, age int, tags list[str]". Of a file give json.load(open(path)).',
            )
        name = match.group(1).strip('"')
        if name in fields:
            raise SchemaError(
                f"The short form names the field {name!r} twice.", pointer=f"/properties/{name}"
            )
        fields[name] = _field(match.group(2).rstrip(","), name, known)
    if any(isinstance(kind, _Typed) for kind, _ in fields.values()):
        return _adapter(fields)
    properties = {
        name: {**kind, "description": words} if words else kind for name, (kind, words) in fields.items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(fields),
        "additionalProperties": False,
    }


def _field(rest: str, name: str, known: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the type of a field and what describes it."""
    (kind, *_), words = _split(rest, ":")[:1][0] if rest else ("", 0), ""
    if len(kind) < len(rest):
        words = rest[len(kind) + 1 :].strip().strip('"')
    if kind.strip() or not words:
        return _type(kind.strip() or "str", name, known), words
    try:
        return _type(words, name, known), ""  # "when: date"
    except SchemaError:
        if _notation(words):
            raise  # "cities: list[Town]" was meant as a type, and a text in its place would go unnoticed
        return dict(_WORDS["str"]), words


def _type(text: str, field: str, known: Mapping[str, Any]) -> Any:
    """Return a JSON schema, or a `_Typed` where a class of the namespace is named."""
    text = text.strip()
    options = [part.strip() for part, _ in _split(text, "|")]
    if len(options) > 1:
        plain = (option for option in options if option.lower() != "null")
        if not any(option.lower() in _WORDS or "[" in option or _is_type(known, option) for option in plain):
            values = [None if o.lower() in ("null", "none") else o.strip("\"'") for o in options]
            return {"enum": values}
        return _any_of([_type(option, field, known) for option in options])
    if text.endswith("?"):
        return _any_of([_type(text[:-1], field, known), {"type": "null"}])
    match = re.fullmatch(r"(list|dict)\s*\[(.*)\]", text, re.DOTALL | re.IGNORECASE)
    if match and match.group(1).lower() == "list":
        item = _type(match.group(2), field, known)
        return _Typed(list[item.type]) if isinstance(item, _Typed) else {"type": "array", "items": item}  # type: ignore[name-defined]  # a type made here
    if match:
        key, _, value = match.group(2).partition(",")
        if key.strip() in ("str", "string"):
            rest = _type(value or "any", field, known)
            if isinstance(rest, _Typed):
                return _Typed(dict[str, rest.type])  # type: ignore[name-defined]
            return {"type": "object", "additionalProperties": rest}
    elif text.lower() in _WORDS and not _is_type(known, text):
        return dict(_WORDS[text.lower()])
    elif _is_type(known, text):
        return _Typed(known[text])
    if _notation(text) and (typed := _evaluated(text, known)) is not None:
        return _Typed(typed)
    raise SchemaError(
        f"The short form gives the field {field!r} the type {text!r:.60}, which is none.",
        pointer=f"/properties/{field}",
        remedy=f"Types: {', '.join(_WORDS)}, list[T], dict[str, T], T?, a class of yours, or values to "
        f"choose from, as a|b|c. A description stands after a colon: {field}: in one line.",
    )


_PARTS = (
    *(ast.Subscript, ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.List, ast.BinOp, ast.BitOr),
    *(ast.UnaryOp, ast.USub, ast.Call, ast.keyword, ast.expr_context),  # Literal[-1], Field(ge=0)
)


def _notation(text: str) -> bool:
    """Tell Python's own notation, `Literal["a", "b"]` or `set[int]`, from words; `Field` alone is called."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    nodes = list(ast.walk(tree))
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    return (
        isinstance(tree, ast.Subscript)
        and all(isinstance(node, _PARTS) for node in nodes)
        and all(isinstance(called, ast.Name) and called.id == "Field" for called in calls)
    )


def _evaluated(text: str, known: Mapping[str, Any]) -> Any:
    import pydantic  # for weight: most short forms need none of it

    names = {name: getattr(typing, name) for name in typing.__all__} | {"Field": pydantic.Field}
    try:
        made = eval(text.strip(), {**names, **known})  # noqa: S307 - names and brackets only, see _notation
        pydantic.TypeAdapter(made)
    except Exception:  # whatever it is: a text that is no type is read as a short form
        return None
    return made


def _is_type(known: Mapping[str, Any], name: str) -> bool:
    return name not in _WORDS and isinstance(known.get(name), type)


def _any_of(options: list[Any]) -> Any:
    if any(isinstance(option, _Typed) for option in options):
        return _Typed(Union[tuple(_python(option) for option in options)])  # noqa: UP007 - made of a list
    return {"anyOf": options}


def _python(kind: Any) -> Any:
    """Return a Python type; of a plain schema one that takes what our own check lets through."""
    import pydantic

    if isinstance(kind, _Typed):
        return kind.type
    return None if kind == {"type": "null"} else Annotated[Any, pydantic.WithJsonSchema(kind)]


def _adapter(fields: dict[str, tuple[Any, str]]) -> Any:
    import pydantic
    import typing_extensions

    types = {
        name: Annotated[_python(kind), pydantic.Field(description=words or None)]
        for name, (kind, words) in fields.items()
    }
    make: Any = typing_extensions.TypedDict
    return pydantic.TypeAdapter(make("ShortForm", types))


def _split(text: str, mark: str) -> list[tuple[str, int]]:
    """Split at a mark that stands outside brackets and quotes; give each part and its place."""
    parts: list[tuple[str, int]] = []
    depth, start, quoted = 0, 0, False
    for at, char in enumerate(text):
        quoted ^= char == '"'
        depth += (char in "[(") - (char in "])")
        if char == mark and depth == 0 and not quoted:
            parts.append((text[start:at], start))
            start = at + 1
    parts.append((text[start:], start))
    if parts[-1][0].strip() == "" and len(parts) > 1:
        parts.pop()
    return parts
