"""What a pydantic type reads and writes, as a JSON schema. Imports pydantic."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from llama_magic.errors import SchemaError
from llama_magic.structured.schema import bounded
from llama_magic.structured.schema.json_text import pattern_of_json
from llama_magic.structured.schema.members import check_members
from llama_magic.structured.schema.written import DAY, NUMBER, SAID, url

_OFFSET = r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_SECONDS = r"[0-9]{1,5}(?:\.[0-9]{1,6})?S"
_HOURS = rf"T(?:[0-9]{{1,5}}H(?:[0-9]{{1,5}}M)?(?:{_SECONDS})?|[0-9]{{1,5}}M(?:{_SECONDS})?|{_SECONDS})"
_DAYS = r"(?:[0-9]{1,3}Y(?:[0-9]{1,5}D)?|[0-9]{1,5}D)"
_DAY = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"


class Generator(GenerateJsonSchema):
    """Writes down what Python's types really read and write.

    Models without `extra="allow"` are closed: a field that the type drops need not be written.
    A naive datetime has no offset, which JSON schema's `date-time` demands.
    """

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

    def enum_schema(self, schema: Any) -> Any:
        check_members(schema, schema["members"], schema["cls"].__name__)
        return super().enum_schema(schema)

    def literal_schema(self, schema: Any) -> Any:
        check_members(schema, schema["expected"], "Literal")
        return super().literal_schema(schema)

    def is_subclass_schema(self, schema: Any) -> Any:
        raise SchemaError(
            f"type[{schema['cls'].__name__}] is a class, which no answer can be.",
            remedy="Ask for its name: a Literal of names, or str.",
        )

    def model_field_schema(self, schema: Any) -> Any:
        self._check_alias(schema)
        return super().model_field_schema(schema)

    def typed_dict_field_schema(self, schema: Any) -> Any:
        self._check_alias(schema)
        return super().typed_dict_field_schema(schema)

    def dataclass_field_schema(self, schema: Any) -> Any:
        self._check_alias(schema)
        return super().dataclass_field_schema(schema)

    def _check_alias(self, schema: Any) -> None:
        """Refuse a field that is only read from a path, of which pydantic's schema says nothing."""
        alias = schema.get("validation_alias")
        if not isinstance(alias, list) or not alias:
            return
        by_name = self._config.validate_by_name or self._config.populate_by_name
        paths = alias if isinstance(alias[0], list) else [alias]
        if not by_name and all(len(path) > 1 for path in paths):
            raise SchemaError(
                f"A field is read from the path {' / '.join(map(str, paths[0]))} (AliasPath), and a JSON "
                "schema has one name for a field.",
                remedy="Nest a class of its own, or allow the field's name: "
                "model_config = ConfigDict(validate_by_name=True).",
            )

    def date_schema(self, schema: Any) -> Any:
        return {**super().date_schema(schema), **_said(bounded.day(schema))}

    def datetime_schema(self, schema: Any) -> Any:
        end = f"T{_CLOCK}{_zone(schema)}$"
        said = bounded.moment(schema) or f"{DAY}T{_CLOCK}{_zone(schema)}"
        return {"type": "string", "pattern": f"^{_DAY}{end}", **_said(said)}

    def time_schema(self, schema: Any) -> Any:
        pattern = f"^{_CLOCK}{_zone(schema)}$"
        return {"type": "string", "pattern": pattern, **_said(bounded.clock(schema))}

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
        pattern = f"P(?:{_DAYS}(?:{_HOURS})?|{_HOURS})"
        said = bounded.stretch(schema, pattern)
        read = pattern if said is None else f"(?:{pattern}|PT[0-9]{{1,14}}S)"
        return {"type": "string", "pattern": f"^-?{read}$", **_said(said)}


_KEYS: dict[Any, dict[str, Any]] = {  # of dict[int, X]: what keys may be is not in pydantic's schema
    "int": {"pattern": "^-?(?:0|[1-9][0-9]{0,17})$"},
    "float": {"pattern": f"^{NUMBER}$"},
    "decimal": {"pattern": f"^{NUMBER}$"},
    "bool": {"enum": ["true", "false"]},
}


def _said(pattern: str | None) -> dict[str, Any]:
    """What is written, where a bound says more than the pattern of what is read."""
    return {} if pattern is None else {SAID: {"pattern": f"^{pattern}$"}}


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
