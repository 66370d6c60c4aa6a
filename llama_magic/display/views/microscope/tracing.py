"""How a token's road through the sampler chain looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_magic.display.static.doc import Grid, Head, Line, Node
from llama_magic.display.views.view import view
from llama_magic.microscope.tracing import SamplerTrace, TraceStage
from llama_magic.words.harmless import blanks_shown, one_line
from llama_magic.words.tables import Share, Table

_LEADERS = 5


@view.register(SamplerTrace)
def sampler_trace(
    trace: SamplerTrace, warnings: Sequence[str] = (), *, leaders: int = _LEADERS
) -> list[Node]:
    """Show what each sampler left of the next token's distribution: survivors, entropy, mass, leaders.

    Those of its notes that are `warnings` stand out.
    """
    rows = []
    before: Sequence[tuple[str, float]] = ()
    for stage in trace.stages:
        rows.append(
            (
                _stage(stage),
                stage.survivors,
                round(stage.entropy_bits, 2),
                f"{stage.mass_kept:.1%}",
                _leaders(stage, before, leaders),
            )
        )
        before = stage.leaders
    headers = ("stage", "survivors", "entropy, bits", "mass kept", "leading candidates")
    text = trace.drawn.text
    if trace.exact or text == trace.answer:
        words = [f"drawn: {blanks_shown(text)}"]
    else:
        words = [f"would draw: {blanks_shown(text)}"]
        words += [f"the answer has: {blanks_shown(trace.answer)}"] if trace.answer is not None else []
    step = f"step {trace.step:,}"
    words.append(f"{step} after “{one_line(trace.context)}”" if trace.context else step)
    table = Grid(Table(headers, tuple(rows)))
    notes = [Line(note, tone="warn") if note in warnings else Line(note, dim=True) for note in trace.notes]
    return [Head("x-ray", " · ".join(words)), table, *notes]


def _stage(stage: TraceStage) -> str:
    parameters = ", ".join(_parameter(stage.name, name, value) for name, value in stage.parameters.items())
    return f"{stage.name} {parameters}" if parameters else stage.name


def _parameter(stage: str, name: str, value: Any) -> str:
    """Say `40` for the stage's own number, `base 1.75` for others."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if name == stage else f"{name} {text}"


def _leaders(stage: TraceStage, before: Sequence[tuple[str, float]], most: int) -> tuple[Share, ...]:
    left = {text for text, _ in stage.leaders}
    shares = [Share(blanks_shown(text), share) for text, share in stage.leaders[:most]]
    if len(stage.leaders) >= stage.survivors:  # all that is left is listed, so what is missing was cut
        shares += [
            Share(blanks_shown(text), 0.0, gone=True) for text, _ in before[:most] if text not in left
        ][:2]
    return tuple(shares)
