"""Messages of a conversation, typed: texts now, images where a source of tokens takes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict, TypeGuard

Role = Literal["system", "developer", "user", "assistant", "tool"]


class TextPart(TypedDict):
    """A text among the parts of a message."""

    type: Literal["text"]
    text: str


class ImageAddress(TypedDict):
    """Where an image is: an address, or `data:image/png;base64,…`."""

    url: str


class ImagePart(TypedDict):
    """An image among the parts of a message, in the form of OpenAI's API. No backend here takes one yet."""

    type: Literal["image_url"]
    image_url: ImageAddress


Content = str | Sequence[TextPart | ImagePart]


class Message(TypedDict):
    """One message. Other keys go to the chat template as they are."""

    role: Role
    content: NotRequired[Content | None]
    tool_calls: NotRequired[Sequence[Mapping[str, Any]]]
    tool_call_id: NotRequired[str]
    name: NotRequired[str]


# Any mapping with a role is taken at run time; the typed form is for editors.
Messages = Sequence[Message] | Sequence[Mapping[str, Any]]


def assistant_message(
    text: str, calls: Iterable[Mapping[str, Any]] = (), thinking: str = ""
) -> dict[str, Any]:
    """Return what an assistant said, with tool calls (`id`, `name`, `arguments`) in the form of OpenAI's API.

    Thinking stands beside the text: templates decide whether a later turn is told of it. A call that could
    not be read has no name; what was written of it stays in the text.
    """
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if thinking:
        message["reasoning_content"] = thinking
    made = []
    for call in calls:
        if not call["name"]:
            message["content"] += str(call["raw"])
            continue
        arguments = call["arguments"]
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        function = {"name": call["name"], "arguments": arguments}
        made.append({"id": call["id"], "type": "function", "function": function})
    return {**message, "tool_calls": made} if made else message


def is_conversation(given: object) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    """Tell whether this is a list of messages."""
    listed = isinstance(given, (list, tuple)) and bool(given)
    return listed and all(isinstance(one, Mapping) and "role" in one for one in given)  # type: ignore[attr-defined]
