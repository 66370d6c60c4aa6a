"""A bias names its token by id or by text: which token a text is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llama_magic.errors import OptionError
from llama_magic.request.tokenizer import Tokenizer
from llama_magic.words.given import items_of


def by_id(bias: Any, tokenizer: Tokenizer) -> Any:
    """Return `logit_bias` with the token's id in place of each text; what is malformed stays as it is.

    Raises `OptionError` for a text that is not exactly one token, or that holds nothing but digits.
    """
    pairs = bias.items() if isinstance(bias, Mapping) else bias
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        return bias
    return tuple(
        (token_of(_no_number(pair[0]), tokenizer), pair[1])
        if isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str)
        else pair
        for pair in items_of("The pairs of logit_bias", pairs)
    )


def _no_number(text: str) -> str:
    if text.isdecimal():  # other APIs write ids so
        raise OptionError(
            f"logit_bias names {text!r}, which may be an id or a text; expected a number for an id.",
            remedy=f"Write {{{text}: …}} for the token of that id; model.tokenize({text!r}) has the text's.",
        )
    return text


def token_of(text: str, tokenizer: Tokenizer) -> int:
    """Return the one token that a text is. Raises `OptionError`, with the pieces, where it is several."""
    tokens = _within(text, tokenizer)
    pieces = [tokenizer.piece(token) for token in tokens]
    if len(tokens) == 1 and pieces[0] == text.encode("utf-8", "replace"):
        return tokens[0]
    shown = [
        f"{piece.decode('utf-8', 'replace')!r} ({token})" for piece, token in zip(pieces, tokens, strict=True)
    ]
    known = f"{len(tokens)} tokens of this model: {', '.join(shown)}" if len(tokens) > 1 else "no token here"
    raise OptionError(
        f"logit_bias names the text {text!r}, which is {known}.",
        remedy="A bias is for one token: name it by its text, blank in front included, or by its id.",
    )


def _within(text: str, tokenizer: Tokenizer) -> list[int]:
    """Return the tokens of a text as they stand within an answer."""
    # SPM vocabularies put a blank before a text that begins; after a line break they do not.
    lead, tokens = tokenizer.encode("\n"), tokenizer.encode("\n" + text)
    if tokens[: len(lead)] == lead:
        return tokens[len(lead) :]
    return tokenizer.encode(text)[len(tokenizer.encode("")) :]
