"""How an answer looks that is picked from token by token: the saved picture of the pen."""

from __future__ import annotations

from collections.abc import Sequence

from llama_magic.display.static.doc import Code, Fold, Grid, Head, Line, Node, Piece, Strip
from llama_magic.display.views.model.results import ending, seed_words
from llama_magic.display.views.model.sureness import KEY, MOST, shaded
from llama_magic.experiments.branches import tree
from llama_magic.model.branching import Alternative
from llama_magic.model.results import Completion
from llama_magic.words.counting import counted, nth_token
from llama_magic.words.harmless import blanks_shown
from llama_magic.words.tables import Share, Table, percent


def pen(
    answer: Completion, label: str, shares: Sequence[float | None], roots: Sequence[Completion]
) -> list[Node]:
    """Show an answer as tokens, each with its probability, and the tree that it stands in."""
    pieces = answer.pieces() or ()
    written = counted(len(answer.token_ids), "token")
    strip = Strip(tuple(_piece(i, text, shares[i]) for i, text in enumerate(pieces[:MOST])))
    out: list[Node] = [
        Head("pen", f"{label} · {answer.model} · {seed_words(answer)}"),
        strip,
        Line(f"{written} · {ending(answer)} · {KEY}", dim=True),
    ]
    if any(root.branches for root in roots):
        out.append(Code(tree(roots).drawing, drawn=True))
    return out


def alternatives(step: int, found: Sequence[Alternative]) -> list[Node]:
    """Show what may stand at a step: the token, and how likely it is."""
    rows = tuple(
        (f"“{blanks_shown(one.text)}”", (Share("", one.probability),), "stands here" if one.drawn else "")
        for one in found
    )
    return [Grid(Table(("token", "probability", ""), rows, caption=f"what may stand at {nth_token(step)}"))]


def unsure(pieces: Sequence[str], found: Sequence[tuple[int, float, Sequence[Alternative]]]) -> list[Node]:
    """Show what else was likely at the tokens that were least so."""
    rows = tuple(
        (step + 1, f"“{blanks_shown(pieces[step])}”", percent(share), _others(likely))
        for step, share, likely in found
    )
    if not any(row[-1] for row in rows):
        return []
    table = Table(("place", "stands here", "probability", "also likely"), rows, caption="least sure first")
    return [Fold("what else was likely", (Grid(table),))]


def _others(likely: Sequence[Alternative]) -> tuple[Share, ...]:
    return tuple(Share(f"“{blanks_shown(one.text)}”", one.probability) for one in likely if not one.drawn)


def _piece(step: int, text: str, share: float | None) -> Piece:
    if share is None:
        return Piece(text, hint=nth_token(step))
    return shaded(text, nth_token(step), share)
