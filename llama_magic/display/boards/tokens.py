"""The live token strip: a text field, and the tokens of what stands in it, as one types."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import ipywidgets

from llama_magic.display.boards import controls
from llama_magic.display.boards.board import Board
from llama_magic.display.boards.rest import Rest
from llama_magic.display.static import html as render_html
from llama_magic.display.static.doc import Code, Line, Node
from llama_magic.display.views.errors import error as error_view
from llama_magic.display.views.microscope.tokens import token_strip
from llama_magic.words.counting import counted

if TYPE_CHECKING:
    from llama_magic.microscope.tokens import TokenStrip
    from llama_magic.model.model import Model


class LiveTokens(Board):
    """A text field over its token strip, which follows the typing; `strip` is what it shows now.

    What is no text for the model (a closed one, a server that tells no tokens) is said in the strip's place.
    """

    name = "The live token strip"

    def __init__(self, model: Model, text: str = "") -> None:
        self.model = model
        self.strip: TokenStrip | None = None
        self._lock = threading.Lock()
        self._counted: list[Node] = []
        wide = ipywidgets.Layout(width="99%")
        self.text = ipywidgets.Textarea(
            text, placeholder="Type or paste a text", rows=4, layout=wide, tooltip="Text to cut into tokens"
        )
        self.keep_button = controls.button(
            "Keep as output", "End the form; its strip stays in the notebook", self.keep
        )
        self.output = ipywidgets.HTML()
        super().__init__((self.text, self.keep_button, self.output))
        self.text.observe(Rest(self.count).changed, "value")
        self.count()

    def view(self) -> list[Node]:
        """Return the strip, and the text's length beside it; or what is wrong."""
        return self._counted

    def recipe(self) -> list[Node]:
        """Return the cell that makes the same strip, where there is a text."""
        text = self.text.value
        if not text.strip():
            return []
        raw = " --raw" if "{{" in text else ""  # a cell fills templates
        return [Line("The same strip as a cell:", dim=True), Code(f"%%llama tokens{raw}\n{text}")]

    def count(self) -> None:
        """Cut the text into tokens and show them."""
        with self._lock:
            text = self.text.value
            try:
                self.strip = self.model.token_strip(text)
            except Exception as error:  # a callback has nobody above it: its error is shown on the board
                self.strip, self._counted = None, error_view(error)
                self.voice.text = str(error)
            else:
                data = text.encode("utf-8", "replace")
                size = f"{counted(len(text), 'character')}, {counted(len(data), 'byte')} of UTF-8"
                head, *rest = token_strip(self.strip)
                self._counted = [head, Line(size, dim=True), *rest]
                self.voice.text = f"{counted(self.strip.count, 'token')}, {size}"
            self.output.value = render_html.page(self._counted)
        self.refresh()
