"""How agreement and confusion look: a matrix in words, its figures beside it."""

from __future__ import annotations

import math

from llama_magic.display.static.doc import Grid, Head, Line, Node
from llama_magic.display.views.view import view
from llama_magic.experiments.agreement import Agreement, Confusion
from llama_magic.words.counting import counted
from llama_magic.words.tables import Table


@view.register(Agreement)
def agreement(a: Agreement) -> list[Node]:
    """Show how far each two values of an axis answer alike."""
    rows = tuple(
        (str(first), str(second), rows, _share(equal), _kappa(kappa))
        for first, second, rows, equal, kappa in a.pairs
    )
    return [
        Head("agreement", a.axis),
        Grid(Table((a.axis, "and", "rows", "equal", "Cohen's kappa"), rows)),
        Line("Kappa is 0 for what chance would give, 1 for answers that are all alike.", dim=True),
    ]


@view.register(Confusion)
def confusion(c: Confusion) -> list[Node]:
    """Show what was answered (across) where what was right (down), with recall and precision at the edges."""
    rows: list[tuple[object, ...]] = [
        (right, *(c.counts[right][said] for said in c.labels), _share(c.recall(right))) for right in c.labels
    ]
    rows.append(("precision", *(_share(c.precision(label)) for label in c.labels), None))
    left_out = f", {c.left_out:,} left out" if c.left_out else ""
    answered = tuple(f"answered {label}" for label in c.labels)
    return [
        Head("confusion", f"{c.column} · {counted(c.total, 'answer')}{left_out}"),
        Grid(Table((f"{c.column} is", *answered, "recall"), tuple(rows))),
        Line(f"Right {_share(c.accuracy)}, Cohen's kappa {_kappa(c.kappa)}."),
        *([Line(c.apart, tone="warn")] if c.apart else []),
    ]


def _kappa(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.0%}"
