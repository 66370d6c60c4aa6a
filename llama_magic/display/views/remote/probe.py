"""How the card of a server looks: what it says of itself, and what held when it was tried."""

from __future__ import annotations

from llama_magic.display.static.doc import Grid, Head, Line, Node
from llama_magic.display.views.view import view
from llama_magic.remote.probe import ServerCard
from llama_magic.words.amounts import count
from llama_magic.words.tables import Table

_WORDS = {True: "holds", False: "does not hold", None: "not tried"}


@view.register(ServerCard)
def server_card(card: ServerCard) -> list[Node]:
    """Show the server in a line, an ability a row, and what is to be known of it."""
    build = f" {card.build}" if card.build else ""
    nodes: list[Node] = [
        Head(card.model, f"{card.kind}{build} at {card.address}, window of {count(card.window)} tokens")
    ]
    rows = tuple((ability.name, _WORDS[ability.holds], ability.details) for ability in card.abilities)
    nodes.append(Grid(Table(("ability", "tried here", "details"), rows)))
    nodes += [Line(note, tone="warn") for note in card.notes]
    if not card.probed:
        nodes.append(Line("Nothing was tried, as asked: what the server cannot do may show only later."))
    return nodes
