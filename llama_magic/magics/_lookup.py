"""Values of options that name things: schemas and grammars of the namespace, tokens of the model."""

from __future__ import annotations

import ast
import builtins
import json
import re
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from llama_magic.errors import OptionError, SchemaError, SourceError
from llama_magic.model.bias import token_of
from llama_magic.sources import read_whole
from llama_magic.structured import short_form
from llama_magic.words.files import decoded, expanded
from llama_magic.words.names import hint

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_OF_A_TYPE = (ast.Name, ast.Attribute, ast.Subscript, ast.BinOp)


def find_schema(spec: Any, namespace: Mapping[str, Any]) -> Any:
    """Return what `--schema` means: a thing of the namespace, a type built of such, or the short form.

    `{name}` and `$name` were looked up before; what is no text is what they hold.
    """
    if not isinstance(spec, str):
        return spec
    text = spec.strip()
    if text.startswith("{"):
        try:
            return json.loads(text)
        except ValueError as error:
            raise SchemaError(f"--schema is not JSON: {error}.") from None
    if _DOTTED.fullmatch(text):
        return _dotted(text, namespace)
    if _is_type_expression(text):
        return _type_expression(text, namespace)
    return _short_form(text, namespace)


def _may_be_schema(value: Any) -> bool:
    return isinstance(value, (type, dict)) or hasattr(value, "__origin__")


def _is_type_expression(text: str) -> bool:
    """Tell `list[Person]`, `A | None` and `Literal["x", "y"]` from short forms such as `name, age int`."""
    try:
        return isinstance(ast.parse(text, mode="eval").body, _OF_A_TYPE)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _dotted(text: str, namespace: Mapping[str, Any]) -> Any:
    head, *rest = text.split(".")
    if head in namespace:
        value = namespace[head]
    elif hasattr(builtins, head) and isinstance(getattr(builtins, head), type):
        value = getattr(builtins, head)
    else:
        meant = hint(head, [name for name, value in namespace.items() if _may_be_schema(value)])
        if not meant and not rest and not head[0].isupper():
            return head  # one field: a text of that name
        raise SchemaError(
            f"There is no {head!r} in your namespace.{meant}",
            remedy='--schema takes a class, a type, a dict, or a short form such as "name, age int". '
            f'"{head} str" is one field of that name.',
        )
    for name in rest:
        if not hasattr(value, name):
            raise SchemaError(f"--schema {text}: {head} has no {name!r}.")
        value = getattr(value, name)
    return value


def _short_form(text: str, namespace: Mapping[str, Any]) -> Any:
    """Return the text, which `model.structured` reads; a type where it names classes of the namespace."""
    try:
        made = short_form(text, namespace)
    except SchemaError:
        return text  # refused there, before the first token
    return text if isinstance(made, dict) else made


def _type_expression(text: str, namespace: Mapping[str, Any]) -> Any:
    try:
        return eval(text, {**_typing_names(), **namespace})  # noqa: S307 - the user's own line, in the user's own kernel
    except Exception as error:
        raise SchemaError(
            f"--schema {text} is not a type: {error}.",
            remedy="Define the class in an earlier cell, then name it.",
        ) from None


def _typing_names() -> dict[str, Any]:
    """Return what types are written with, for those who did not import it."""
    from pydantic import Field  # weight: 0.2 s, and other cells need not wait for it

    return {name: getattr(typing, name) for name in typing.__all__} | {"Field": Field}


def find_grammar(text: str, namespace: Mapping[str, Any]) -> str:
    """Return GBNF text: the variable of that name, the `.gbnf` file, or the text itself."""
    if text.isidentifier():
        value = namespace.get(text)
        if isinstance(value, str):
            return value
        found = "there is none" if text not in namespace else f"it is a {type(value).__name__}"
        raise OptionError(
            f"--grammar {text} names a variable that holds the grammar's text, and {found}.",
            remedy='Write GBNF such as \'root ::= "yes" | "no"\', a variable that holds it, or a .gbnf file.',
        )
    if text.endswith(".gbnf"):
        path = Path(expanded(text))
        try:
            return decoded(read_whole(path, "The grammar file"))
        except UnicodeDecodeError as error:
            raise SourceError(
                f"The grammar file {path} is no text: {error}.", remedy="Save it in UTF-8."
            ) from None
    return text


def find_tools(spec: Any, namespace: Mapping[str, Any]) -> list[Any]:
    """Return the functions, or descriptions of tools, that `--tools` names; a list of them will do."""
    names = isinstance(spec, tuple) and all(isinstance(name, str) for name in spec)
    found: list[Any] = []
    for item in spec if names or isinstance(spec, list) else [spec]:
        value = item
        if names:
            if item not in namespace:
                raise OptionError(
                    f"There is no {item!r} in your namespace.{hint(item, namespace)}",
                    remedy="--tools takes names of functions: --tools f,g. Define them in an earlier cell.",
                )
            value = namespace[item]
        found += value if isinstance(value, (list, tuple)) else [value]
    return found


def find_bias(pairs: Iterable[tuple[int | str, float]], model: Any) -> tuple[tuple[int, float], ...]:
    """Return `(token id, bias)` pairs; a text must be one token."""
    return tuple(
        (token if isinstance(token, int) else token_of(token, model.backend.tokenizer), bias)
        for token, bias in pairs
    )
