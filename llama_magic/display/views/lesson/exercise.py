"""How the judgement on an exercise looks."""

from __future__ import annotations

from llama_magic.display.static.doc import Head, Node
from llama_magic.display.views.view import view
from llama_magic.lesson.exercise import Checked

_WORDS = {True: "✓ solved", False: "✗ not yet", None: "… open"}


@view.register(Checked)
def checked(found: Checked) -> list[Node]:
    """Show in a word whether it is solved, then the sentence."""
    return [Head(_WORDS[found.solved], found.words)]
