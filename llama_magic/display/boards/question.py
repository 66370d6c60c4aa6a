"""A question with buttons; its stand-in in the saved notebook says what was chosen."""

from __future__ import annotations

from typing import Any

import ipywidgets

from llama_magic.display.boards.board import Board
from llama_magic.display.static import html as render_html
from llama_magic.display.static.doc import Head, Line, Node
from llama_magic.display.views.lesson.question import question as view_of
from llama_magic.lesson.question import Question


class QuestionBoard(Board):
    """Radio buttons for a question; `asked.chosen` is what was picked."""

    name = "This question"

    def __init__(self, asked: Question) -> None:
        self.asked = asked
        self.title = ipywidgets.HTML(render_html.page([Head("predict", asked.question)]))
        wide = ipywidgets.Layout(width="auto")
        self.buttons = ipywidgets.RadioButtons(options=asked.options, value=None, layout=wide)
        self.said = ipywidgets.HTML()
        super().__init__((self.title, self.buttons, self.said))
        self.buttons.observe(self._chosen, "value")

    def view(self) -> list[Node]:
        return view_of(self.asked)

    def recipe(self) -> list[Node]:
        return []

    def _chosen(self, change: Any) -> None:
        self.asked.chosen = change["new"]
        self.said.value = render_html.page([Line(self.asked.verdict)])
        self.voice.text = self.asked.verdict
        self.refresh()
