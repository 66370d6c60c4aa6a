"""How many draws look: a bar for how often each token came, beside its probability, and the seeds."""

from __future__ import annotations

from typing import Any

from llama_magic.display.static.doc import Grid, Head, Line, Node
from llama_magic.display.views.view import view
from llama_magic.microscope.drawing import DrawnOften, Draws
from llama_magic.words.counting import counted
from llama_magic.words.harmless import blanks_shown
from llama_magic.words.tables import Share, Table

_MOST = 12  # tokens shown
_SEEDS = 6  # of each


@view.register(Draws)
def draws(made: Draws) -> list[Node]:
    """Show the tokens that were drawn most often, and which seeds would have drawn another."""
    shown = list(made.tokens[:_MOST])
    if made.drawn not in shown:
        shown[-1] = made.drawn
    seeds = f"seeds {made.seeds[0]} to {made.seeds[-1]}" if made.n > 1 else f"seed {made.seeds[0]}"
    heads = ("token", "drawn", "of the draws", "probability", "with the seeds")
    rows = tuple(_row(token, made) for token in shown)
    out: list[Node] = [Head("draws", f"{made.n:,} · {seeds}"), Grid(Table(heads, rows))]
    if rest := len(made.tokens) - len(shown):
        often = made.n - sum(token.count for token in shown)
        times = "once" if often == 1 else f"{often:,} times in all"
        out.append(Line(f"And {counted(rest, 'other token')}, drawn {times}.", dim=True))
    out.append(Line(another(made)))
    if made.tokens[0].probability is None:
        why = "A stage of this chain draws, too: what it leaves, and so each probability, differs by seed."
        out.append(Line(why, dim=True))
    return out


def _row(token: DrawnOften, made: Draws) -> tuple[Any, ...]:
    mark = "◉ " if token.id == made.ids[0] else ""
    seeds = ", ".join(map(str, token.seeds[:_SEEDS])) + (", …" if len(token.seeds) > _SEEDS else "")
    share = None if token.probability is None else (Share("", token.probability),)
    of_all = (Share("", token.count / made.n),)
    return (mark + (blanks_shown(token.text) or "∅"), token.count, of_all, share, seeds)


def another(made: Draws) -> str:
    """Say which seeds would have drawn another token than the first."""
    name = f"◉ {blanks_shown(made.drawn.text) or '∅'}"
    if not made.others:
        return f"All of these seeds draw {name}."
    first = ", ".join(map(str, made.others[: 2 * _SEEDS]))
    more = ", …" if len(made.others) > 2 * _SEEDS else "."
    seeds = counted(len(made.others), "seed")
    would = f"{seeds} of {made.n:,} would have drawn another token: {first}{more}"
    return f"Seed {made.seeds[0]} draws {name}. {would}"
