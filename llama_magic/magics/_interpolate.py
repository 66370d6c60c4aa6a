"""Fill `{{ expression }}` in a cell's body from the user's namespace, once.

What stands between `{{` and its `}}` is a Jinja expression, run in Jinja's sandbox; its value
becomes text by `str()`. A value is never read again, so braces inside it stay as they are.
Single braces, `{%`, `{#`, code and JSON are not touched, and neither is `}}` alone nor an
empty `{{}}`. A `{{` that is never closed, or that holds no expression, is an error rather than
text that quietly reaches the model; `--raw` switches all of this off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_magic.errors import TemplateError
from llama_magic.request.filled import Filled, Span

_RAW = "Add --raw to the %%llama line to leave every {{ }} as it stands, or write {{ '{{' }} for two braces."


def interpolate(body: str, namespace: Mapping[str, Any]) -> Filled:
    """Return the filled text, which knows where each value stands: `(expression, start, end)`."""
    pieces: list[str] = []
    spans: list[Span] = []
    length = at = 0
    while (open_ := body.find("{{", at)) >= 0:
        close = _closing(body, open_)
        source = body[open_ + 2 : close].strip()
        pieces.append(body[at:open_])
        length += open_ - at
        value = _evaluate(source, namespace, body, open_) if source else body[open_ : close + 2]
        if source:
            spans.append((source, length, length + len(value)))
        pieces.append(value)
        length += len(value)
        at = close + 2
    pieces.append(body[at:])
    return Filled("".join(pieces), spans)


def _schema(spec: Any) -> str:
    """`{{ schema(X) }}`: the JSON schema of a class, type or short form, for the model to read."""
    from llama_magic import structured  # pydantic and jsonschema, which other cells need not wait for

    return structured.schema_text(structured.compile(spec).schema)


def _closing(body: str, open_: int) -> int:
    """Return where the `}}` of this `{{` stands; quotes and inner brackets are stepped over."""
    depth, at = 0, open_ + 2
    while at < len(body):
        char = body[at]
        if char in "\"'":
            at = _string_end(body, at)
            continue
        if char in "([{":
            depth += 1
        elif char == "}" and depth == 0 and body.startswith("}}", at):
            return at
        elif char in ")]}":
            depth -= 1
        at += 1
    # An apostrophe ({{ don't }}) hides the close; then the expression's own error says more.
    plain = body.find("}}", open_)
    if plain >= 0:
        return plain
    raise TemplateError(
        f"The {{{{ on line {_line(body, open_)} of the body is never closed by }}}}.", remedy=_RAW
    )


def _string_end(body: str, at: int) -> int:
    quote, at = body[at], at + 1
    while at < len(body) and body[at] != quote:
        at += 2 if body[at] == "\\" else 1
    return at + 1


def _line(body: str, at: int) -> int:
    return body.count("\n", 0, at) + 1


def _evaluate(source: str, namespace: Mapping[str, Any], body: str, at: int) -> str:
    from jinja2 import StrictUndefined, Undefined
    from jinja2.exceptions import SecurityError, TemplateSyntaxError, UndefinedError
    from jinja2.sandbox import SandboxedEnvironment

    where = f"{{{{ {source} }}}} on line {_line(body, at)} of the body"
    environment = SandboxedEnvironment(undefined=StrictUndefined)
    # Jinja's own lipsum, cycler and the like would hide a missing name.
    environment.globals = {name: environment.globals[name] for name in ("range", "dict")}
    environment.globals["schema"] = _schema
    try:
        expression = environment.compile_expression(source, undefined_to_none=False)
        value = expression(dict(namespace))
        if isinstance(value, Undefined):
            value._fail_with_undefined_error()
        return str(value)
    except TemplateSyntaxError as error:
        raise TemplateError(f"{where} is not an expression: {error.message}.", remedy=_RAW) from None
    except UndefinedError as error:
        raise TemplateError(
            f"{where} cannot be filled: {error.message}.", remedy="Define it in an earlier cell. " + _RAW
        ) from None
    except SecurityError as error:
        raise TemplateError(
            f"{where} is not allowed: {error}.", remedy="Compute the value in a Python cell and name it here."
        ) from None
    except Exception as error:
        raise TemplateError(f"{where} failed: {type(error).__name__}: {error}") from error
