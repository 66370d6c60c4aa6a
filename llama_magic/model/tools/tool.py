"""One tool: a Python function, or a description in the form of OpenAI's API, whose calls others run."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from llama_magic.errors import InputTypeError, LlamaMagicError, OptionError
from llama_magic.model.tools import docstring
from llama_magic.structured.calls import ToolSchema

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NOT_NAMES = ("none", "auto", "required")  # what tool_choice says otherwise
_FORM = (
    'Give a function, or {"type": "function", "function": {"name": …, "description": …, "parameters": …}}.'
)


@dataclass(frozen=True)
class Tool:
    """A function that a model may call. `parameters` is the JSON schema of its arguments, an object.

    Without `function` its calls are not run here: they stand in the completion's `tool_calls`.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    function: Callable[..., Any] | None = None
    _validator: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, thing: Any) -> Tool:
        """Return the tool that a function, a description or a tool is."""
        if isinstance(thing, cls):
            return thing
        if isinstance(thing, Mapping):
            return _from_description(thing)
        if callable(thing):
            return _from_function(thing)
        raise InputTypeError(f"A tool is a {type(thing).__name__}; expected a function.", remedy=_FORM)

    @property
    def description_for_api(self) -> dict[str, Any]:
        """The tool in the form of OpenAI's API, as templates and servers take it."""
        said = {"description": self.description} if self.description else {}
        return {
            "type": "function",
            "function": {"name": self.name, **said, "parameters": dict(self.parameters)},
        }

    @property
    def schema(self) -> ToolSchema:
        """What a grammar needs. Arguments that the schema does not name are not written."""
        closed = {"type": "object", "additionalProperties": False, **self.parameters}
        return ToolSchema(self.name, closed)

    def run(self, arguments: Any) -> Any:
        """Call the function with arguments as a model wrote them, checked and converted by pydantic.

        Raises pydantic's `ValidationError`, or whatever the function raises. Of an async function the
        coroutine comes back.
        """
        from pydantic_core import ArgsKwargs  # for weight

        return self._validator.validate_python(ArgsKwargs((), dict(arguments or {})))


def result_text(value: Any) -> str:
    """Return what a function gave back as a model is to read it: a text as it is, all else as JSON."""
    if isinstance(value, str):
        return value
    from pydantic_core import to_jsonable_python  # for weight

    return json.dumps(to_jsonable_python(value, fallback=str), ensure_ascii=False)


def error_text(error: BaseException) -> str:
    """Return an error as a model is to read it, in one line."""
    if isinstance(error, LlamaMagicError):
        return f"Error: {error.message}"
    words = " ".join(str(error).split())
    return f"Error: {type(error).__name__}: {words:.500}" if words else f"Error: {type(error).__name__}"


def _check_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _NOT_NAMES:
        raise OptionError(
            f"A tool is called {name!r}; expected 1 to 64 letters, digits, _, . or -, and none of "
            f"{', '.join(_NOT_NAMES)}.",
            remedy=_FORM,
        )
    return name


def _from_description(thing: Mapping[Any, Any]) -> Tool:
    if thing.get("type", "function") != "function":
        raise OptionError(f"A tool is of the type {thing.get('type')!r}; expected 'function'.", remedy=_FORM)
    body = thing.get("function", thing)
    if not isinstance(body, Mapping):
        raise InputTypeError(
            f"A tool's function is a {type(body).__name__}; expected an object.", remedy=_FORM
        )
    name = _check_name(body.get("name"))
    parameters = body.get("parameters")
    if parameters is None:
        parameters = {"type": "object", "properties": {}}
    if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
        raise OptionError(f"The parameters of the tool {name} are no schema of an object.", remedy=_FORM)
    return Tool(name, str(body.get("description") or ""), dict(parameters))


def _from_function(function: Callable[..., Any]) -> Tool:
    from pydantic import TypeAdapter  # for weight
    from pydantic.errors import PydanticUserError

    name = _check_name(getattr(function, "__name__", None) or type(function).__name__)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise OptionError(
                f"The tool {name} takes {parameter}, but a model names each argument.",
                remedy="Give it parameters with names, and an annotation each.",
            )
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(cast("Any", function))
        schema = adapter.json_schema()
    except (PydanticUserError, NameError, TypeError) as error:
        raise OptionError(
            f"The tool {name} has no schema: {' '.join(str(error).split()):.300}",
            remedy="Annotate its parameters with types that pydantic knows.",
        ) from None
    description, said = docstring.read(inspect.getdoc(function))
    properties = {
        key: _described(value, said.get(key)) for key, value in schema.get("properties", {}).items()
    }
    parameters = {**_without_titles(schema), **({"properties": properties} if properties else {})}
    return Tool(name, description, parameters, function, adapter.validator)


def _described(schema: dict[str, Any], words: str | None) -> dict[str, Any]:
    out: dict[str, Any] = _without_titles(schema)
    if words and "description" not in out:
        out["description"] = words
    return out


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out what only repeats a name: each word of a prompt counts."""
    return {key: value for key, value in schema.items() if key != "title"}
