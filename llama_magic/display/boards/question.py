"""A question with buttons; its stand-in in the saved notebook says what was chosen.

Whether the choice is right is held back until a cell has run after it, or somebody asks.
"""

from __future__ import annotations

from typing import Any

import ipywidgets

from llama_magic.display import hosts
from llama_magic.display.boards import controls
from llama_magic.display.boards.board import Board
from llama_magic.display.static import html as render_html
from llama_magic.display.static.doc import Head, Line, Node
from llama_magic.display.views.lesson.question import question as view_of
from llama_magic.lesson.question import Question

_RAN = "post_run_cell"  # how IPython calls it


class QuestionBoard(Board):
    """Radio buttons for a question; `asked.chosen` is what is picked, which can change until it is judged."""

    name = "This question"

    def __init__(self, asked: Question) -> None:
        self.asked = asked
        self.title = ipywidgets.HTML(render_html.page([Head("predict", asked.question, sentence=True)]))
        below = "0 0 0 16px"  # the text of the question, which has a line on its left
        wide = ipywidgets.Layout(width="auto", margin=below)
        self.buttons = ipywidgets.RadioButtons(options=asked.options, value=None, layout=wide)
        self.said = ipywidgets.HTML()
        self.ask = controls.button("Show the answer", "Say whether the prediction is right", self.tell)
        self.ask.layout.margin = below
        self._shell: Any = None
        self._cell: str | None = None
        super().__init__((self.title, self.buttons, self.said))
        self.buttons.observe(self._chosen, "value")

    def view(self) -> list[Node]:
        return view_of(self.asked)

    def recipe(self) -> list[Node]:
        return []

    def tell(self) -> None:
        """Say whether the choice is right; from then on it stays as it is."""
        self._wait(None)
        self.asked.told = True
        self.buttons.disabled = True
        self.children = self._parts
        self._say()

    def keep(self) -> None:
        """Put static output in the board's place; what was not told stays so."""
        self._wait(None)
        super().keep()

    def _ipython_display_(self) -> None:
        self._cell = hosts.cell(hosts.current_shell())
        super()._ipython_display_()

    def _chosen(self, change: Any) -> None:
        self.asked.chosen = change["new"]
        if self.asked.answer is not None and self.ask not in self.children:
            self.children = (*self._parts[:-1], self.ask, self.voice)
            self._wait(hosts.current_shell())
        self._say()

    def _say(self) -> None:
        self.said.value = render_html.page([Line(self.asked.verdict)])
        self.voice.text = self.asked.verdict
        self.refresh()

    def _wait(self, shell: Any) -> None:
        """Wait for a cell of this shell, None: for none any more."""
        if self._shell is not None:
            self._shell.events.unregister(_RAN, self._ran)
        self._shell = shell
        if shell is not None:
            shell.events.register(_RAN, self._ran)

    def _ran(self, result: Any) -> None:
        """A cell has run: the next one, as it says above, unless it failed or asks this question anew."""
        if self._cell is not None and hosts.cell(self._shell) == self._cell:
            self._wait(None)
        elif result.success:
            self.tell()
