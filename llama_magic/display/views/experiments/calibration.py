"""How a calibration looks: a bin a line, two bars beside each other in it, then the errors in words."""

from __future__ import annotations

from llama_magic.display.static.doc import Grid, Head, Line, Node
from llama_magic.display.views.view import view
from llama_magic.experiments.calibration import Calibration, Thresholds
from llama_magic.words.counting import counted
from llama_magic.words.tables import Share, Table

_FEW = 10  # rows of a bin
_BY_ROW = "Right is a mean over rows: several decisions on one row count as one, by their mean."


@view.register(Calibration)
def calibration(c: Calibration) -> list[Node]:
    """Show how sure decisions were beside how often they were right: bars that are alike say the truth."""
    left_out = f", {c.left_out:,} left out" if c.left_out else ""
    filled = [one for one in c.bins if one.rows]
    rows = tuple(
        (
            f"{one.low:.0%} to {one.high:.0%}",
            one.rows,
            (Share("", one.confidence),),
            (Share("", one.accuracy),),
        )
        for one in filled
    )
    out: list[Node] = [
        Head("calibration", f"{c.column} · {counted(c.rows, 'row')}{left_out}"),
        Grid(Table(("confidence", "rows", "said to be right", "were right"), rows)),
        Line(
            f"Expected calibration error {c.ece:.3f} · Brier score {c.brier:.3f} · "
            f"right {c.accuracy:.1%} at a confidence of {c.confidence:.1%}: {_verdict(c)}.",
        ),
    ]
    few = sum(one.rows < _FEW for one in filled)
    if few:
        have = "has" if few == 1 else "have"
        words = f"{few} of {counted(len(filled), 'bin')} {have} fewer than {_FEW} rows: too few to tell."
        out.append(Line(words, tone="warn"))
    return [*out, *(Line(note, tone="warn") for note in c.notes)]


@view.register(Thresholds)
def thresholds(t: Thresholds) -> list[Node]:
    """Show what comes of each threshold: how many rows are decided, how many of these rightly."""
    left_out = f", {t.left_out:,} left out" if t.left_out else ""
    rows = tuple(
        (
            f"{one.below:g}",
            one.decided,
            (Share("", one.decided / t.rows),),
            *(
                (None, None)
                if one.right is None
                else ((Share("", one.right.mean),), f"{one.right.low:.0%} to {one.right.high:.0%}")
            ),
        )
        for one in t.each
    )
    heads = ("abstain below", "decided", "of all", "right", "95% interval")
    return [
        Head("thresholds", f"{t.column} · {counted(t.rows, 'decision')}{left_out}"),
        Grid(Table(heads, rows)),
        Line("odds.abstain_below(0.8) takes one: the same decisions, and no choice below it.", dim=True),
        *(
            [Line(_BY_ROW, dim=True)]
            if any(one.right and one.right.answers > one.right.rows for one in t.each)
            else []
        ),
        *(Line(note, tone="warn") for note in t.notes),
    ]


def _verdict(c: Calibration) -> str:
    if abs(c.confidence - c.accuracy) < 0.02:
        return "as sure as it is right, over all"
    return "surer than it is right" if c.confidence > c.accuracy else "less sure than it is right"
