"""The token strip: a text as the model sees it, piece by piece."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llama_magic.engine.vocabulary import Vocabulary


@dataclass(frozen=True)
class TokenPiece:
    """One token: `bytes` are exact; `text` shows bytes that are no whole character as `<0xE2>`."""

    id: int
    text: str
    bytes: bytes
    special: bool


@dataclass(frozen=True)
class TokenStrip:
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
        """Return one row a token: id, text, bytes, special."""
        import pandas

        return pandas.DataFrame([asdict(piece) for piece in self.tokens])


def token_strip(vocabulary: Vocabulary, text: str, ids: Sequence[int]) -> TokenStrip:
    """Return the strip of `ids`, the tokens of `text`."""
    special = vocabulary.native.control_ids
    pieces = []
    for token in ids:
        data = vocabulary.piece(token)
        try:
            shown = data.decode("utf-8")
        except UnicodeDecodeError:
            shown = "".join(f"<0x{byte:02X}>" for byte in data)
        pieces.append(TokenPiece(token, shown, data, token in special))
    return TokenStrip(text, tuple(pieces))
