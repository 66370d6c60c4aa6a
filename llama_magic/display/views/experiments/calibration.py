"""How a calibration looks: a bin a line, and the picture of it."""

from __future__ import annotations

import math

from llama_magic.display.static.doc import Grid, Head, Line, Node, Picture
from llama_magic.display.views.view import view
from llama_magic.experiments.calibration import Calibration
from llama_magic.words.counting import counted
from llama_magic.words.tables import Table

_SIDE, _EDGE = 200, 30  # pixels
_FEW = 10  # rows of a bin


@view.register(Calibration)
def calibration(c: Calibration) -> list[Node]:
    """Show how sure decisions were against how often they were right, bin by bin, then as a picture."""
    left_out = f", {c.left_out:,} left out" if c.left_out else ""
    filled = [one for one in c.bins if one.rows]
    rows = tuple(
        (f"{one.low:.0%} to {one.high:.0%}", one.rows, f"{one.confidence:.1%}", f"{one.accuracy:.1%}")
        for one in filled
    )
    out: list[Node] = [
        Head("calibration", f"{c.column} · {counted(c.rows, 'row')}{left_out}"),
        Grid(Table(("confidence", "rows", "mean confidence", "right"), rows)),
        Picture(picture(c)),
        Line(
            f"Expected calibration error {c.ece:.3f} · Brier score {c.brier:.3f} · "
            f"right {c.accuracy:.1%} at a confidence of {c.confidence:.1%}: {_verdict(c)}.",
        ),
    ]
    few = sum(one.rows < _FEW for one in filled)
    if few:
        words = f"Of {counted(len(filled), 'bin')} {few} have fewer than {_FEW} rows: too few to tell."
        out.append(Line(words, tone="warn"))
    return out


def _verdict(c: Calibration) -> str:
    if abs(c.confidence - c.accuracy) < 0.02:
        return "as sure as it is right, over all"
    return "surer than it is right" if c.confidence > c.accuracy else "less sure than it is right"


def picture(c: Calibration) -> str:
    """Draw accuracy over confidence: a bar a bin, a dot at its means, the diagonal of perfect calibration."""
    full = _SIDE + 2 * _EDGE

    def x(share: float) -> str:
        return f"{_EDGE + share * _SIDE:.1f}"

    def y(share: float) -> str:
        return f"{_EDGE + (1 - share) * _SIDE:.1f}"

    most = max(one.rows for one in c.bins)
    bars, dots = [], []
    for one in c.bins:
        if not one.rows:
            continue
        width, height = (one.high - one.low) * _SIDE - 2, one.accuracy * _SIDE
        bars.append(
            f'<rect x="{x(one.low)}" y="{y(one.accuracy)}" width="{width:.1f}" height="{height:.1f}" '
            'fill="currentColor" fill-opacity="0.18"/>'
        )
        radius = 2 + 4 * math.sqrt(one.rows / most)
        title = f"<title>{one.rows} rows: {one.confidence:.0%} sure, {one.accuracy:.0%} right</title>"
        dots.append(
            f'<circle cx="{x(one.confidence)}" cy="{y(one.accuracy)}" r="{radius:.1f}" '
            f'fill="var(--lm-a, #1769c4)">{title}</circle>'
        )
    label = 'font-size="11" fill="currentColor" text-anchor="middle"'
    return (
        f'<svg role="img" aria-label="accuracy over confidence" viewBox="0 0 {full} {full}" '
        f'width="{full}" height="{full}">'
        f'<rect x="{_EDGE}" y="{_EDGE}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="currentColor" '
        'stroke-opacity="0.4"/>'
        f'<line x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}" stroke="currentColor" stroke-opacity="0.5" '
        'stroke-dasharray="4 3"/>'
        f"{''.join(bars)}{''.join(dots)}"
        f'<text x="{full / 2}" y="{full - 8}" {label}>confidence, 0 to 100 %</text>'
        f'<text x="12" y="{full / 2}" {label} transform="rotate(-90 12 {full / 2})">right, 0 to 100 %</text>'
        "</svg>"
    )
