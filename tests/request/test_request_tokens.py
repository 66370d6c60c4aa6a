"""Which tokens stand in which part of a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from llama_magic.request.tokenizer import attribute_tokens


class Pieces:
    """A tokenizer of which only the pieces are asked; token 0 is BOS."""

    bos_id = 0

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = [b"<s>", *pieces]

    def piece(self, token: int) -> bytes:
        return self._pieces[token]


def stepped(tokenizer: Any, tokens: Sequence[int], texts: Sequence[str]) -> list[int]:
    """Count one token after the other, as the definition says."""
    whole = "".join(texts).encode()
    ends = [len("".join(texts[: i + 1]).encode()) for i in range(len(texts))]
    counts, position = [0] * len(texts), 0
    for token in tokens:
        piece = tokenizer.piece(token)
        counts[min(sum(position >= end for end in ends), len(texts) - 1)] += 1
        if whole.startswith(piece, position):
            position += len(piece)
        elif piece[:1] == b" " and whole.startswith(piece[1:], position):
            position += len(piece) - 1
        elif token != tokenizer.bos_id:
            position = min(len(whole), position + len(piece))
    return counts


@given(
    words=st.lists(st.text("aé \n", max_size=4), max_size=12),
    bos=st.booleans(),
    space=st.booleans(),
    cuts=st.lists(st.integers(0, 40), max_size=5),
    odd=st.booleans(),
)
@example(words=["a"], bos=False, space=True, cuts=[0], odd=False)  # the first part is empty
def test_tokens_count_where_they_begin(
    words: list[str], bos: bool, space: bool, cuts: list[int], odd: bool
) -> None:
    """However a text is cut into parts, with a BOS or a space in front, or tokens that are not its text."""
    text = "".join(words)
    pieces = [word.encode() for word in words]
    if space and pieces and text[:1] != " ":  # else either space may be the one in front
        pieces[0] = b" " + pieces[0]
    if odd and pieces:
        pieces[-1] += b"?"
    ends = sorted({min(cut, len(text)) for cut in cuts} | {len(text)})
    texts = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    tokenizer: Any = Pieces(pieces)
    tokens = [0] * bos + list(range(1, len(pieces) + 1))
    counts = attribute_tokens(tokenizer, tokens, texts)
    assert sum(counts) == len(tokens)
    assert counts == stepped(tokenizer, tokens, texts)
