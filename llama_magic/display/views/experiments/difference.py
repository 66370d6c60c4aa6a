"""How two answers side by side look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_magic.display.static.doc import Answer, Fold, Grid, Head, Line, Node
from llama_magic.display.views.view import view
from llama_magic.experiments.difference import Difference, Side
from llama_magic.words.counting import counted, nth_token
from llama_magic.words.harmless import blanks_shown
from llama_magic.words.tables import Share, Table

_LONG = 300  # characters of shared text; of a longer one the end is shown


@view.register(Difference)
def difference(found: Difference) -> list[Node]:
    """Show what both share, the token where they part with what each held likely there, and the settings."""
    one, other = found.sides
    names = f"{one.name} and {other.name}"
    if found.step is None:
        out: list[Node] = [Head("diff", f"{names} are equal: {counted(one.tokens, 'token')}")]
    else:
        where = nth_token(found.step)
        out = [Head("diff", f"{names} part at {where}, of {one.tokens:,} and {other.tokens:,}")]
        if found.shared:
            cut = "… " if len(found.shared) > _LONG else ""
            out.append(Answer(f"{cut}{found.shared[-_LONG:]}"))
        headers = ("answer", "token there", "likely there", "goes on")
        out.append(Grid(Table(headers, tuple(_row(side) for side in found.sides))))
    if found.settings:
        out.append(settings_table(found.settings, (one.name, other.name)))
    elif found.step is not None:
        out.append(Line("Nothing that was asked differs, nor file and engine.", dim=True))
    return out


def settings_table(settings: Sequence[tuple[str, Any, Any]], names: tuple[str, str]) -> Fold:
    """Show what differs of what was asked, of file and of engine."""
    rows = tuple((name, _word(a), _word(b)) for name, a, b in settings)
    what = counted(len(rows), "setting")
    verb = "differs" if len(rows) == 1 else "differ"
    return Fold(f"{what} {verb}", (Grid(Table(("setting", *names), rows)),), brief=True)


def _row(side: Side) -> tuple[Any, ...]:
    there = f"“{blanks_shown(side.there)}”" if side.there else "(the end)"
    likely = tuple(Share(f"“{blanks_shown(one.text)}”", one.probability) for one in side.likely)
    return (side.name, there, likely or "not known any more", side.rest)


def _word(value: Any) -> Any:
    return "–" if value is None else value if isinstance(value, (int, float)) else str(value)
