"""How a dry run looks: tokens, what will not fit, the time."""

from __future__ import annotations

from llama_magic.display.static.doc import Fold, Grid, Head, Line, Node
from llama_magic.display.views.experiments.runs import error_words
from llama_magic.display.views.view import view
from llama_magic.experiments.forecast import Forecast
from llama_magic.words.amounts import duration
from llama_magic.words.counting import counted
from llama_magic.words.tables import Table, brief

_SHOWN = 50  # rows


@view.register(Forecast)
def forecast(f: Forecast) -> list[Node]:
    """Show what an experiment would take: tokens, time, and the rows that would be errors."""
    fits = [row for row in f.rows if row.error is None]
    out: list[Node] = [Head("dry run", f"{counted(len(f.rows), 'answer')} · nothing was asked")]
    if fits:
        longest = max(row.prompt_tokens or 0 for row in fits)
        out.append(
            Line(
                f"{f.prompt_tokens:,} prompt tokens, of which {f.distinct_tokens:,} are to be read (what "
                f"prompts begin with is read once); the longest prompt has {longest:,}."
            )
        )
    out += _time(f)
    out += [Line(note, tone="warn") for note in f.notes]
    if f.failures:
        rows = tuple(
            (row.row, *map(str, row.settings.values()), row.prompt_tokens, brief(error_words(row.error)))
            for row in f.failures[:_SHOWN]
        )
        axes = tuple(f.rows[0].settings)
        long = f", {len(f.too_long):,} of them too long" if f.too_long else ""
        out += [Line(f"{counted(len(f.failures), 'row')} would fail{long}:", tone="warn")]
        out.append(Grid(Table(("row", *axes, "tokens", "error"), rows)))
    return out


def _time(f: Forecast) -> list[Node]:
    if f.seconds is None:
        return [Line("No speed was measured of this model yet, so no time can be foretold.", dim=True)]
    out: list[Node] = [
        Line(f"About {duration(f.seconds)}, one answer at a time; less where they are written together.")
    ]
    speeds = tuple(
        Line(
            f"{name}: {speed.read:,.0f} tokens/s read, {speed.write:,.1f} written, "
            f"{speed.answer:,.0f} an answer, by {counted(speed.answers, 'answer')} so far"
        )
        for name, speed in f.speeds.items()
    )
    return [*out, Fold("measured", speeds)] if speeds else out
