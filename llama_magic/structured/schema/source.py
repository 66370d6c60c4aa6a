"""From what a user names (a type, a schema, a short form) to a JSON schema and a way to make instances."""

from __future__ import annotations

import functools
import json
import operator
import sys
import types
from dataclasses import dataclass, replace
from typing import Any

from llama_magic.errors import InputTypeError, SchemaError
from llama_magic.structured.schema.json_text import pattern_of_json
from llama_magic.structured.schema.short import short_form
from llama_magic.structured.schema.written import DAY, NUMBER, SAID, url


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
        return Source(spec)
    if isinstance(spec, str):
        text = spec.strip()
        if text.startswith("{"):
            return Source(_from_text(text))
        made = short_form(text)
        if isinstance(made, dict):
            return Source(made, name="the short form", ordered=True)
        return replace(_from_type(made), name="the short form")
    if spec is None or isinstance(spec, (int, float, bytes, list, tuple, set)):
        raise InputTypeError(
            f"A schema is a type, a JSON schema (dict) or a short form; got {spec!r:.80}.",
            remedy="For a list of values, name the type: list[int], or use choices=[…].",
        )
    if isinstance(spec, types.FunctionType | types.BuiltinFunctionType):
        raise InputTypeError(
            f"{spec.__name__} is a function; expected a type, a JSON schema or a short form."
        )
    return _from_type(spec)


def _from_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise SchemaError(
            f"The schema is a text that begins like JSON and is not: {error}.",
            remedy='A short form has no braces: "name, age int".',
        ) from None


def _from_type(spec: Any) -> Source:
    import pydantic
    from pydantic.errors import PydanticUserError

    name = getattr(spec, "__name__", None) or str(spec)
    try:
        adapter = spec if isinstance(spec, pydantic.TypeAdapter) else pydantic.TypeAdapter(_modern(spec))
        schema = adapter.json_schema(schema_generator=_generator(), mode="validation", by_alias=True)
    except (PydanticUserError, pydantic.ValidationError, NameError, RecursionError, TypeError) as error:
        reason = str(error).split("\n")[0]
        raise SchemaError(
            f"{name} cannot be turned into a JSON schema: {reason}",
            remedy="Use types that pydantic can describe as JSON.",
        ) from None
    return Source(schema, adapter, name, ordered=True)


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


_CONTAINERS = (list, dict, set, tuple, frozenset)
_OFFSET = r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_SECONDS = r"[0-9]{1,5}(?:\.[0-9]{1,6})?S"
_HOURS = rf"T(?:[0-9]{{1,5}}H(?:[0-9]{{1,5}}M)?(?:{_SECONDS})?|[0-9]{{1,5}}M(?:{_SECONDS})?|{_SECONDS})"
_DAYS = r"(?:[0-9]{1,3}Y(?:[0-9]{1,5}D)?|[0-9]{1,5}D)"
_DAY = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"


def _generator() -> Any:
    """Return a schema generator that writes down what Python's types really read and write.

    Models without `extra="allow"` are closed: a field that the type drops need not be written.
    A naive datetime has no offset, which JSON schema's `date-time` demands.
    """
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        def _closed(self, schema: dict[str, Any]) -> dict[str, Any]:
            if schema.get("type") == "object" and "properties" in schema:
                schema.setdefault("additionalProperties", False)
            return schema

        def model_schema(self, schema: Any) -> Any:
            return self._closed(super().model_schema(schema))

        def typed_dict_schema(self, schema: Any) -> Any:
            return self._closed(super().typed_dict_schema(schema))

        def dataclass_schema(self, schema: Any) -> Any:
            return self._closed(super().dataclass_schema(schema))

        def tagged_union_schema(self, schema: Any) -> Any:
            """Ask for the tag in each branch: pydantic does not take its default there."""
            union = super().tagged_union_schema(schema)
            tag = union.get("discriminator", {}).get("propertyName")
            if isinstance(tag, str) and "oneOf" in union:
                asked = {"type": "object", "required": [tag]}
                union["oneOf"] = [{"allOf": [branch, asked]} for branch in union["oneOf"]]
            return union

        def datetime_schema(self, schema: Any) -> Any:
            end = f"T{_CLOCK}{_zone(schema)}$"
            return {"type": "string", "pattern": f"^{_DAY}{end}", SAID: {"pattern": f"^{DAY}{end}"}}

        def time_schema(self, schema: Any) -> Any:
            return {"type": "string", "pattern": f"^{_CLOCK}{_zone(schema)}$"}

        def decimal_schema(self, schema: Any) -> Any:
            return _decimal(super().decimal_schema(schema), schema)

        def bytes_schema(self, schema: Any) -> Any:
            made = super().bytes_schema(schema)
            low, high = schema.get("min_length", 0), schema.get("max_length")
            if low or high is not None:  # it counts bytes, the keyword characters
                made[SAID] = {"pattern": f"^[ -~]{{{low},{'' if high is None else high}}}$"}
            return made

        def complex_schema(self, schema: Any) -> Any:
            return {"type": "string", "format": "complex"}

        def url_schema(self, schema: Any) -> Any:
            return {**super().url_schema(schema), SAID: _url(schema)}

        def multi_host_url_schema(self, schema: Any) -> Any:
            return {**super().multi_host_url_schema(schema), SAID: _url(schema)}

        def json_schema(self, schema: Any) -> Any:
            made = super().json_schema(schema)
            pattern = pattern_of_json(made.get("contentSchema", {}))
            return {**made, SAID: {"pattern": f"^{pattern}$"}}

        def dict_schema(self, schema: Any) -> Any:
            made = super().dict_schema(schema)
            names = _KEYS.get(schema.get("keys_schema", {}).get("type"))
            if names and "propertyNames" not in made and "patternProperties" not in made:
                made["propertyNames"] = {SAID: names}
            return made

        def timedelta_schema(self, schema: Any) -> Any:
            if self._config.ser_json_timedelta == "float":
                return {"type": "number"}
            return {"type": "string", "pattern": f"^-?P(?:{_DAYS}(?:{_HOURS})?|{_HOURS})$"}

    return Generator


_KEYS: dict[Any, dict[str, Any]] = {  # of dict[int, X]: what keys may be is not in pydantic's schema
    "int": {"pattern": "^-?(?:0|[1-9][0-9]{0,17})$"},
    "float": {"pattern": f"^{NUMBER}$"},
    "decimal": {"pattern": f"^{NUMBER}$"},
    "bool": {"enum": ["true", "false"]},
}


def _url(schema: Any) -> Any:
    return {"pattern": f"^{url(schema.get('allowed_schemes'))}$"}


def _decimal(made: Any, schema: Any) -> Any:
    """Describe a Decimal: a number, or a text of one; both with the digits that it may have."""
    digits, places = schema.get("max_digits"), schema.get("decimal_places")
    whole = 19 if digits is None else min(19, digits - (places or 0))
    number = {
        "type": "number",
        **next((part for part in made.get("anyOf", ()) if part.get("type") == "number"), {}),
    }
    text: dict[str, Any] = {"type": "string", "format": "decimal"}
    part = "" if places == 0 else f"(?:\\.[0-9]{{1,{17 if places is None else min(17, places)}}})?"
    text[SAID] = {"pattern": f"^-?(?:0|[1-9][0-9]{{0,{whole - 1}}}){part}$" if whole > 0 else f"^-?0{part}$"}
    if places is not None and places <= 6:
        number["multipleOf"] = 1 if places == 0 else float(f"1e-{places}")
    if digits is not None and digits <= 15:
        number.setdefault("maximum", 10**whole - (1 if places == 0 else 10.0 ** -min(places or 1, 6)))
        number.setdefault("minimum", -number["maximum"])
    if {"ge", "gt", "le", "lt", "multiple_of"} & set(schema):  # of the number only
        return {"anyOf": [number, text], SAID: {"anyOf": [number]}}
    return {"anyOf": [number, text]}


def _zone(schema: Any) -> str:
    return {"naive": "", "aware": _OFFSET}.get(schema.get("tz_constraint"), f"{_OFFSET}?")
