"""How summaries and paired comparisons look: a setting a line, then what may and may not be said."""

from __future__ import annotations

import math
from typing import Any

from llama_magic.display.static.doc import Grid, Head, Line, Node
from llama_magic.display.views.view import view
from llama_magic.experiments.comparing import Group, Pair, Pairs, Summary
from llama_magic.experiments.statistics import Interval
from llama_magic.words.counting import counted
from llama_magic.words.tables import Figure, Table


@view.register(Summary)
def summary(s: Summary) -> list[Node]:
    """Show each setting with its results, its scores and their intervals; then what they cannot tell."""
    counts = [name for name in ("errors", "abstained") if any(getattr(group, name) for group in s.groups)]
    heads = [head for name in s.scores for head in (name, "95% interval")]
    read = any(group.tokens is not None for group in s.groups)
    headers = (*s.by, "results", *counts, *heads, *(("prompt tokens", "written") if read else ()), "seconds")
    rows = tuple(
        (
            *group.settings.values(),
            group.results,
            *(getattr(group, name) for name in counts),
            *score_cells(group, s.scores),
            *((_tokens(group.prompt_tokens), _tokens(group.tokens)) if read else ()),
            f"{group.seconds:.3g}",
        )
        for group in s.groups
    )
    by = f"by {' × '.join(s.by)}" if s.by else "all together"
    out: list[Node] = [Head("summary", by), Grid(Table(headers, rows))]
    if s.groups:
        means = "Tokens and seconds are means of a result" if read else "Seconds are a mean of a result"
        out.append(Line(f"{means}; several are at work at a time.", dim=True))
    return [*out, *(Line(note, tone="warn") for note in s.notes)]


def _tokens(mean: float | None) -> str | None:
    return None if mean is None else f"{mean:,.1f}"


def _estimate_cells(one: Interval | None) -> tuple[Any, Any]:
    """Return a score and its interval as two cells."""
    if one is None:
        return None, None
    if math.isnan(one.low):
        return _mean(one), None
    if one.kind == "share":
        return _mean(one), f"{one.low:.0%} to {one.high:.0%}"
    return _mean(one), f"{one.low:.3g} to {one.high:.3g}"


def _mean(one: Interval) -> str:
    if one.kind == "mean":
        return f"{one.mean:.3g}"
    if one.answers == one.rows:
        return f"{round(one.mean * one.rows):,} of {one.rows:,}"
    return f"{one.mean:.0%} of {counted(one.rows, 'row')}"


@view.register(Pairs)
def pairs(p: Pairs) -> list[Node]:
    """Show each two values on the same rows, and say in a sentence what that tells."""
    headers = (p.axis, "against", "rows", "better", "worse", "difference", "95% interval", "p")
    rows = tuple(
        (
            str(one.second),
            str(one.first),
            one.rows,
            one.better,
            one.worse,
            *_difference(one),
            _p(one.p_holm) if one.rows else None,
        )
        for one in p.pairs
    )
    out: list[Node] = [Head("pairs", f"by {p.axis} · score {p.score}"), Grid(Table(headers, rows))]
    out.extend(Line(sentence(one, p.axis)) for one in p.pairs)
    if len(p.pairs) > 1:
        out.append(
            Line(f"p is corrected for {len(p.pairs)} comparisons (Holm), the intervals are not.", dim=True)
        )
    return [*out, *(Line(note, tone="warn") for note in p.notes)]


def sentence(one: Pair, axis: str) -> str:
    """Say a paired comparison, and whether it tells anything; a value that is no word, with its axis."""
    second = one.second if isinstance(one.second, str) else f"{axis} {one.second}"
    if not one.rows:
        return f"{second} and {one.first} have no row in common that has this score."
    verdict = "not enough rows to tell"
    if one.tells:
        verdict = f"{second} is {'better' if one.better > one.worse else 'worse'}"
    elif not one.better and not one.worse:
        verdict = "no difference"
    return (
        f"{second} against {one.first} on the same {counted(one.rows, 'row')}: {one.better:,} better, "
        f"{one.worse:,} worse, p {_sign(one.p_holm)}{_p(one.p_holm)}: {verdict}."
    )


def _difference(one: Pair) -> tuple[Figure | None, Figure | None]:
    """Return a difference and its interval, all with the digits that the interval's width can tell."""
    if not one.rows:
        return None, None
    width = one.high - one.low
    if not width > 1e-12:  # no interval, or none but what sums of floats leave
        return _signed(one.difference, f"{one.difference:+.2g}"), None
    digits = max(0, 1 - math.floor(math.log10(width)))
    mean, low, high = (_signed(x, f"{x:+.{digits}f}") for x in (one.difference, one.low, one.high))
    return mean, Figure(f"{low} to {high}")


def _signed(value: float, words: str) -> Figure:
    """Return a number with its sign; nothing has none."""
    return Figure("0" if abs(value) <= 1e-12 else words if float(words) else words[1:])


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def _sign(value: float) -> str:
    return "" if value < 0.001 else "= "


def score_cells(group: Group, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the cells of all scores of a setting."""
    return tuple(cell for name in names for cell in _estimate_cells(group.scores.get(name)))
