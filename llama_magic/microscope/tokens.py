"""The token strip: a text as the model sees it, piece by piece."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from llama_magic.request.tokenizer import attribute_tokens
from llama_magic.words.shown import Shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llama_magic.formatters import Rendered
    from llama_magic.request.tokenizer import Tokenizer


@dataclass(frozen=True)
class TokenPiece:
    """One token: `bytes` are exact; `text` shows bytes that are no whole character as `<0xE2>`.

    `role` says whose words it belongs to in a conversation: system, user, assistant, tool, or
    template for what the chat template writes around them.
    """

    id: int
    text: str
    bytes: bytes
    special: bool
    role: str = ""


@dataclass(frozen=True)
class TokenStrip(Shown):
    """The tokens of a text, in order. `count` is their number."""

    text: str
    tokens: tuple[TokenPiece, ...]

    @property
    def count(self) -> int:
        return len(self.tokens)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(piece.id for piece in self.tokens)

    def __str__(self) -> str:
        return "|".join(piece.text for piece in self.tokens)

    def to_pandas(self) -> Any:
        """Return one row a token: id, text, bytes, special, role."""
        import pandas

        return pandas.DataFrame([asdict(piece) for piece in self.tokens])


def token_strip(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> TokenStrip:
    """Return the strip of `ids`, the tokens of `text`."""
    special = tokenizer.control_ids
    pieces = tuple(
        TokenPiece(token, piece_text(tokenizer, token), tokenizer.piece(token), token in special)
        for token in ids
    )
    return TokenStrip(text, pieces)


def conversation_strip(tokenizer: Tokenizer, rendered: Rendered) -> TokenStrip:
    """Return the strip of a rendered conversation, each token with the role whose words it belongs to."""
    ids = tokenizer.encode_parts((part.text, part.literal) for part in rendered.parts)
    counts = attribute_tokens(tokenizer, ids, [part.text for part in rendered.parts])
    strip = token_strip(tokenizer, rendered.text, ids)
    roles = [part.kind for part, count in zip(rendered.parts, counts, strict=True) for _ in range(count)]
    return replace(
        strip,
        tokens=tuple(replace(piece, role=role) for piece, role in zip(strip.tokens, roles, strict=True)),
    )


def piece_text(tokenizer: Tokenizer, token: int) -> str:
    """Return the text of a token; bytes that are no whole character as `<0xE2>`."""
    data = tokenizer.piece(token)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in data)
