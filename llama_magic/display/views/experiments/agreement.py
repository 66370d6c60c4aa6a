"""How agreement and confusion look: a matrix in words, its figures beside it."""

from __future__ import annotations

import math

from llama_magic.display.static.doc import Grid, Head, Line, Node
from llama_magic.display.views.view import view
from llama_magic.experiments.agreement import Agreement, Confusion
from llama_magic.words.counting import counted
from llama_magic.words.tables import Figure, Table


@view.register(Agreement)
def agreement(a: Agreement) -> list[Node]:
    """Show how far each two values of an axis answer alike."""
    rows = tuple(
        (str(first), str(second), answers, _share(equal), _kappa(kappa))
        for first, second, answers, equal, kappa in a.pairs
    )
    return [
        Head("agreement", a.axis),
        Grid(Table((a.axis, "and", "answers compared", "equal", "Cohen's kappa"), rows)),
        Line("Kappa is 0 for what chance would give, 1 for answers that are all alike.", dim=True),
    ]


@view.register(Confusion)
def confusion(c: Confusion) -> list[Node]:
    """Show what was answered (across) where what was right (down), with recall and precision at the edges."""
    rows: list[tuple[object, ...]] = [
        (
            right,
            *(c.counts[right][said] for said in c.labels),
            _share(c.recall(right)) if any(c.counts[right].values()) else None,
        )
        for right in c.labels
    ]
    answers = {label: sum(c.counts[right][label] for right in c.labels) for label in c.labels}
    shares = (
        _share(c.precision(label)) if answers[label] else None for label in c.labels
    )  # of nothing there is none
    rows.append(("precision", *shares, None))
    left_out = f", {c.left_out:,} left out" if c.left_out else ""
    left_out += f" ({c.abstained:,} abstained)" if c.abstained else ""
    answered = tuple(f"answered {label}" for label in c.labels)
    return [
        Head("confusion", f"{c.column} · {counted(c.total, 'answer')}{left_out}"),
        Grid(Table((f"{c.column} is", *answered, "recall"), tuple(rows))),
        Line(f"Right {_share(c.accuracy)}, Cohen's kappa {_kappa(c.kappa)}."),
        *(Line(note, tone="warn") for note in (*([c.apart] if c.apart else []), *c.notes)),
    ]


def _kappa(value: float) -> Figure:
    return Figure("–" if math.isnan(value) else f"{value:.2f}")


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.0%}"
