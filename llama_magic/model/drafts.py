"""Where an answer was guessed ahead: which guesses came, and which did not."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from llama_magic.words.shown import Printed

Kind = Literal["drawn", "accepted", "struck"]
# By the place of a token, or of the end: whether it was guessed, and the guesses struck there.
Guesses = Mapping[int, tuple[bool, tuple[int, ...]]]


@dataclass(frozen=True)
class Drafts(Printed):
    """An answer with the guesses that were made on its way.

    `parts` are stretches of text in order: "drawn" without a guess, "accepted" guesses that came, and
    "struck" ones, which are no part of the answer. `drafted` counts the guesses, `accepted` those that came.
    `reason` says why nothing could be guessed, where that was so.
    """

    parts: tuple[tuple[str, Kind], ...]
    drafted: int = 0
    accepted: int = 0
    reason: str = ""

    @property
    def text(self) -> str:
        """The answer alone, control tokens left out."""
        return "".join(text for text, kind in self.parts if kind != "struck")

    def __repr__(self) -> str:
        return f"<Drafts: {self.accepted} of {self.drafted} guesses accepted>"


def drafts_of(tokens: Sequence[int], guesses: Guesses, piece: Callable[[int], bytes]) -> Drafts | None:
    """Return the drafts of an answer, None where nothing was guessed; `piece` gives the bytes of a token."""
    if not guesses:
        return None
    written = codecs.getincrementaldecoder("utf-8")("replace")  # a character may stand in several tokens
    told: list[tuple[str, Kind]] = []
    for place, token in enumerate((*tokens, None)):
        guessed, struck = guesses.get(place, (False, ()))
        # Struck guesses stood where the token came, so they stand before it.
        told.append((b"".join(map(piece, struck)).decode("utf-8", "replace"), "struck"))
        if token is not None:
            told.append((written.decode(piece(token)), "accepted" if guessed else "drawn"))
    told.append((written.decode(b"", final=True), "drawn"))
    groups = groupby((one for one in told if one[0]), key=lambda one: one[1])
    parts = tuple(("".join(text for text, _ in group), kind) for kind, group in groups)
    accepted = sum(guessed for guessed, _ in guesses.values())
    return Drafts(parts, accepted + sum(len(struck) for _, struck in guesses.values()), accepted)
