"""Reads tool calls: from the text of an answer, in the forms that models write, and from a message."""

from __future__ import annotations

import ast
import contextlib
import json
import re
from collections.abc import Mapping
from typing import Any

_XML_FUNCTION = re.compile(r"<function=([^>\s]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_XML_PARAMETER = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_INVOKE = re.compile(r'<invoke name="([^"]+)">(.*?)(?:</invoke>|\Z)', re.DOTALL)
_INVOKE_PARAMETER = re.compile(r'<parameter name="([^"]+)"[^>]*>(.*?)</parameter>', re.DOTALL)
_DEEPSEEK = re.compile(r"<｜tool▁call▁begin｜>(.*?)(?:<｜tool▁call▁end｜>|\Z)", re.DOTALL)
_KIMI = re.compile(
    r"<\|tool_call_begin\|>\s*(?:functions\.)?([\w.\-]+?)(?::\d+)?\s*<\|tool_call_argument_begin\|>(.*?)"
    r"(?:<\|tool_call_end\|>|\Z)",
    re.DOTALL,
)
_GLM_ARG = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)


def calls_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a message's tool calls as `{"name", "arguments"}` with arguments as an object."""
    calls = []
    for item in message.get("tool_calls") or []:
        body = item.get("function", item)
        arguments = body.get("arguments", {})
        if isinstance(arguments, str):
            with contextlib.suppress(ValueError):  # not JSON: the text itself is the argument
                arguments = json.loads(arguments)
        calls.append({"name": body.get("name", ""), "arguments": arguments})
    return calls


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
    """Read calls in any of the known forms; what cannot be read is kept as raw.

    JSON (Hermes, Qwen, Mistral, Granite, Cohere), `<function=name>` (Qwen3 Coder), `name{json}`
    (Mistral, Functionary), `<arg_key>` (GLM), `<invoke name=…>` (MiniMax), `[name(key=value)]` (LFM2),
    the marks of DeepSeek and Kimi, and headers with `to=name` (gpt-oss, Muse).
    """
    raw = text.strip()
    for form in (_addressed, _deepseek, _kimi, _invoked, _python):
        calls = form(raw)
        if calls:
            return calls
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


def _addressed(raw: str) -> list[dict[str, Any]]:
    header, mark, body = raw.partition("<|message|>")
    name = re.search(r"to=(?:functions\.)?([\w.\-]+)", header)
    return [call(name.group(1), body.strip(), raw)] if mark and name else []


def _deepseek(raw: str) -> list[dict[str, Any]]:
    calls = []
    for body in _DEEPSEEK.findall(raw):  # V3, R1: type, name, fenced JSON; V3.1: name, JSON
        head, _, rest = body.partition("<｜tool▁sep｜>")
        fenced = re.match(r"(\S+)\s*```(?:json)?\s*(.*?)\s*```", rest, re.DOTALL)
        name, arguments = fenced.groups() if fenced else (head.strip(), rest.strip())
        calls.append(call(name, arguments, raw))
    return calls


def _kimi(raw: str) -> list[dict[str, Any]]:
    return [call(name, arguments.strip(), raw) for name, arguments in _KIMI.findall(raw)]


def _invoked(raw: str) -> list[dict[str, Any]]:
    return [
        call(name, {key: _value(value) for key, value in _INVOKE_PARAMETER.findall(body)}, raw)
        for name, body in _INVOKE.findall(raw)
    ]


def _python(raw: str) -> list[dict[str, Any]]:
    if not re.match(r"\[\s*[A-Za-z_][\w.]*\(", raw):
        return []
    try:
        tree = ast.parse(raw, mode="eval").body
        return [
            call(ast.unparse(item.func), {str(k.arg): ast.literal_eval(k.value) for k in item.keywords}, raw)
            for item in (tree.elts if isinstance(tree, ast.List) else [])
            if isinstance(item, ast.Call)
        ]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # not Python after all


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
