"""The prompt pad: try a prompt without running cells again. Plain ipywidgets, no script of our own.

Between cells the kernel hears its widgets, so Run starts a thread that reads the stream and
updates the answer; Stop cancels the stream. Callbacks only count, start and stop: a model is
safe to call from several threads.
"""

from __future__ import annotations

import contextvars
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import ipywidgets

from llama_magic.display import gauge, render_html, views
from llama_magic.display._protocols import PadModel
from llama_magic.display.doc import Answer, Code, Head, Line, Node
from llama_magic.results import Budget

_PERIOD = 1 / 8  # seconds between updates of a growing answer: each sends the whole view
_COUNT_AFTER = 0.15  # seconds of rest before typed text is counted
_SLIDERS: tuple[
    tuple[str, str, float, float, float], ...
] = (  # sampling parameter, what it does, least, most, step
    ("temperature", "0 is greedy, more is bolder", 0.0, 2.0, 0.05),
    ("top_k", "keep the k likeliest tokens (0: all)", 0, 200, 1),
    ("top_p", "keep the likeliest tokens of this mass (1: all)", 0.0, 1.0, 0.01),
    ("min_p", "drop tokens below this share of the likeliest (0: none)", 0.0, 1.0, 0.01),
    ("repeat_penalty", "above 1 discourages repeats", 1.0, 2.0, 0.01),
)


class Pad(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Prompt, system prompt, sampler sliders, seed and length; a live gauge; Run, Stop, insert as cell.

    `model` counts tokens and chats as `llama_magic.Model` does; `insert` puts source text into a new
    cell (by default IPython's `set_next_input`). `answer` is the last completion, or `None`.
    """

    def __init__(
        self,
        model: PadModel,
        *,
        prompt: str = "",
        system: str = "",
        insert: Callable[[str], None] | None = None,
    ) -> None:
        self.model = model
        self.answer: Any = None
        self._insert = insert or _next_cell
        self._stream: Any = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()
        self._build(prompt, system)
        super().__init__(self._layout())
        for watched in (self.prompt, self.system, self.max_tokens):
            watched.observe(self._typed, "value")
        self.run_button.on_click(lambda _: self.run())
        self.stop_button.on_click(lambda _: self.stop())
        self.insert_button.on_click(lambda _: self.insert())
        self.count()

    def _build(self, prompt: str, system: str) -> None:
        wide, narrow = ipywidgets.Layout(width="99%"), ipywidgets.Layout(width="14em")
        self.prompt = ipywidgets.Textarea(prompt, placeholder="Prompt", rows=5, layout=wide, tooltip="Prompt")
        self.system = ipywidgets.Text(
            system, placeholder="System prompt (optional)", layout=wide, tooltip="System prompt"
        )
        self.sliders = {name: _slider(name, hint, *more) for name, hint, *more in _SLIDERS}
        self.seed = ipywidgets.Text("", placeholder="drawn", description="seed", layout=narrow)
        self.max_tokens = ipywidgets.BoundedIntText(
            256, 1, 1_000_000, description="max_tokens", layout=narrow
        )
        self.run_button = _button("Run", "Write an answer", button_style="primary")
        self.stop_button = _button("Stop", "Stop; the text so far is kept", disabled=True)
        self.insert_button = _button("Insert as cell", "Put this prompt into a new cell")
        self.gauge = ipywidgets.HTML()
        self.output = ipywidgets.HTML()

    def _layout(self) -> tuple[Any, ...]:
        buttons = ipywidgets.HBox((self.run_button, self.stop_button, self.insert_button))
        sampling = ipywidgets.VBox((*self.sliders.values(), ipywidgets.HBox((self.seed, self.max_tokens))))
        folded = ipywidgets.Accordion((sampling,), titles=("Sampling",))
        return (self.system, self.prompt, self.gauge, buttons, folded, self.output)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        """Show the widget; without a kernel, and in a saved notebook, one line stands for it."""
        bundle: dict[str, Any] = dict(super()._repr_mimebundle_(**options) or {})
        return bundle | {"text/plain": "Prompt pad: run this cell again to use it."}

    def messages(self) -> list[dict[str, str]]:
        """Return the pad's texts as chat messages."""
        system = [{"role": "system", "content": self.system.value}] if self.system.value.strip() else []
        return [*system, {"role": "user", "content": self.prompt.value}]

    def options(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, as `Model.chat` takes them.

        Raises: OptionError for a seed that is not a whole number in range.
        """
        from llama_magic.engine.sampling import check_seed
        from llama_magic.errors import OptionError

        out: dict[str, Any] = {"max_tokens": self.max_tokens.value}
        defaults = _defaults()
        out |= {name: s.value for name, s in self.sliders.items() if s.value != defaults[name]}
        if text := self.seed.value.strip():
            if not text.isdecimal():
                raise OptionError(f"The seed is {text!r}; expected a whole number, or nothing to draw one.")
            out["seed"] = check_seed(int(text))
        return out

    def source(self) -> str:
        """Return the pad as a `%%llama` cell."""
        flags = {"seed": "--seed", "max_tokens": "-n", "temperature": "-t"}
        words = ["%%llama chat"]
        for name, value in self.options().items():
            words.append(f"{flags.get(name, '--' + name.replace('_', '-'))} {value}")
        if self.system.value.strip():
            words.append(f"--system {json.dumps(self.system.value, ensure_ascii=False)}")
        raw = ["--raw"] if "{{" in self.prompt.value else []  # the pad fills no templates
        return f"{' '.join(words + raw)}\n{self.prompt.value}"

    def insert(self) -> None:
        """Hand the pad on as a cell, and show its source.

        Jupyter's protocol lets a kernel add cells only in its reply to a cell, never in a widget's
        callback: so by default the cell appears below the next one that is run.
        """
        source = self.source()
        self._insert(source)
        where = Line("This cell will stand below the next cell that you run; or copy it:", dim=True)
        self.output.value = render_html.page((where, Code(source)))

    def _typed(self, change: Any) -> None:
        """Count once typing rests; each key restarts the clock."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(_COUNT_AFTER, contextvars.copy_context().run, (self.count,))
        self._timer.daemon = True
        self._timer.start()

    def count(self) -> Budget | None:
        """Count the prompt as it would be sent, and draw the gauge; return the budget."""
        with self._lock:
            try:
                tokens = self.model.count_tokens(self.messages()) if self.prompt.value else 0
            except Exception as error:  # a template's or a closed model's: the pad shows it
                self.gauge.value = render_html.page(views.error(error))
                return None
            budget = Budget(_window(self.model), tokens, self.max_tokens.value)
            over = tokens + self.max_tokens.value - budget.window
            nodes: list[Node] = [gauge.bar(budget), Line(gauge.words(budget), dim=True)]
            if over > 0:
                nodes.append(Line(f"Does not fit: {over:,} tokens too many.", tone="bad"))
            self.gauge.value = render_html.page(nodes)
            return budget

    def run(self) -> None:
        """Start an answer on a thread of its own; a second Run while one is written does nothing."""
        if self._stream is not None or not self.prompt.value.strip():
            return
        try:
            self._stream = self.model.chat(self.messages(), stream=True, **self.options())
        except Exception as error:  # shown where the answer would stand
            self.output.value = render_html.page(views.error(error))
            return
        self.run_button.disabled, self.stop_button.disabled = True, False
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(self._read,), name="llama_magic-pad", daemon=True).start()

    def stop(self) -> None:
        """Cancel the answer that is being written; what is there stays."""
        if self._stream is not None:
            self._stream.cancel()

    def _read(self) -> None:
        stream, due = self._stream, 0.0
        try:
            for chunk in stream:
                if (now := time.monotonic()) >= due:
                    due = now + _PERIOD
                    self.output.value = render_html.page((Head("writing"), Answer(chunk.text, markdown=True)))
            self.answer = stream.completion
            self.output.value = render_html.page(views.completion(self.answer))
        except Exception as error:  # a thread has nobody above it: its error is shown on the pad
            self.output.value = render_html.page(views.error(error))
        finally:
            self._stream = None
            self.run_button.disabled, self.stop_button.disabled = False, True


def _defaults() -> dict[str, Any]:
    from llama_magic.engine.sampling import Sampling

    return Sampling().to_dict()


def _button(text: str, hint: str, **more: Any) -> Any:
    return ipywidgets.Button(description=text, tooltip=hint, **more)


def _slider(name: str, hint: str, low: float, high: float, step: float) -> Any:
    kind = ipywidgets.IntSlider if isinstance(step, int) else ipywidgets.FloatSlider
    return kind(_defaults()[name], min=low, max=high, step=step, description=name, tooltip=hint,
                style={"description_width": "9em"}, layout=ipywidgets.Layout(width="32em"))  # fmt: skip


def _window(model: Any) -> int:
    for name in ("window", "n_ctx"):
        if isinstance(value := getattr(model, name, None), int):
            return value
    return int(model.info.context_length)


def _next_cell(source: str) -> None:
    from llama_magic.display import hosts

    shell = hosts.current_shell()
    if shell is not None:
        shell.set_next_input(source)
