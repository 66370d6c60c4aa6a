"""The tokenize family: llama-server's, and llama_cpp.server's under `/extras`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from llama_magic.serving.fields.common import Fields, Token

SomeTokens = Annotated[list[Token], Field(max_length=2**20)]


class Tokenize(Fields):
    """A text to cut into tokens."""

    instead: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("prompt", "input", "text"), "Write content."),
        "messages": "Ask /apply-template first, and write what it answers as content; "
        "/v1/chat/completions/input_tokens counts them.",
    }
    model: str | None = None
    content: str
    add_special: bool = Field(False, description="BOS in front, where the model has one")
    parse_special: bool = Field(True, description="read the texts of special tokens as these")
    with_pieces: bool = Field(
        False, description="tell each token's text, as bytes where it is no whole UTF-8"
    )


class Detokenize(Fields):
    """Tokens to join."""

    model: str | None = None
    tokens: SomeTokens


class ExtraInput(Fields):
    """A text, as a prompt: BOS in front, special tokens read."""

    model: str | None = None
    input: str
