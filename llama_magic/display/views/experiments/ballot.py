"""How a vote over several structured answers looks: a table of fields, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_magic.display.static.doc import Code, Fold, Grid, Head, Line, Node
from llama_magic.display.views.view import view
from llama_magic.errors import LlamaMagicError
from llama_magic.experiments.ballot import Vote, said
from llama_magic.experiments.ballot import vote as count
from llama_magic.model.results import Completion
from llama_magic.words.counting import counted
from llama_magic.words.tables import Share, Table

_LONGEST = 60  # characters of a value in the table


def of_samples(answers: Sequence[Completion]) -> list[Node]:
    """Show the vote of the answers of one call; nothing where none of them is an instance."""
    try:
        return vote(count(answers))
    except LlamaMagicError:
        return []


@view.register(Vote)
def vote(v: Vote) -> list[Node]:
    """Show a vote: for each field the winner, how many agree, and what the others said."""
    left_out = f", {v.left_out} left out" if v.left_out else ""
    rows = tuple(
        (
            _path(one.pointer),
            _brief(one.winner),
            (Share(f"{one.votes} of {one.ballots},", one.agreement),),
            tuple(Share(_brief(value), number / one.ballots) for value, number in one.counts[1:]) or None,
        )
        for one in v.fields
    )
    out: list[Node] = [
        Head("vote", f"{counted(v.ballots, 'answer')}{left_out}"),
        Grid(Table(("field", "winner", "agreement", "others"), rows)),
    ]
    if any(len({votes for _, votes in one.counts[:2]}) < len(one.counts[:2]) for one in v.fields):
        out.append(Line("Of equal votes the value that was given first wins.", dim=True))
    if [one.pointer for one in v.fields] == [""]:
        return out  # a single value: the winner is all there is
    if v.combined:
        out.append(Line("The winners together are an instance.", dim=True))
    else:
        out.append(
            Line(
                f"The winners together are no instance: {v.why_not}. Taken is the whole answer that came "
                f"most often, {v.whole_votes} of {v.ballots} times.",
                tone="warn",
            )
        )
    out.append(Fold("JSON of the vote", (Code(v.text),)))
    return out


def _brief(value: Any) -> str:
    text = value if isinstance(value, str) and value.strip() == value != "" else said(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _path(pointer: str) -> str:
    """Write a JSON pointer as the table of an answer does: `address.street`, `tags[0]`."""
    path = ""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        path += f"[{name}]" if name.isdecimal() else f".{name}" if path else name
    return path or "value"
