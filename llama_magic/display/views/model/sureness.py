"""How sure each token of an answer was, where log-probabilities were asked for."""

from __future__ import annotations

import math

from llama_magic.display.static.doc import Fold, Grid, Line, Node, Piece, Strip
from llama_magic.model.results import Completion, TokenLogprob
from llama_magic.words.harmless import blanks_shown
from llama_magic.words.tables import Share, Table, percent

_MOST = 500  # tokens that are shown
_SAID = 0.5  # below this probability it stands beside the shade
_ROWS = 10


def nodes(r: Completion) -> list[Node]:
    """Show the tokens shaded by how unsure they were, and for the least sure ones what else was likely."""
    if not r.logprobs:
        return []
    shown = r.logprobs[:_MOST]
    strip = Strip(tuple(_piece(i, entry) for i, entry in enumerate(shown)))
    key = "More colour is less sure; the small number is the probability, below 50%."
    out: list[Node] = [strip, Line(key, dim=True)]
    unsure = sorted((entry.logprob, i) for i, entry in enumerate(shown) if not math.isnan(entry.logprob))
    rows = tuple(_row(i, shown[i]) for _, i in unsure[:_ROWS])
    if any(row[-1] for row in rows):
        table = Table(("place", "token", "probability", "also likely"), rows, caption="least sure first")
        out.append(Grid(table))
    return [Fold("how sure each token was", tuple(out))]


def _piece(place: int, entry: TokenLogprob) -> Piece:
    share = math.exp(entry.logprob)
    note = percent(share) if share < _SAID else ""
    return Piece(
        entry.text,
        entry.token_id,
        hint=f"place {place + 1}, {percent(share)}",
        shade=0.8 * (1 - share),
        note=note,
    )


def _row(place: int, entry: TokenLogprob) -> tuple[object, ...]:
    others = tuple(
        Share(f"“{blanks_shown(text)}”", math.exp(logprob))
        for token, text, logprob in entry.top
        if token != entry.token_id
    )[:4]
    return place + 1, f"“{blanks_shown(entry.text)}”", percent(math.exp(entry.logprob)), others
