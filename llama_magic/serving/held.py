"""What an answer is held to: a response's format, a schema, a grammar, an expression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llama_magic.errors import SchemaError
from llama_magic.serving.asking import naming
from llama_magic.serving.fields.chat import ChatCompletion, ObjectFormat, SchemaFormat
from llama_magic.serving.fields.responses import FlatSchema, PlainObject, TextConfig
from llama_magic.serving.refusals import Refusal

if TYPE_CHECKING:
    from llama_magic.model.model import Model
    from llama_magic.serving.fields.common import StructuredOutputs
    from llama_magic.serving.fields.completions import Completion, NativeCompletion
    from llama_magic.structured import Constraint

_FIELDS = ("response_format", "structured_outputs", "json_schema", "grammar", "regex")


def of_request(model: Model, asked: ChatCompletion | Completion | NativeCompletion) -> Constraint | None:
    """Return what a request holds its answers to. Raises `Refusal` where several fields say so."""
    ways = {name: value for name in _FIELDS if (value := getattr(asked, name, None)) is not None}
    if ways.get("grammar") == "":  # as clients of llama-server say that there is none
        del ways["grammar"]
    form = ways.get("response_format")
    if form is not None and form.type == "text":
        del ways["response_format"]
    if len(ways) > 1:
        names = list(ways)
        raise Refusal(
            400, f"{' and '.join(names)} stand together; an answer is held to one of them.", names[1]
        )
    for name, value in ways.items():
        if name == "response_format":
            return _of_format(model, value)
        if name == "structured_outputs":
            return _of_structured(model, value)
        if name == "json_schema":
            return constraint(model, name, schema=value)
        return constraint(model, name, **{name: value})
    return None


def _of_format(model: Model, form: Any) -> Constraint | None:
    if isinstance(form, ObjectFormat):
        schema = {"type": "object"} if form.schema_ is None else form.schema_
        return constraint(model, "response_format.schema", schema=schema)
    assert isinstance(form, SchemaFormat)
    where = "response_format.json_schema.schema"
    inner = form.json_schema
    if inner.schema_ is None:
        raise Refusal(400, "response_format.json_schema has no schema.", where)
    return constraint(model, where, schema=inner.schema_, strict=bool(inner.strict))


def _of_structured(model: Model, asked: StructuredOutputs) -> Constraint | None:
    given = {name: value for name in asked.model_fields_set if (value := getattr(asked, name)) is not None}
    if len(given) != 1:
        raise Refusal(
            400,
            f"structured_outputs holds {' and '.join(given) or 'nothing'}; expected one of json, regex, "
            "choice, grammar, json_object.",
            "structured_outputs",
        )
    ((name, value),) = given.items()
    if name == "schema_":
        return constraint(model, "structured_outputs.json", schema=value)
    where = f"structured_outputs.{name}"
    if name == "json_object":
        return constraint(model, where, schema={"type": "object"}) if value else None
    return constraint(model, where, **{"choices" if name == "choice" else name: value})


def of_text(model: Model, text: TextConfig | None) -> Constraint | None:
    """Return what the `text` of a response holds it to."""
    form = text.format if text is not None else None
    if isinstance(form, PlainObject):
        return constraint(model, "text.format", schema={"type": "object"})
    if isinstance(form, FlatSchema):
        return constraint(model, "text.format.schema", schema=form.schema_, strict=bool(form.strict))
    return None


def constraint(
    model: Model, param: str, *, schema: Any = None, strict: bool = False, **kinds: Any
) -> Constraint:
    """Compile what an answer must be: a schema, a `grammar`, a `regex`, `choices`.

    With `strict` all of a schema must hold while it is written. Raises `Refusal` that names
    the field, and the keyword that is at fault.
    """
    if kinds:
        return naming(param, lambda: model.calls.constraint(**kinds))
    made: Constraint = naming(param, lambda: _schema(model, schema))
    later = [keyword for keyword in made.checked if keyword.keyword not in ("json", "type")]
    if strict and later:
        raise Refusal(
            400,
            f"{param}: {later[0]} cannot be seen to while the answer is written. Leave it out, or leave out "
            "strict: then all else is seen to.",
            param,
        )
    return made


def _schema(model: Model, schema: Any) -> Constraint:
    if schema is False:
        raise SchemaError("No value can be valid under this schema: false.")
    return model.calls.constraint({} if schema is True else schema)
