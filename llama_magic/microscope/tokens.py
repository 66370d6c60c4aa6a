"""The token strip: a text as the model sees it, piece by piece."""

from __future__ import annotations

import codecs
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.request.fixed import Fixed
from llama_magic.request.tokenizer import TooManyTokensError, attribute_tokens
from llama_magic.words.shown import Printed, Shown
from llama_magic.words.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llama_magic.formatters import Rendered
    from llama_magic.request.tokenizer import Tokenizer


_MOST = 1_000_000  # tokens of a strip: more of them would fill the memory
_CHARACTERS = 4 * _MOST  # of its text: what is longer is not even tokenized

_WRITTEN_OUT = "llama_magic.bytes"  # our name among Python's ways to take bytes that are no text


def _written_out(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"<0x{byte:02X}>" for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_WRITTEN_OUT, _written_out)


@dataclass(frozen=True)
class TokenPiece:
    """One token: `bytes` are exact; `text` shows those that are no whole character as `<0xE2>`.

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
    """The tokens of a text, in order. `count` is their number, `pieces` are their texts."""

    text: str
    tokens: tuple[TokenPiece, ...]

    @property
    def count(self) -> int:
        return len(self.tokens)

    @property
    def ids(self) -> Fixed[int]:
        return Fixed(piece.id for piece in self.tokens)

    @property
    def pieces(self) -> Fixed[str]:
        return Fixed(piece.text for piece in self.tokens)

    def __str__(self) -> str:
        return "|".join(piece.text for piece in self.tokens)

    def to_pandas(self) -> Any:
        """Return one row a token: id, text, bytes, special, role."""
        import pandas

        return pandas.DataFrame([asdict(piece) for piece in self.tokens])


@dataclass(frozen=True)
class TokenStrips(Printed, Mapping[str, TokenStrip]):
    """The tokens of several texts, side by side: a mapping of their names to their strips."""

    names: tuple[str, ...]
    strips: tuple[TokenStrip, ...]

    def __getitem__(self, name: str) -> TokenStrip:
        return dict(zip(self.names, self.strips, strict=True))[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def table(self) -> Table:
        """Return a row a text: its tokens, its characters, and what one of these takes of those."""
        rows = (
            (name, strip.count, size := len(strip.text), f"{strip.count / size:.2f}" if size else None)
            for name, strip in self.items()
        )
        return Table(("text", "tokens", "characters", "tokens a character"), tuple(rows))

    def to_pandas(self) -> Any:
        """Return one row a text: its name, tokens and characters."""
        import pandas

        rows = [(name, strip.count, len(strip.text)) for name, strip in self.items()]
        return pandas.DataFrame(rows, columns=["text", "tokens", "characters"])


def check_length(*texts: str) -> None:
    """Refuse texts that are too long for a strip before any work is done on them."""
    if (length := sum(map(len, texts))) > _CHARACTERS:
        raise OptionError(
            f"The text has {length:,} characters; a strip holds those of {_CHARACTERS:,} at most.",
            remedy="Look at a part of it; model.count_tokens counts all of it.",
        )


def named_texts(texts: Any) -> Mapping[str, Any]:
    """Return several texts by their names (of a list, `text 1` and so on); refuse what is no such thing."""
    if isinstance(texts, Mapping) and all(isinstance(name, str) for name in texts):
        return texts
    if isinstance(texts, (str, Mapping)) or not isinstance(texts, Iterable):
        raise InputTypeError(
            f"Several texts are a dict of names to them, or a list; this is a {type(texts).__name__}"
            + (" whose names are no texts." if isinstance(texts, Mapping) else "."),
            remedy="model.token_strip(text) takes one.",
        )
    return {f"text {place}": text for place, text in enumerate(texts, 1)}


def token_strip(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> TokenStrip:
    """Return the strip of `ids`, the tokens of `text`."""
    if len(ids) > _MOST:
        raise _too_many()
    return TokenStrip(text, _pieces(tokenizer, ids))


def conversation_strip(tokenizer: Tokenizer, rendered: Rendered) -> TokenStrip:
    """Return the strip of a rendered conversation, each token with the role whose words it belongs to."""
    try:
        ids = tokenizer.encode_parts([(part.text, part.literal) for part in rendered.parts], _MOST)
    except TooManyTokensError:
        raise _too_many() from None
    counts = attribute_tokens(tokenizer, ids, [part.text for part in rendered.parts])
    roles = [part.kind for part, count in zip(rendered.parts, counts, strict=True) for _ in range(count)]
    return TokenStrip(rendered.text, _pieces(tokenizer, ids, roles))


def _too_many() -> OptionError:
    return OptionError(
        f"The text has more than {_MOST:,} tokens, which is the most that a strip holds.",
        remedy="Look at a part of it; model.count_tokens counts all of it.",
    )


def _pieces(tokenizer: Tokenizer, ids: Sequence[int], roles: Sequence[str] = ()) -> tuple[TokenPiece, ...]:
    special = tokenizer.control_ids

    @functools.cache  # a long text has few different tokens
    def piece(token: int, role: str) -> TokenPiece:
        text, data = piece_text(tokenizer, token), tokenizer.piece(token)
        return TokenPiece(token, text, data, token in special, role)

    return tuple(map(piece, ids, roles or itertools.repeat("")))


def piece_text(tokenizer: Tokenizer, token: int) -> str:
    """Return the text of a token; bytes that are no whole character as `<0xE2>`."""
    return tokenizer.piece(token).decode("utf-8", _WRITTEN_OUT)


def named(tokens: Iterable[tuple[str, bytes]]) -> list[str]:
    """Return what to call tokens of a text, by their texts and bytes; parts of one character: `🦕 2/3`.

    One without bytes, as a control token, is part of nothing.
    """
    names: list[str] = []
    start, data = 0, b""
    for i, (name, piece) in enumerate(tokens):
        names.append(name)
        data += piece
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            if piece and error.reason == "unexpected end of data":
                continue
            start, data = i + 1, b""  # bytes that are no text: shown as they are
            continue
        if i > start:
            names[start:] = [f"{text}\u00a0{n}/{i + 1 - start}" for n in range(1, i + 2 - start)]
        start, data = i + 1, b""
    return names
