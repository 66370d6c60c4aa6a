"""Messages of a conversation, typed: texts now, images where a source of tokens takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

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
