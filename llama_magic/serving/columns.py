"""The older form of log-probabilities, in columns, as `/v1/completions` tells them."""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llama_magic.model.logprobs import TokenLogprob
    from llama_magic.request.tokenizer import Tokenizer

LEAST = -9999.0  # JSON has no infinity


def columns(tokens: Sequence[TokenLogprob], begin: int = 0) -> dict[str, list[Any]]:
    """Return the columns of tokens, the first of which begins at `begin`, in characters of the text."""
    lengths = [len(token.text) for token in tokens]
    return {
        "tokens": [token.text for token in tokens],
        "token_logprobs": [max(token.logprob, LEAST) for token in tokens],
        "top_logprobs": [_likeliest(token) for token in tokens],
        "text_offset": [begin + at for at in itertools.accumulate(lengths[:-1], initial=0)][: len(tokens)],
    }


def _likeliest(token: TokenLogprob) -> dict[str, float]:
    """Return the alternatives by text; what was drawn is always among them, as OpenAI has it.

    Of several that read alike, as parts of a character may, the likeliest stands.
    """
    shown: dict[str, float] = {}
    for _, text, value in (*token.top, (token.token_id, token.text, token.logprob)):
        shown.setdefault(text, max(value, LEAST))
    return shown


def offsets(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[int]:
    """Return where the tokens of a prompt begin in its text, and last where they end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    found, at = [0], 0
    for place, token in enumerate(tokens):
        if place or not (tokenizer.add_bos and token == tokenizer.bos_id):  # which is no part of the text
            at += len(decoder.decode(tokenizer.piece(token)))
        found.append(at)
    return found
