"""The prompt pad: try a prompt without running cells again. Plain ipywidgets.

Between cells the kernel hears its widgets, so Run starts a thread that reads the stream and
updates the answer; Stop cancels the stream. Callbacks only count, start and stop: a model is
safe to call from several threads.
"""

from __future__ import annotations

import dataclasses
import secrets
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ipywidgets

from llama_magic.display import hosts
from llama_magic.display.boards import as_cell, controls
from llama_magic.display.boards.board import SAID, STOPS_S, Board
from llama_magic.display.boards.drawing import DrawingThread
from llama_magic.display.boards.rest import Rest
from llama_magic.display.static import html as render_html
from llama_magic.display.static.doc import Answer, Code, Head, Line, Node
from llama_magic.display.views import gauge
from llama_magic.display.views.errors import error as error_view
from llama_magic.display.views.model.results import completion
from llama_magic.errors import LlamaMagicError
from llama_magic.model.results import Budget, Completion
from llama_magic.request.sampling import Sampling
from llama_magic.request.stages import MAX_SEED, PARAMETERS
from llama_magic.session import session
from llama_magic.threads import of_the_cell, set_going
from llama_magic.words.counting import counted
from llama_magic.words.harmless import one_line

if TYPE_CHECKING:
    from llama_magic.model.model import Model
    from llama_magic.model.stream import Stream

_MOST = 256  # tokens of an answer, at first
_SLIDERS = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty")


class Pad(Board):
    """Prompt, system prompt, sampler sliders, seed and length; a live gauge; Run, Stop, insert as cell.

    `insert` puts source text into a new cell (else the page does, or IPython's `set_next_input`); `defaults`
    are the options that a cell of this kernel takes where it names none. `answer` is the last completion.
    Where no seed is given one is drawn here and passed on, so that the pad's cell writes the same tokens.
    """

    name = "The prompt pad"

    def __init__(
        self,
        model: Model,
        *,
        prompt: str = "",
        system: str = "",
        insert: Callable[[str], None] | None = None,
        **defaults: Any,
    ) -> None:
        self.model = model
        self.answer: Completion | None = None
        self.into_next_cell = insert
        self._cell_said: tuple[str, bool] = ("", True)  # its source, and whether it is exact
        self._stream: Stream | None = None
        self._reader: threading.Thread | None = None
        self._lock = threading.Lock()
        self._counted: list[Node] = []
        self._asked: _Asked | None = None  # of the answer
        recipe = {name: defaults[name] for name in PARAMETERS if name in defaults}
        self._sampling: Sampling = model.sampling.replace(**recipe)
        self._overflow = {"overflow": defaults["overflow"]} if "overflow" in defaults else {}
        most = defaults.get("max_tokens") or (None if model.closed else model.calls.max_tokens)
        self._build(prompt, system, most or _MOST, defaults.get("seed"))
        super().__init__(self._boxes())
        self.voice.runs = True
        self.voice.on_msg(self._told)
        rest = Rest(self.count)
        for watched in (self.prompt, self.system, self.max_tokens):
            watched.observe(rest.changed, "value")
        self.count()

    def _build(self, prompt: str, system: str, most: int, seed: int | None) -> None:
        wide = ipywidgets.Layout(width="99%")
        self.prompt = ipywidgets.Textarea(
            prompt, placeholder="Prompt (Shift+Enter runs)", rows=5, layout=wide, tooltip="Prompt"
        )
        self.system = ipywidgets.Text(
            system, placeholder="System prompt (optional)", layout=wide, tooltip="System prompt"
        )
        self.sliders = controls.sliders(_SLIDERS, self._sampling)
        self.seed = controls.seed_field(seed)
        self.max_tokens = ipywidgets.BoundedIntText(
            most, 1, 1_000_000, description="max_tokens",
            style={"description_width": controls.LABEL}, layout=controls.column(),
        )  # fmt: skip
        self.run_button = controls.button(
            "Run", "Write an answer (Shift+Enter)", self.run, button_style="primary"
        )
        self.stop_button = controls.button("Stop", "Stop; the text so far is kept", self.stop, disabled=True)
        self.insert_button = controls.button("Insert as cell", "Put this prompt into a new cell", self.insert)
        self.keep_button = controls.button(
            "Keep as output", "End the pad; its prompt and answer stay in the notebook", self.keep
        )
        self.gauge = ipywidgets.HTML()
        self.output = ipywidgets.HTML()
        self.inserted = ipywidgets.HTML()

    def _boxes(self) -> tuple[Any, ...]:
        buttons = ipywidgets.HBox(
            (self.run_button, self.stop_button, self.insert_button, self.keep_button),
            layout=ipywidgets.Layout(flex_flow="row wrap"),
        )
        sampling = controls.side_by_side((*self.sliders.values(), self.seed, self.max_tokens))
        folded = controls.folded("sampling", sampling)
        return (self.system, self.prompt, self.gauge, buttons, folded, self.output, self.inserted)

    def view(self) -> list[Node]:
        """Return the last answer below what was asked; before there is one, the texts and their count."""
        out: list[Node] = [Head("prompt pad", self.model.name)]
        for message in self.messages() if self._asked is None else self._asked.messages:
            if message["content"].strip():
                out += [Line(message["role"], dim=True), Answer(message["content"])]
        return out + (self._counted if self.answer is None else completion(self.answer))

    def recipe(self) -> list[Node]:
        """Return what `view` shows as a cell, where there is something to run."""
        if self._asked is None and not self.prompt.value.strip():
            return []
        try:
            source, _ = self._cell(self._asked or self._asks())
        except LlamaMagicError:  # a seed that is no number: the pad says so when it runs
            return []
        return [Line("The pad as a cell:", dim=True), Code(source)]

    def keep(self) -> None:
        """Put the pad's static view in its place; an answer under way is stopped, what is there kept."""
        self.stop()
        if self._reader is not None:
            self._reader.join(STOPS_S)
        super().keep()

    def messages(self) -> list[dict[str, str]]:
        """Return the pad's texts as chat messages."""
        system = [{"role": "system", "content": self.system.value}] if self.system.value.strip() else []
        return [*system, {"role": "user", "content": self.prompt.value}]

    def options(self) -> dict[str, Any]:
        """Return the options of the pad, as `Model.chat` takes them.

        Raises: OptionError for a seed that is not a whole number in range.
        """
        moved = {name: slider.value for name, slider in self.sliders.items()}
        out = {"max_tokens": self.max_tokens.value, "sampling": self._sampling.replace(**moved)}
        seed = controls.read_seed(self.seed.value)
        return out | self._overflow | ({} if seed is None else {"seed": seed})

    def _asks(self) -> _Asked:
        """Return what the pad asks as it stands; where it asked the same last, with the seed drawn then."""
        messages, options = self.messages(), self.options()
        last = self._asked
        if last is not None and (messages, options) == (last.messages, last.options):
            return last
        return _Asked(messages, options, options.get("seed"))

    def _cell(self, asked: _Asked) -> tuple[str, bool]:
        models = session.current(hosts.current_shell())
        models.refresh()
        # By identity: another model of this kernel may have the name that this one gives itself.
        known = next((name for name, model in models.models.items() if model is self.model), "")
        options = asked.options | {"seed": asked.seed}
        name = "" if known == models.current_name else known
        return as_cell.cell(asked.messages, options, self.model.sampling, name)

    def insert(self) -> None:
        """Put a cell that asks the same below the pad's, and show its source below the answer.

        The page does it, and says whether it could: a kernel may add cells only in its reply to a cell that
        ended well, not in a widget's callback.
        """
        try:
            self._cell_said = self._cell(self._asks())
        except LlamaMagicError as error:  # a seed that is no number
            self.inserted.value = render_html.page(error_view(error))
            return
        self._say_cell("The pad as a cell; where none appears below, copy it:")
        if self.into_next_cell is not None:
            self.into_next_cell(self._cell_said[0])
        else:
            self.voice.send({"insert": self._cell_said[0], "below": self._stands_in})

    def _say_cell(self, where: str) -> None:
        self.inserted.value = render_html.page(as_cell.view(where, *self._cell_said))

    def _placed(self, below: bool) -> None:
        """Say where the cell stands; where the page has no place for it, the next good reply takes it."""
        if not below:
            hosts.next_cell(self._cell_said[0])
        where = "stands below" if below else "will stand below the next cell that runs without an error"
        self._say_cell(f"This cell {where}{'' if below else '; or copy it'}:")
        self.voice.text = f"The cell {where}."

    def count(self) -> Budget | None:
        """Count the prompt as it would be sent, and draw the gauge; return the budget."""
        with self._lock:
            try:
                budget = self._budget()
            except Exception as error:  # a template's or a closed model's: the pad shows it
                self._counted = error_view(error)
                self.gauge.value = render_html.page(self._counted)
                return None
            over = budget.prompt_tokens + budget.max_tokens - budget.window
            nodes: list[Node] = [gauge.bar(budget), Line(gauge.words(budget), dim=True)]
            if over > 0:
                nodes.append(Line(f"Does not fit: {counted(over, 'token')} too many.", tone="bad"))
            self._counted = nodes
            self.gauge.value = render_html.page(nodes)
        self.refresh()
        return budget

    def _budget(self) -> Budget:
        most = self.max_tokens.value
        if not self.prompt.value:
            return Budget(self.model.window, 0, most)
        return self.model.budget_for(self.messages(), max_tokens=most)

    def _told(self, widget: Any, content: Any, buffers: Any) -> None:
        """Run at Shift+Enter, on what the page's fields hold: the last key may not have come yet."""
        content = content if isinstance(content, dict) else {}
        if "inserted" in content:
            self._placed(content["inserted"] is True)
        texts = content.get("run")
        if not isinstance(texts, dict):
            return
        for field in (self.prompt, self.system):
            field.value = str(texts.get(field.placeholder, field.value))
        self.run()

    def run(self) -> None:
        """Start an answer on a thread of its own; a second Run while one is written does nothing."""
        if self._stream is not None or not self.prompt.value.strip():
            return
        self.inserted.value = ""
        try:
            messages, options = self.messages(), self.options()
            seed = options.get("seed", secrets.randbelow(MAX_SEED))
            self._stream = self.model.chat(messages, stream=True, **options | {"seed": seed})
            self._follow(messages, options, seed)
        except Exception as error:  # shown where the answer would stand
            self.output.value = render_html.page(error_view(error))
        except BaseException:  # an interrupt of the kernel: nobody reads this stream, so Run would do nothing
            self.stop()
            self._stream = None
            raise

    def _follow(self, messages: list[dict[str, str]], options: dict[str, Any], seed: int) -> None:
        """Read the stream on a thread of its own."""
        self.run_button.disabled, self.stop_button.disabled = True, False
        self.seed.placeholder = "drawn" if "seed" in options else f"drawn: {seed}"
        asked = _Asked(messages, options, seed)
        self._reader = of_the_cell(self._read, self._stream, asked, name="llama_magic-pad")
        set_going(self._reader)

    def stop(self) -> None:
        """Cancel the answer that is being written; what is there stays."""
        if self._stream is not None:
            self._stream.cancel()

    def _read(self, stream: Stream, asked: _Asked) -> None:
        drawing = DrawingThread(self._draw)
        try:
            try:
                for chunk in stream:
                    drawing.show(chunk.text)
            finally:
                drawing.end()
            self.answer, self._asked = stream.completion, asked
            self.output.value = render_html.page(completion(self.answer))
            self.voice.text = f"Answer: {one_line(self.answer.text, SAID)}"
            self.refresh()
        except Exception as error:  # a thread has nobody above it: its error is shown on the pad
            self.output.value = render_html.page(error_view(error))
        finally:
            self._stream = None
            self.run_button.disabled, self.stop_button.disabled = False, True

    def _draw(self, text: str) -> None:
        self.output.value = render_html.page((Head("writing"), Answer(text, markdown=True)))


@dataclasses.dataclass(frozen=True)
class _Asked:
    """What is asked: messages, the pad's options, and the seed, given or drawn, None before it is drawn."""

    messages: list[dict[str, str]]
    options: dict[str, Any]
    seed: int | None
