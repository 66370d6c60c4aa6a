"""How a tree of answers looks: characters, which any format can say."""

from __future__ import annotations

from llama_magic.display.static.doc import Code, Head, Node
from llama_magic.display.views.view import view
from llama_magic.experiments.branches import Tree
from llama_magic.words.counting import counted


@view.register(Tree)
def tree(found: Tree) -> list[Node]:
    """Show the drawing under what it is of."""
    model = found.answers[0].model
    head = Head("branches", f"{counted(len(found.answers), 'answer')} of {model}")
    return [head, Code(found.drawing, drawn=True)]
