"""How a text that was read through looks: shaded by surprise."""

from __future__ import annotations

from llama_magic.display.static.doc import Grid, Head, Line, Node, Piece, Strip
from llama_magic.display.views.view import view
from llama_magic.microscope.reading import ReadThrough, ReadToken
from llama_magic.words.counting import counted
from llama_magic.words.harmless import blanks_shown
from llama_magic.words.tables import Table

_MAX_PIECES = 2000  # shown; more are counted
_SURPRISES = 10


@view.register(ReadThrough)
def read_through(read: ReadThrough) -> list[Node]:
    """Show a text token by token, shaded by surprise (bits), then what surprised most."""
    tokens = read.tokens
    known = [(i, _bits(token)) for i, token in enumerate(tokens) if token.logprob is not None]
    total = sum(bits for _, bits in known)
    mean = total / len(known) if known else 0.0
    words = f"{counted(len(tokens), 'token')} · "
    if known:
        words += f"{total:,.1f} bits · {mean:.2f} bits a token · perplexity {2**mean:,.2f}"
    else:
        words += "– bits · perplexity –"
    pieces = tuple(
        Piece(
            t.text,
            t.id,
            hint=_hint(t),
            shade=min(1.0, _bits(t) / 16),
        )
        for t in tokens[:_MAX_PIECES]
    )
    worst = sorted(known, key=lambda pair: -pair[1])[:_SURPRISES]
    rows = tuple(
        (i + 1, blanks_shown(tokens[i].text), round(bits, 2), tokens[i].rank, _expected(tokens[i]))
        for i, bits in worst
    )
    table = Table(("place", "token", "bits", "rank", "expected instead"), rows, caption="what surprised most")
    out: list[Node] = [Head("surprise", words), Strip(pieces)]
    if read.interrupted:
        out.append(Line("The reading was stopped here, before the end of the text.", dim=True))
    if not known:
        out.append(Line("Nothing was measured: nothing comes before the first token.", dim=True))
        return out
    return [*out, Grid(table)]


def _bits(token: ReadToken) -> float:
    return token.bits or 0.0


def _hint(token: ReadToken) -> str:
    if token.logprob is None:
        return "nothing before it"
    return f"{_bits(token):.2f} bits, rank {token.rank}"


def _expected(token: ReadToken) -> str:
    return blanks_shown(token.expected[0][0]) if token.expected else ""
