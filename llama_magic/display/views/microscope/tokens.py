"""How the tokens of a text look."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from llama_magic.display.static.doc import Fold, Grid, Head, Line, Node, Piece, Strip
from llama_magic.display.views.view import view
from llama_magic.microscope.tokens import TokenPiece, TokenStrip
from llama_magic.words.counting import counted
from llama_magic.words.harmless import blanks_shown
from llama_magic.words.tables import Table

_MAX_PIECES = 2000  # shown; more are counted


@view.register(TokenStrip)
def token_strip(strip: TokenStrip) -> list[Node]:
    """Show tokens side by side, and their ids in a table behind a fold."""
    shown = list(strip.tokens)[:_MAX_PIECES]
    special = sum(token.special for token in strip.tokens)
    details = counted(strip.count, "token") + (f", {special:,} of them control tokens ⟦…⟧" if special else "")
    out: list[Node] = [Head("tokens", details), *_strips(shown)]
    if strip.count > len(shown):
        out.append(Line(f"The first {len(shown):,} are shown.", dim=True))
    rows = tuple((str(token.id), _named(token.text, token.special)) for token in shown)
    out.append(Fold("ids", (Grid(Table(("id", "text"), rows)),), brief=True))
    return out


def _strips(tokens: Sequence[TokenPiece]) -> list[Node]:
    """Show tokens in one strip, or a conversation's in one for each stretch, after the name of its role."""
    out: list[Node] = []
    for role, group in itertools.groupby(tokens, key=lambda token: token.role):
        if role:
            out.append(Line(role, dim=True))
        out.append(Strip(tuple(Piece(t.text, t.id, t.special, kind=role) for t in group)))
    return out or [Strip(())]


def _named(text: str, special: bool) -> str:
    return f"⟦{text}⟧" if special else blanks_shown(text)
