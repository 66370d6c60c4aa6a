"""How the judgement on an exercise looks."""

from __future__ import annotations

from llama_magic.display.static.doc import Head, Node
from llama_magic.display.views.view import view
from llama_magic.lesson.exercise import Checked

_MARKS = {True: "✓", False: "✗", None: "…"}


@view.register(Checked)
def checked(found: Checked) -> list[Node]:
    """Show whether it is solved by a mark and the first words of the sentence, then the rest of it."""
    word, _, rest = found.words.partition(":")
    return [Head(f"{_MARKS[found.solved]} {word}", rest.strip(), sentence=True)]
