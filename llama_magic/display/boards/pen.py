"""The pen: an answer whose tokens are picked over, and grow on from there.

Between cells the kernel hears its widgets, so a pick starts a thread that reads the branch's stream. While
a cell writes, the kernel hears nothing: the pen is there when the cell has ended or was stopped. A pick
while a branch is written stops it, and goes on from what is there.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets

from llama_magic.display.boards import controls
from llama_magic.display.boards.board import SAID, STOPS_S, Board
from llama_magic.display.boards.drawing import DrawingThread
from llama_magic.display.boards.in_chat import InChat
from llama_magic.display.boards.sheet import Ask, Sheet
from llama_magic.display.boards.versions import Choice, Version, versions
from llama_magic.display.static import html as render_html
from llama_magic.display.static.doc import Code, Head, Line, Node
from llama_magic.display.views.errors import error as error_view
from llama_magic.display.views.model import pen as views
from llama_magic.display.views.model.results import ending, seed_words
from llama_magic.errors import LlamaMagicError, OptionError
from llama_magic.model.branching import Alternative
from llama_magic.model.results import Completion
from llama_magic.threads import of_the_cell, set_going
from llama_magic.words.counting import counted
from llama_magic.words.harmless import one_line

if TYPE_CHECKING:
    from llama_magic.model.stream import Stream

_THREAD = "llama_magic-pen"
_OFFERED = 8  # alternatives of a token
_UNSURE, _BESIDE = 10, 5  # tokens that the saved view says more of, and how many it names at each
_HELP = (
    "Click a token, or Tab into the text and press Enter on one, to see what else may stand there, and pick. "
    "What you type on a token stands in its place. The answer grows on from there; what was is kept. "
    "More colour below a token: less sure."
)


class Pen(Board):
    """An answer, or several to one prompt, and what grows from their tokens; `answer` is what is shown.

    The branches are those of the answers (`answer.branches`); `called` is the name of the answer in Python.
    """

    name = "The pen"

    def __init__(self, answers: Sequence[Completion[Any]], called: str = "answer") -> None:
        self.versions = versions(answers, called)
        self._roots = list(answers)
        self._stream: Stream | None = None
        self._reader: threading.Thread | None = None
        self._opened: tuple[int, int] | None = None  # version and step of the panel
        self._offers: list[Node] = []  # what may stand there
        self._busy = False
        self._build()
        super().__init__((self.which, self.title, self.sheet, self._row, self.output))
        self._show(0)

    def _build(self) -> None:
        self.sheet = Sheet(self._asked)
        self.title = ipywidgets.HTML()
        self.output = ipywidgets.HTML()
        self.which = ipywidgets.Dropdown(
            description="version", tooltip="Which of the answers is shown",
            style={"description_width": "initial"}, layout=ipywidgets.Layout(width="auto", max_width="44em"),
        )  # fmt: skip
        self.which.observe(self._turned, "value")
        self.seed = controls.seed_field()
        self.seed.style.description_width = "initial"
        self.seed.placeholder, self.seed.tooltip = "as the answer", "The seed of what grows from now on"
        self.stop_button = controls.button("Stop", "Stop; the text so far is kept", self.stop, disabled=True)
        self.keep_button = controls.button(
            "Keep as output", "End the pen; the text and the tree of branches stay in the notebook", self.keep
        )
        self.in_chat = InChat(self._tell, self._refuse)
        buttons = (self.stop_button, self.in_chat.button, self.keep_button)
        wrapped = ipywidgets.Layout(flex_flow="row wrap")
        self._row = controls.side_by_side((self.seed, ipywidgets.HBox(buttons, layout=wrapped)))

    @property
    def answer(self) -> Completion[Any] | None:
        """The answer that is shown; None while it is written."""
        return self.versions[self.sheet.of].answer

    def view(self) -> list[Node]:
        """Return the tokens of the version that is shown, and the tree that it stands in."""
        shown = self.versions[self.sheet.of]
        if shown.answer is None:
            assert shown.parent is not None
            shown = shown.parent
        assert shown.answer is not None
        unsure = views.unsure(shown.answer.pieces() or (), shown.unsure(_UNSURE, _BESIDE))
        nodes = views.pen(shown.answer, shown.label, shown.shares, self._roots)
        return [*nodes[:3], *self._offers, *unsure, *nodes[3:]]

    def recipe(self) -> list[Node]:
        """Return the line that makes the same branch again, where it is one."""
        shown = self.versions[self.sheet.of]
        if shown.parent is None or shown.answer is None:
            return []
        return [Line("The same branch in Python:", dim=True), Code(shown.source)]

    def keep(self) -> None:
        """Put the static view in the pen's place; a branch under way is stopped, what is there kept."""
        self._halt()
        super().keep()

    def stop(self) -> None:
        """Stop the branch that is being written; what is there stays."""
        if self._stream is not None:
            self._stream.cancel()

    def pick(self, step: int, choice: Choice, of: int | None = None) -> None:
        """Let the version that is shown, or another one, grow on from `choice` at a step."""
        self._halt()
        before = self.versions[self.sheet.of if of is None else of]
        answer = before.answer
        if answer is None:  # nothing came of it
            return
        self.output.value = ""
        try:
            seed = controls.read_seed(self.seed.value)
            stream = answer.fork(step, choice, stream=True, **({} if seed is None else {"seed": seed}))
        except Exception as error:  # shown where people look
            self._refuse(error)
            return
        drawn = stream.request.seed
        options = "" if answer.seeded and drawn == answer.seed else f", seed={drawn}"
        made = before.branch(step, choice, _text_of(answer, choice), options)
        self.versions.append(made)
        self._stream = stream
        self._list(len(self.versions) - 1)
        self.in_chat.show(None)
        self.sheet.show(answer.pieces(answer.token_ids[:step]) or (), end="is being read")
        self._writing(True)
        self._head(made.label, answer.model)
        self.voice.text = f"{made.label} is being written."
        self._reader = of_the_cell(self._read, stream, made, answer, name=_THREAD)
        set_going(self._reader)

    def look(self, step: int, of: int | None = None) -> None:
        """Look up what may stand at a step; a version that is being written is stopped for it."""
        of = self.sheet.of if of is None else of
        if self.versions[of].answer is None:
            self._halt()
        if self.versions[of].answer is None:
            return
        self._opened = (of, step)
        set_going(of_the_cell(self._look_up, of, step, name=_THREAD))  # an old step is read again

    def _asked(self, ask: Ask) -> None:
        what, of, step, choice = ask
        if not 0 <= of < len(self.versions):
            return
        if what == "open":
            self.look(step, of)
        elif choice is not None:
            self.pick(step, choice, of)

    def _look_up(self, of: int, step: int) -> None:
        found: tuple[Alternative, ...] = ()
        problem = ""
        try:
            found = self.versions[of].likely(step, _OFFERED)
        except LlamaMagicError as error:
            problem = str(error)
        if self._opened == (of, step):
            self.sheet.offer(of, step, found, problem)
            self._offers = views.alternatives(step, found) if found else []
            self.refresh()

    def _read(self, stream: Stream, made: Version, before: Completion[Any]) -> None:
        drawing: DrawingThread[tuple[int, ...]] = DrawingThread(
            lambda ids: self._draw(before.pieces(ids) or ())
        )
        ids: list[int] = []
        try:
            try:
                for chunk in stream:
                    ids += chunk.token_ids
                    drawing.show(tuple(ids))
            finally:
                drawing.end()
            made.answer = stream.completion
        except Exception as error:  # a thread has nobody above it: its error is shown on the board
            made.answer = getattr(error, "completion", None)
            self._refuse(error)
        finally:
            self._stream = None
            self._written(made)

    def _written(self, made: Version) -> None:
        """Show a branch that has ended, or where nothing came of it what it was to grow from."""
        self._writing(False)
        if made.answer is None:
            parent = made.parent
            assert parent is not None
            parent.children -= 1
            self.versions.remove(made)
            self._show(self.versions.index(parent))
            return
        self._show(self.versions.index(made))
        self.voice.text = f"{made.label}: {one_line(made.answer.text.strip(), SAID)}"

    def _halt(self) -> None:
        self.stop()
        if self._reader is not None and self._reader is not threading.current_thread():
            self._reader.join(STOPS_S)

    def _writing(self, writes: bool) -> None:
        self.sheet.writing = writes
        self.stop_button.disabled = not writes

    def _draw(self, pieces: Sequence[str]) -> None:
        self.sheet.show(pieces)

    def _turned(self, change: Any) -> None:
        if not self._busy and change["new"] is not None:
            self._halt()
            self.output.value = ""
            self._show(min(change["new"], len(self.versions) - 1))

    def _list(self, number: int) -> None:
        """Have the list of versions say all of them, and which is shown."""
        self._busy = True
        self.which.options = [(version.label, i) for i, version in enumerate(self.versions)]
        self.which.value = self.sheet.of = number
        self._busy = False
        self.which.layout.display = None if len(self.versions) > 1 else "none"
        self._opened, self._offers = None, []

    def _show(self, number: int) -> None:
        self._list(number)
        version = self.versions[number]
        answer = version.answer
        if answer is not None:
            written = counted(len(answer.token_ids), "token")
            self._head(version.label, f"{answer.model} · {seed_words(answer)} · {written}")
            self.sheet.show(answer.pieces() or (), version.shares, given=answer.begun, end=ending(answer))
            self.in_chat.show(answer)
            self.refresh()

    def _head(self, label: str, details: str) -> None:
        self.title.value = render_html.page([Head("pen", f"{label} · {details}"), Line(_HELP, dim=True)])

    def _tell(self, words: str) -> None:
        self.output.value = render_html.page([Line(words)])
        self.voice.text = words

    def _refuse(self, error: Exception) -> None:
        self.output.value = render_html.page(error_view(error))
        self.voice.text = str(error)


def _text_of(answer: Completion[Any], choice: Choice) -> str:
    if isinstance(choice, str):
        return choice
    if isinstance(choice, Alternative):
        return choice.text
    return "".join(answer.pieces([choice]) or ())


def pen_of(result: Any, called: str) -> Pen:
    """Return the pen over an answer, or over several. Raises `OptionError` for what is none."""
    answers = [result] if isinstance(result, Completion) else list(result)
    if not answers or not all(isinstance(one, Completion) for one in answers):
        raise OptionError("The pen takes an answer, or several answers to one prompt.")
    return Pen(answers, called)
