"""Reads the text of a tool call in the forms that models write."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from typing import Any

ToolCallParser = Callable[[str], list[dict[str, Any]]]

_XML_FUNCTION = re.compile(r"<function=([^>\s]+)>(.*?)(?:</function>|\Z)", re.S)
_XML_PARAMETER = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>", re.S)
_GLM_ARG = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.S)


def call(name: str, arguments: Any, raw: str) -> dict[str, Any]:
    """Return one call; `arguments` that are JSON text are read."""
    if isinstance(arguments, str):
        with contextlib.suppress(ValueError):  # not JSON: the text itself is the argument
            arguments = json.loads(arguments)
    return {"name": name, "arguments": arguments, "raw": raw}


def _from_json(value: Any, raw: str) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return [item for entry in value for item in _from_json(entry, raw)]
    if not isinstance(value, dict):
        return []
    inner = value.get("function")
    body = inner if isinstance(inner, dict) else value
    name = body.get("name") or body.get("tool_name") or body.get("tool")
    if not isinstance(name, str):
        return []
    for key in ("arguments", "parameters", "args"):
        if key in body:
            return [call(name, body[key], raw)]
    return [call(name, {}, raw)]


def _json_values(text: str) -> list[Any]:
    """Return the JSON objects and arrays that stand one after another in `text`."""
    decoder, at = json.JSONDecoder(), 0
    values: list[Any] = []
    while True:
        start = re.compile(r"[\[{]").search(text, at)
        if start is None:
            return values
        try:
            value, at = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            return values
        values.append(value)


def parse_tool_calls(text: str) -> list[dict[str, Any]]:
    """Read JSON calls, `<function=name>` calls and `name{json}` calls; what cannot be read is kept as raw."""
    raw = text.strip()
    functions = _XML_FUNCTION.findall(raw)
    if functions:
        return [_xml_call(name, body, raw) for name, body in functions]
    named = re.match(r"([\w.:\-/]+)\s*(?:\[ARGS\])?\s*(?=\{)", raw)
    if named:
        values = _json_values(raw[named.end() :])
        if values:
            return [call(named.group(1), values[0], raw)]
    arguments = _GLM_ARG.findall(raw)
    if arguments:
        name = raw.split("<arg_key>", 1)[0].strip()
        return [call(name, {key.strip(): _value(value) for key, value in arguments}, raw)]
    calls = [item for value in _json_values(raw) for item in _from_json(value, raw)]
    return calls or [{"name": "", "arguments": None, "raw": raw}]


def _xml_call(name: str, body: str, raw: str) -> dict[str, Any]:
    parameters = _XML_PARAMETER.findall(body)
    if parameters:
        return call(name, {key: _value(value) for key, value in parameters}, raw)
    return call(name, body.strip() or {}, raw)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
