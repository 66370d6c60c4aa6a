"""How a question looks, before and after it was answered."""

from __future__ import annotations

from llama_magic.display.static.doc import Branch, Head, Line, Node, Tree
from llama_magic.display.views.view import view
from llama_magic.lesson.question import Question

_OPEN = "Not answered yet: run this cell in a notebook, and choose."


@view.register(Question)
def question(asked: Question) -> list[Node]:
    """Show the question, its options with a mark at the chosen one, and what is said of the choice.

    In a saved notebook the marks look like buttons, and are none: so it says how to choose.
    """
    marks = ((option, "◉" if option == asked.chosen else "○") for option in asked.options)
    out: list[Node] = [
        Head("predict", asked.question, sentence=True),
        Tree(tuple(Branch(f"{mark} {option}") for option, mark in marks)),
    ]
    return [*out, Line(asked.verdict) if asked.verdict else Line(_OPEN, dim=True)]
