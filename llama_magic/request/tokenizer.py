"""Text to tokens and back, as everything above a source of tokens knows it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.words.given import quoted


class TooManyTokensError(Exception):
    """A text has more tokens than were asked for: `least` or more."""

    def __init__(self, least: int) -> None:
        super().__init__(least)
        self.least = least


class Tokenizer(Protocol):
    """The tokenizer of a source of tokens. Safe to use from any thread.

    `exact`: its tokens are the model's; else they are an estimate, to count with and for no other use.
    `fingerprint` is equal for equal vocabularies. `add_bos` says that a prompt begins with `bos_id`.
    `control_texts` are the texts of the tokens that can open or close something.
    May also have `vocab_ptr` and `tokenize_fptr` (see `structured.TokenVocabulary`).
    """

    exact: bool
    n_tokens: int
    fingerprint: str
    bos_id: int | None
    add_bos: bool

    @property
    def eos_id(self) -> int: ...

    @property
    def eog_ids(self) -> Sequence[int]: ...

    @property
    def control_ids(self) -> frozenset[int]: ...

    @property
    def user_defined_ids(self) -> frozenset[int]: ...

    @property
    def control_texts(self) -> frozenset[str]: ...

    @property
    def longest(self) -> int:
        """Bytes of the longest token, 0 where a token may stand for any number of bytes."""

    def encode(self, text: str, most: int | None = None) -> list[int]:
        """Return the tokens of a prompt: special tokens parsed, BOS in front once if it is to be there.

        May raise `TooManyTokensError` once it is certain that there are more than `most`.
        """

    def encode_parts(
        self, parts: Iterable[tuple[str, bool]], most: int | None = None, *, begins: bool = True
    ) -> list[int]:
        """Return the tokens of a prompt in parts `(text, literal)`; a literal part is never control.

        `begins`: nothing stands before them; else they are the rest of a prompt from a place `apart`.
        """

    def apart(self, text: str) -> int | None:
        """Return a place in a part of a prompt, not a literal one, where both sides are tokenised alone.

        It is the same whatever stands before and after that part; None where none is known.
        """

    def at_least(self, text: str) -> int:
        """Return a number of tokens that a text has at least, found in no time; 0 where none is known."""

    def decode(self, tokens: Sequence[int], *, special: bool = True) -> str:
        """Return the text of tokens, without a BOS that `encode` adds."""

    def piece(self, token: int) -> bytes:
        """Return the bytes of one token, control tokens as they are written."""

    def text(self, token: int) -> str:
        """Return a token as the vocabulary writes it."""

    def special_id(self, text: str) -> int | None:
        """Return the id of the control or user-defined token that is written `text`, if there is one."""

    # What constrained decoding asks.

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes of a token, b"" for one without text."""

    def is_control(self, token: int) -> bool:
        """Say whether a token is control, unused or unknown: one that is no text."""

    def tokenize(self, text: str) -> list[int]:
        """Return the tokens of a text, special tokens not parsed."""


def checked_ids(tokenizer: Tokenizer, tokens: Sequence[object], what: str) -> list[int]:
    """Return tokens that a caller gives; `what` names them in errors ("The prompt").

    Raises `InputTypeError` for what is no id, and `OptionError` for one that this tokenizer has not.
    """
    for token in tokens:
        if isinstance(token, bool) or not isinstance(token, int):
            raise InputTypeError(f"{what} holds {quoted(token)}; expected a str, or the ids of tokens.")
        if not 0 <= token < tokenizer.n_tokens:
            raise no_such_token(tokenizer, f"{what} holds the token {quoted(token)}")
    return list(tokens)  # type: ignore[arg-type]  # that was looked at


def no_such_token(tokenizer: Tokenizer, found: str) -> OptionError:
    """Return the error for an id that this tokenizer has not."""
    return OptionError(f"{found}; this tokenizer has ids 0 to {tokenizer.n_tokens - 1}.")


PIECE = 1 << 16  # characters that are tokenized in one call
MEASURED = 1 << 22  # characters that are counted for a bound


def at_least(text: str, longest: int, lost: str, start: int = 0) -> int:
    """Return a number of tokens that a text has at least, by the bytes of the longest; 0 for a short text.

    Characters of `lost` may leave no byte in the tokens.
    """
    end = min(len(text), start + MEASURED)
    if end - start <= PIECE or not longest:
        return 0
    # Each character leaves a byte or more in the tokens, apart from those that may be lost.
    size = end - start - sum(text.count(char, start, end) for char in lost)
    return -(-size // longest)


LEAD = "\n"


def going_on(tokenize: Callable[[str], list[int]], text: str, lead: Sequence[int] | None = None) -> list[int]:
    """Return the tokens of a text that goes on from another, by a function for one that begins.

    SPM vocabularies put a space before a text that they think begins here. A line break in front takes that
    space, and its tokens can be cut off again: it never merges. `lead` are its tokens, where they are known.
    """
    lead = tokenize(LEAD) if lead is None else lead
    tokens = tokenize(LEAD + text)
    return tokens[len(lead) :] if tokens[: len(lead)] == lead else tokenize(text)


def length_in(text: bytes, piece: bytes, position: int) -> int | None:
    """Return the bytes of a token that stand in a text at a place, None where it does not stand there."""
    if text.startswith(piece, position):
        return len(piece)
    if piece[:1] == b" " and text.startswith(piece[1:], position):
        return len(piece) - 1  # without the space that SPM vocabularies put in front
    return None


def attribute_tokens(tokenizer: Tokenizer, tokens: Sequence[int], texts: Sequence[str]) -> list[int]:
    """Return how many of `tokens` begin in each of the stretches `texts` of the prompt.

    The counts sum to `len(tokens)`. BOS and other tokens without text count where they stand.
    """
    return followed(tokenizer, tokens, texts)[0]


def followed(tokenizer: Tokenizer, tokens: Sequence[int], texts: Sequence[str]) -> tuple[list[int], bool]:
    """Return it, and whether the tokens are the text to its end, but for a BOS and spaces put in front."""
    known = _exactly(tokenizer, tokens, texts)
    return _one_by_one(tokenizer, tokens, texts) if known is None else (known, True)


def _exactly(tokenizer: Tokenizer, tokens: Sequence[int], texts: Sequence[str]) -> list[int] | None:
    """Return it where the tokens are the text and nothing else, but for a BOS or one space in front."""
    import numpy as np  # heavy

    encoded = [text.encode("utf-8", "replace") for text in texts]
    ends = list(itertools.accumulate(map(len, encoded)))
    whole = b"".join(encoded)
    piece_of = {token: tokenizer.piece(token) for token in set(tokens)}
    pieces = [piece_of[token] for token in tokens]
    lead = int(bool(tokens) and tokens[0] == tokenizer.bos_id and not whole.startswith(pieces[0]))
    joined = b"".join(pieces[lead:])
    if not texts or joined.removesuffix(whole) not in (b"", b" "):
        return None
    starts = np.zeros(len(tokens), np.int64)
    lengths = np.fromiter(map(len, pieces), np.int64, len(tokens))
    starts[lead + 1 :] = np.cumsum(lengths[lead:-1])
    # A space in front, which is not the text's, takes no place in it.
    starts[lead:] = np.maximum(starts[lead:] + len(whole) - len(joined), 0)
    until = [*np.searchsorted(starts, ends[:-1]).tolist(), len(tokens)]
    return [b - a for a, b in itertools.pairwise((0, *until))]


def _one_by_one(tokenizer: Tokenizer, tokens: Sequence[int], texts: Sequence[str]) -> tuple[list[int], bool]:
    """Follow each token through the text, wherever it stands there."""
    ends = list(itertools.accumulate(len(text.encode("utf-8", "replace")) for text in texts))
    whole = "".join(texts).encode("utf-8", "replace")
    counts = [0] * len(texts)
    position, place, sure = 0, 0, True
    for at, token in enumerate(tokens):
        piece = tokenizer.piece(token)
        while place < len(ends) - 1 and position >= ends[place]:
            place += 1
        counts[place] += 1
        size = length_in(whole, piece, position)
        if size is not None:
            position += size
            continue
        sure = sure and at == 0 and token == tokenizer.bos_id
        if token != tokenizer.bos_id:
            position = min(len(whole), position + len(piece))
    return counts, sure and position == len(whole)
