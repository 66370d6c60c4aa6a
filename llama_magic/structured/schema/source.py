"""From what a user names (a type, a schema, a short form) to a JSON schema and a way to make instances."""

from __future__ import annotations

import dataclasses
import functools
import json
import operator
import sys
import types
from collections import abc
from dataclasses import dataclass, replace
from typing import Any

from llama_magic.errors import InputTypeError, LlamaMagicError, SchemaError
from llama_magic.structured.schema.keywords import is_known
from llama_magic.structured.schema.short import short_form
from llama_magic.words.given import quoted
from llama_magic.words.plain import said


@dataclass(frozen=True)
class Source:
    """`schema` is JSON schema; `adapter` a pydantic TypeAdapter, None for plain JSON; `name` for messages.

    `ordered`: the order of keys was surely meant (a type's fields, a short form).
    """

    schema: Any
    adapter: Any = None
    name: str = "the schema"
    ordered: bool = False


def read(spec: Any) -> Source:
    """Take a pydantic model, dataclass, TypedDict, enum, Literal, list[X], …; a JSON schema as a
    dict, a bool or text; or a short form such as `"name, age int, tags list[str]"`.

    Raises `SchemaError` or `InputTypeError`.
    """
    if isinstance(spec, (dict, bool)):
        return Source(_saying(spec))
    if isinstance(spec, str):
        text = spec.strip()
        if text.startswith("{"):
            return Source(_saying(_from_text(text)))
        made = short_form(text)
        if isinstance(made, dict):
            return Source(made, name="the short form", ordered=True)
        return replace(_from_type(made), name="the short form")
    if spec is None or isinstance(spec, (int, float, bytes, list, tuple, set)):
        raise InputTypeError(
            f"A schema is a type, a JSON schema (dict) or a short form; got {quoted(spec)}.",
            remedy="For a list of values, name the type: list[int], or use choices=[…].",
        )
    if isinstance(spec, types.FunctionType | types.BuiltinFunctionType):
        raise InputTypeError(
            f"{spec.__name__} is a function; expected a type, a JSON schema or a short form."
        )
    if not isinstance(spec, type) and (dataclasses.is_dataclass(spec) or hasattr(type(spec), "model_fields")):
        name = type(spec).__name__
        raise SchemaError(f"The schema is an instance of {name}; expected the class.", remedy=f"Give {name}.")
    return _from_type(spec)


def _saying(schema: Any) -> Any:
    """Return the schema; a dict of fields and their types, as others write it, is refused.

    JSON Schema would take it, and any answer with it: a keyword that it does not know says nothing.
    """
    if not isinstance(schema, dict) or not schema or any(map(is_known, schema)):
        return schema
    fields = {key: getattr(value, "__name__", value) for key, value in schema.items()}
    if not all(isinstance(key, str) and isinstance(value, str) for key, value in fields.items()):
        return schema
    made = ", ".join(f"{key} {kind if kind in _PYTHONS else 'str'}" for key, kind in fields.items())
    raise SchemaError(
        f"The schema says nothing: no keyword of JSON Schema is among {quoted(', '.join(fields))}.",
        remedy=f'Fields in short form are a text: "{made}".',
    )


def _from_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise SchemaError(
            f"The schema is a text that begins like JSON and is not: {error}.",
            remedy='A short form has no braces: "name, age int".',
        ) from None


def _from_type(spec: Any) -> Source:
    import pydantic  # heavy, and a plain JSON schema does without it; so is the generator
    from pydantic.errors import PydanticUserError

    from llama_magic.structured.schema.generator import Generator

    name = getattr(spec, "__name__", None) or said(spec)
    own = (
        isinstance(spec, type)
        and vars(spec).get("__annotations__")
        and not hasattr(spec, "__pydantic_fields__")
    )
    remedy = f"Write class {name}(BaseModel), or @dataclass above it." if own else None
    try:
        adapter = (
            spec if isinstance(spec, pydantic.TypeAdapter) else pydantic.TypeAdapter(_modern(_listed(spec)))
        )
        schema = adapter.json_schema(schema_generator=Generator, mode="validation", by_alias=True)
    except LlamaMagicError:
        raise
    except Exception as error:  # pydantic's own, and whatever hooks of the user's types raise
        known = isinstance(error, PydanticUserError | TypeError | NameError)
        reason = (
            str(error).split("\n")[0] if known else f"{type(error).__name__}: {' '.join(str(error).split())}"
        )
        raise SchemaError(
            f"{name} cannot be turned into a JSON schema: {reason:.400}",
            remedy=remedy or "Use types that pydantic can describe as JSON.",
        ) from None
    return Source(schema, adapter, name, ordered=True)


def _listed(spec: Any) -> Any:
    """Return `list[X]` for `Iterable[X]`: pydantic makes an iterator of it that checks its items later."""
    import typing

    lazy = typing.get_origin(spec) in (abc.Iterable, abc.Iterator, abc.Generator)
    return list[typing.get_args(spec)[0]] if lazy else spec  # type: ignore[misc]


def _modern(spec: Any, inside: tuple[Any, ...] = ()) -> Any:
    """Return the type with each `typing.TypedDict` as a `typing_extensions` one, which pydantic asks for."""
    import typing

    import typing_extensions as new

    if sys.version_info >= (3, 12):
        return spec
    old = typing.is_typeddict(spec) and type(spec).__module__ == "typing"
    if old and spec not in inside:
        fields = {}
        for name, hint in typing.get_type_hints(spec, include_extras=True).items():
            wrapper: Any = new.Required if name in spec.__required_keys__ else new.NotRequired
            if typing.get_origin(hint) in (typing.Required, typing.NotRequired):  # a text annotation hid it
                wrapper = new.Required if typing.get_origin(hint) is typing.Required else new.NotRequired
                hint = typing.get_args(hint)[0]
            fields[name] = wrapper[_modern(hint, (*inside, spec))]
        make: Any = new.TypedDict
        return make(spec.__name__, fields)
    origin, arguments = typing.get_origin(spec), typing.get_args(spec)
    if origin in (*_CONTAINERS, typing.Union, types.UnionType):
        inner = tuple(_modern(argument, inside) for argument in arguments)
        if inner != arguments:
            return functools.reduce(operator.or_, inner) if origin not in _CONTAINERS else origin[inner]
    return spec


_PYTHONS = ("str", "int", "float", "bool", "list", "dict")
_CONTAINERS = (list, dict, set, tuple, frozenset)
