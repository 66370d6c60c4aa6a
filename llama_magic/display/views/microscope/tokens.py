"""How the tokens of a text look: a key each, control tokens outlined, ids below while they are few."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from llama_magic.display.static.doc import Fold, Grid, Head, Line, Node, Piece, Strip
from llama_magic.display.views.view import view
from llama_magic.microscope.tokens import TokenPiece, TokenStrip, TokenStrips, named
from llama_magic.words.counting import counted
from llama_magic.words.harmless import blanks_shown, visible
from llama_magic.words.tables import Table

_MAX_PIECES = 2000  # shown; more are counted
_FEW = 64  # tokens, each with its id below it


@view.register(TokenStrip)
def token_strip(strip: TokenStrip) -> list[Node]:
    """Show tokens side by side, and their ids in a table behind a fold."""
    shown = list(strip.tokens)[:_MAX_PIECES]
    names = named((token.text, b"" if token.special else token.bytes) for token in shown)
    special = sum(token.special for token in strip.tokens)
    details = counted(strip.count, "token") + (
        f", {counted(special, 'control token')} among them ⟦…⟧" if special else ""
    )
    out: list[Node] = [Head("tokens", details), *_strips(shown, names)]
    if strip.count > len(shown):
        out.append(Line(f"The first {len(shown):,} are shown.", dim=True))
    rows = tuple(
        (place, str(token.id), f"⟦{token.text}⟧" if token.special else blanks_shown(name), _hex(token.bytes))
        for place, (token, name) in enumerate(zip(shown, names, strict=True), 1)
    )
    table = Grid(Table(("place", "id", "text", "bytes"), rows))
    return [*out, Fold("place, id and bytes of each", (table,), brief=True)]


@view.register(TokenStrips)
def token_strips(found: TokenStrips) -> list[Node]:
    """Show what each text costs in one table, then their strips below each other; bytes are shown of one."""
    out: list[Node] = [Head("tokens", f"of {counted(len(found), 'text')}"), Grid(found.table())]
    for name, strip in found.items():
        head, *rest, _ = token_strip(strip)
        assert isinstance(head, Head)
        out += [replace(head, label=visible(name)), *rest]
    return out


def _strips(tokens: Sequence[TokenPiece], names: Sequence[str]) -> list[Node]:
    """Show tokens in one strip, or a conversation's in one for each stretch, after the name of its role."""
    out: list[Node] = []
    few = len(tokens) <= _FEW
    pairs = zip(tokens, names, strict=True)
    for role, group in itertools.groupby(pairs, key=lambda pair: pair[0].role):
        if role:
            out.append(Line(role, dim=True))
        out.append(
            Strip(
                tuple(
                    Piece(name, t.id, t.special, kind=role, below=str(t.id) if few else "")
                    for t, name in group
                )
            )
        )
    return out or [Strip(())]


def _hex(data: bytes) -> str:
    return data[:16].hex(" ") + (" …" if len(data) > 16 else "")
