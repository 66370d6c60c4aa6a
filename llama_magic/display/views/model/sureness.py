"""How sure each token of an answer was, where log-probabilities were asked for."""

from __future__ import annotations

import math

from llama_magic.display.static.doc import Fold, Grid, Line, Node, Piece, Strip
from llama_magic.microscope.tokens import named
from llama_magic.model.logprobs import TokenLogprob
from llama_magic.model.results import Completion
from llama_magic.words.counting import nth_token
from llama_magic.words.harmless import blanks_shown
from llama_magic.words.tables import Share, Table, percent

MOST = 500  # tokens that are shown
KEY = "More colour is less sure; the small number is the probability, below 50%."
_SAID = 0.5  # below this probability it stands beside the shade
_ROWS = 10


def nodes(r: Completion) -> list[Node]:
    """Show the tokens shaded by how unsure they were, and for the least sure ones what else was likely."""
    if not r.logprobs:
        return []
    shown = r.logprobs[:MOST]
    names = named((entry.text, entry.bytes) for entry in shown)
    strip = Strip(tuple(_piece(i, names[i], entry) for i, entry in enumerate(shown)))
    out: list[Node] = [strip, Line(KEY, dim=True)]
    unsure = sorted((entry.logprob, i) for i, entry in enumerate(shown) if not math.isnan(entry.logprob))
    rows = tuple(_row(i, names[i], shown[i]) for _, i in unsure[:_ROWS])
    if any(row[-1] for row in rows):
        table = Table(("place", "token", "probability", "also likely"), rows, caption="least sure first")
        out.append(Grid(table))
    return [Fold("how sure each token was", tuple(out))]


def shaded(text: str, where: str, share: float, token_id: int | None = None) -> Piece:
    """Return a token that is the darker the less sure it was; `where` it stands is said on hover."""
    note = percent(share) if share < _SAID else ""
    return Piece(text, token_id, hint=f"{where}, {percent(share)}", shade=0.8 * (1 - share), note=note)


def _piece(place: int, name: str, entry: TokenLogprob) -> Piece:
    return shaded(name, nth_token(place), math.exp(entry.logprob), entry.token_id)


def _row(place: int, name: str, entry: TokenLogprob) -> tuple[object, ...]:
    others = tuple(
        Share(f"“{blanks_shown(text)}”", math.exp(logprob))
        for token, text, logprob in entry.top
        if token != entry.token_id
    )[:4]
    return place + 1, f"“{blanks_shown(name)}”", percent(math.exp(entry.logprob)), others
