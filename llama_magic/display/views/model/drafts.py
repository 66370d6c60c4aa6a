"""How the guesses of an answer look: underlined where they came, crossed out where they did not."""

from __future__ import annotations

from llama_magic.display.static.doc import Edited, Head, Mark, Node
from llama_magic.display.views.view import view
from llama_magic.model.drafts import Drafts, Kind

_MARKS: dict[Kind, Mark] = {"drawn": "", "accepted": "kept", "struck": "struck"}
_LEGEND: tuple[tuple[str, Mark], ...] = (
    ("guessed, and it came", "kept"), (" · ", ""), ("guessed, and another came", "struck"),
)  # fmt: skip


@view.register(Drafts)
def drafts(found: Drafts) -> list[Node]:
    """Show the answer with its guesses, and how they are marked; or that there were none."""
    if not found.drafted:
        why = f": {found.reason}" if found.reason else ""
        return [Head("drafts", f"nothing was guessed ahead{why}"), Edited(((found.text, ""),))]
    details = f"{found.accepted:,} of {found.drafted:,} guessed tokens accepted"
    parts = tuple((text, _MARKS[kind]) for text, kind in found.parts)
    return [Head("drafts", details), Edited(parts), Edited(_LEGEND)]
