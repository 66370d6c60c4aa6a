"""Checks messages, and repairs conversations that a family cannot write as they are."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llama_magic.errors import InputTypeError, OptionError

from ._plain import plain_data
from ._types import Message

_ROLE = re.compile(r"[A-Za-z][\w-]{0,39}")  # templates write roles as they are: none may hold a mark
_FORM = 'Write messages as a list of dicts: [{"role": "user", "content": "Hello"}].'
_PLAIN_ROLES = ("user", "assistant", "system")
REASONING = ("reasoning_content", "thinking", "reasoning")


def normalise_messages(messages: Any) -> list[Message]:
    """Return `messages` as new dicts with a role and a content that is a string.

    Taken are dicts, pydantic models and other objects with `.role` and `.content`; a content that
    is a list of text parts is joined. Fields that are None are left out. Raises InputTypeError for
    a wrong type and OptionError for a wrong value, both with the index of the message.
    """
    return without_parts(normalise_with_parts(messages))


def normalise_with_parts(messages: Any) -> list[Message]:
    """Like `normalise_messages`, the parts of a content kept beside it under the name `PARTS`."""
    if isinstance(messages, (str, bytes)):
        raise InputTypeError(
            f"messages is a {type(messages).__name__}, not a list of messages.", remedy=_FORM
        )
    if isinstance(messages, Mapping) or not isinstance(messages, Sequence):
        raise InputTypeError(
            f"messages is of type {type(messages).__name__}, not a list of messages.", remedy=_FORM
        )
    if not messages:
        raise OptionError("messages is empty.", remedy=_FORM)
    return [_one(index, message) for index, message in enumerate(messages)]


def _one(index: int, message: Any) -> Message:
    if type(message) is dict and len(message) == 2:  # nearly all, in a conversation of hundreds of messages
        role, content = message.get("role"), message.get("content")
        if type(role) is type(content) is str and role in _PLAIN_ROLES:
            return {"role": role, "content": content}
    where = f"messages[{index}]"
    fields = _fields(where, message)
    role = fields.get("role")
    if isinstance(role, enum.Enum):
        role = role.value
    if role is None:
        raise OptionError(f"{where} has no role.", remedy=_FORM)
    if not isinstance(role, str):
        raise InputTypeError(f"{where} has a role of type {type(role).__name__}, not a string.", remedy=_FORM)
    if not role.strip():
        raise OptionError(
            f"{where} has an empty role.", remedy='Use "system", "user", "assistant" or "tool".'
        )
    plain = {key: plain_data(value, f"{where}.{key}") for key, value in fields.items() if value is not None}
    if not _ROLE.fullmatch(role):
        raise OptionError(
            f"{where} has the role {role[:40]!r}; a role is a short name of letters, digits, - and _.",
            remedy='Use "system", "user", "assistant" or "tool".',
        )
    plain["role"] = str(role)
    if plain.get("content") is None:
        if not plain.get("tool_calls"):
            found = "content None" if "content" in fields else "no content"
            raise OptionError(
                f"{where} (role {role!r}) has {found}.",
                remedy="Give it a text; only an assistant message with tool_calls may go without.",
            )
        plain["content"] = ""
    plain["content"] = _text(where, plain["content"], plain)
    reasoning = next((plain[key] for key in REASONING if plain.get(key)), None)
    if reasoning is not None:
        # Templates read it under either name; transformers fills both in the same way.
        plain.setdefault("thinking", reasoning)
        plain["reasoning_content"] = reasoning
    return plain


def _fields(where: str, message: Any) -> dict[str, Any]:
    if isinstance(message, Mapping):
        fields = dict(message)
        if any(not isinstance(key, str) for key in fields):
            raise InputTypeError(f"{where} has keys that are not strings.", remedy=_FORM)
        return fields
    if hasattr(message, "role") and hasattr(message, "content"):
        fields = {"role": message.role, "content": message.content}
        for name in ("tool_calls", "tool_call_id", "name", *REASONING):
            value = getattr(message, name, None)
            if value is not None and not callable(value):
                fields[name] = value
        return fields
    raise InputTypeError(
        f"{where} is of type {type(message).__name__}, neither a dict nor an object with role and content.",
        remedy=_FORM,
    )


PARTS = "_parts"  # the texts of a content that was given in parts, beside the content that joins them


def _text(where: str, content: Any, message: Message) -> str:
    message.pop(PARTS, None)
    if not isinstance(calls := message.get("tool_calls", []), list):
        raise InputTypeError(f"{where} has tool_calls of type {type(calls).__name__}; expected a list.")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InputTypeError(
            f"{where} has a content of type {type(content).__name__}, not a string.", remedy=_FORM
        )
    texts = []
    for place, part in enumerate(content):
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and part.get("type", "text") in ("text", "input_text", "output_text"):
            if not isinstance(part.get("text"), str):
                raise InputTypeError(f"{where}.content[{place}] has no text.", remedy=_FORM)
            texts.append(part["text"])
        else:
            kind = part.get("type") if isinstance(part, dict) else type(part).__name__
            raise InputTypeError(
                f"{where}.content[{place}] is of type {kind!r}; only text parts are taken.",
                remedy='Write parts as {"type": "text", "text": "…"}; images and sound are not supported.',
            )
    message[PARTS] = texts
    return "".join(texts)


def merge_text(first: Message, second: Message) -> Message:
    """Join two messages into one, a line break between their texts."""
    texts = [str(first.get("content", "")), str(second.get("content", ""))]
    joined = {**second, **first, "content": "\n".join(text for text in texts if text)}
    joined.pop(PARTS, None)
    return joined


def none_for_calls(messages: list[Message]) -> list[Message]:
    """Return the messages with content None where there are only tool calls (DeepSeek asks for that)."""
    return [{**m, "content": None} if m.get("tool_calls") and not m["content"] else m for m in messages]


def arguments_as_objects(messages: list[Message]) -> list[Message]:
    """Return the messages with tool arguments as objects where they are JSON text."""
    return _with_arguments(messages, lambda given: json.loads(given) if isinstance(given, str) else given)


def arguments_as_text(messages: list[Message]) -> list[Message]:
    """Return the messages with tool arguments as JSON text where they are objects."""
    return _with_arguments(
        messages, lambda given: json.dumps(given, ensure_ascii=False) if isinstance(given, dict) else given
    )


def _with_arguments(messages: list[Message], change: Callable[[Any], Any]) -> list[Message]:
    def changed(item: Any) -> Any:
        body = item.get("function") if isinstance(item, dict) else None
        if not isinstance(body, dict) or "arguments" not in body:
            return item
        try:
            return {**item, "function": {**body, "arguments": change(body["arguments"])}}
        except ValueError:  # what is no JSON is left as it is
            return item

    return [
        {**m, "tool_calls": [changed(item) for item in m["tool_calls"]]} if m.get("tool_calls") else m
        for m in messages
    ]


def typed(messages: list[Message]) -> list[Message]:
    """Return messages whose content is a list of text parts, as some templates want it."""
    return [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in messages]


def in_parts(messages: list[Message]) -> list[Message]:
    """Return messages with the parts in which their contents were given, as `transformers` renders them."""
    return [
        {**m, "content": [{"type": "text", "text": text} for text in m[PARTS]]} if m.get(PARTS) else m
        for m in messages
    ]


def without_parts(messages: list[Message]) -> list[Message]:
    """Return messages without what stands beside their contents: no template sees it."""
    return [{k: v for k, v in m.items() if k != PARTS} if PARTS in m else m for m in messages]


def developer_to_system(messages: list[Message]) -> list[Message]:
    """Return the messages with the role developer called system."""
    return [{**m, "role": "system"} if m["role"] == "developer" else m for m in messages]


def _other_to_user(messages: list[Message], roles: frozenset[str]) -> list[Message]:
    """Turn messages of `roles` into user text, each merged with the user turn beside it."""
    out: list[Message] = []
    converted = False  # the last of `out` ends with converted text
    for message in messages:
        is_other = message["role"] in roles
        current = {"role": "user", "content": message["content"]} if is_other else message
        beside = bool(out) and out[-1]["role"] == "user" and current["role"] == "user"
        if beside and (is_other or converted):
            out[-1] = merge_text(out[-1], current)
        else:
            out.append(current)
        converted = is_other
    return out


def system_to_user(messages: list[Message]) -> list[Message]:
    """Put system text before the first user text, one line break between, as llama.cpp does."""
    return _other_to_user(messages, frozenset({"system", "developer"}))


def later_system_to_user(messages: list[Message]) -> list[Message]:
    """Keep a leading system message (several become one); turn later ones into user text."""
    head: list[Message] = []
    rest = list(messages)
    while rest and rest[0]["role"] == "system":
        head = [merge_text(head[0], rest[0])] if head else [rest[0]]
        rest = rest[1:]
    return head + system_to_user(rest)


def tool_to_user(messages: list[Message]) -> list[Message]:
    """Turn tool results into user text."""
    return _other_to_user(messages, frozenset({"tool", "function", "ipython"}))


def merge_neighbours(messages: list[Message]) -> list[Message]:
    """Merge neighbours of one role, a line break between; not tool results and tool calls."""
    out: list[Message] = []
    for message in messages:
        alike = bool(out) and out[-1]["role"] == message["role"] != "tool"
        if alike and not out[-1].get("tool_calls") and not message.get("tool_calls"):
            out[-1] = merge_text(out[-1], message)
        else:
            out.append(message)
    return out


def user_first(messages: list[Message]) -> list[Message]:
    """Put an empty user turn before a conversation that the assistant begins."""
    place = 0
    while place < len(messages) and messages[place]["role"] == "system":
        place += 1
    if place < len(messages) and messages[place]["role"] == "assistant":
        return [*messages[:place], {"role": "user", "content": ""}, *messages[place:]]
    return messages


NOTES: dict[Callable[[list[Message]], list[Message]], str] = {
    developer_to_system: "the developer message is written as a system message",
    system_to_user: "there is no place for a system message; its text stands before the user's",
    later_system_to_user: "only one system message is taken, at the start; later ones stand in user turns",
    tool_to_user: "there is no tool turn; the tool's result is written as a user turn",
    merge_neighbours: "turns of one role in a row were merged, a line break between, as turns must alternate",
    user_first: "an empty user turn was put before the assistant's first, as the user must begin",
}
