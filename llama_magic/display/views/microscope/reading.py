"""How a text that was read through looks: shaded by surprise, the bits beside what surprised."""

from __future__ import annotations

import math
from collections.abc import Sequence

from llama_magic.display.static.doc import Grid, Head, Line, Node, Piece, Strip
from llama_magic.display.views.view import view
from llama_magic.microscope.reading import ReadThrough, ReadToken
from llama_magic.microscope.tokens import named
from llama_magic.words.counting import counted
from llama_magic.words.harmless import blanks_shown
from llama_magic.words.tables import Share, Table

_MAX_PIECES = 2000  # shown; more are counted
_SURPRISES = 10
_SAID = 4.0  # bits from which on the number stands beside the shade: one chance in sixteen


@view.register(ReadThrough)
def read_through(read: ReadThrough) -> list[Node]:
    """Show a text token by token, shaded by surprise (bits), then what surprised most."""
    tokens = read.tokens
    known = [(i, token.bits) for i, token in enumerate(tokens) if token.bits is not None]
    most = max([8.0, *(math.ceil(bits) for _, bits in known if bits < math.inf)])
    out: list[Node] = [Head("surprise", _figures(read, known))]
    if known:
        legend = (
            f"More colour is more surprising, up to {most:.0f} bits; from {_SAID:.0f} bits on a small number"
        )
        out.append(Line(f"{legend} says how many. 1 bit is one chance in 2, 10 bits one in 1,024.", dim=True))
    names = named((token.text, token.bytes) for token in tokens)
    out.append(Strip(tuple(_piece(i, names[i], t, most) for i, t in enumerate(tokens[:_MAX_PIECES]))))
    if len(tokens) > _MAX_PIECES:
        out.append(Line(f"The first {_MAX_PIECES:,} tokens are shown.", dim=True))
    if read.interrupted:
        out.append(Line("The reading was stopped here, before the end of the text.", dim=True))
    if not known:
        out.append(Line("Nothing was measured: nothing comes before the first token.", dim=True))
        return out
    return [*out, _worst(tokens, names, known)]


def _figures(read: ReadThrough, known: list[tuple[int, float]]) -> str:
    words = counted(len(read.tokens), "token")
    if not known:
        return words
    total = sum(bits for _, bits in known)
    mean = total / len(known)
    return f"{words} · {total:,.1f} bits · {mean:.2f} bits a token · perplexity {read.perplexity:,.2f}"


def _piece(place: int, name: str, token: ReadToken, most: float) -> Piece:
    if token.bits is None:
        return Piece(name, token.id, hint=f"place {place + 1}, nothing before it")
    said = f"place {place + 1}, {token.bits:.2f} bits, rank {token.rank:,}"
    note = f"{token.bits:.0f}" if token.bits >= _SAID else ""
    return Piece(name, token.id, hint=said, shade=min(0.8, 0.8 * token.bits / most), note=note)


def _worst(tokens: Sequence[ReadToken], names: Sequence[str], known: Sequence[tuple[int, float]]) -> Node:
    """Return the table of what surprised most; the likeliest token is none, however unlikely."""
    surprising = [(i, bits) for i, bits in known if (tokens[i].rank or 0) > 1]
    if not surprising:
        return Line("Nothing surprised: each token was the one that was expected.", dim=True)
    worst = sorted(surprising, key=lambda pair: -pair[1])[:_SURPRISES]
    rows = tuple(
        (i + 1, f"“{blanks_shown(names[i])}”", f"{bits:.1f}", tokens[i].rank, _expected(tokens[i]))
        for i, bits in worst
    )
    return Grid(
        Table(("place", "token", "bits", "rank", "expected instead"), rows, caption="what surprised most")
    )


def _expected(token: ReadToken) -> tuple[Share, ...]:
    others = [(text, share) for text, share in token.expected if text != token.text]
    return tuple(Share(f"“{blanks_shown(text)}”", share) for text, share in others[:2])
