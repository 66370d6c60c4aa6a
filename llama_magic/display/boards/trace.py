"""The live view of a sampler trace: every move runs the chain again on the stored logits."""

from __future__ import annotations

from typing import Any

import ipywidgets

from llama_magic.display.boards import controls
from llama_magic.display.boards.board import Board
from llama_magic.display.boards.order import StageOrder
from llama_magic.display.static import html as render_html
from llama_magic.display.static.doc import Code, Line, Node
from llama_magic.display.views.errors import error as error_view
from llama_magic.display.views.microscope.drawing import another
from llama_magic.display.views.microscope.drawing import draws as draws_view
from llama_magic.display.views.microscope.tracing import sampler_trace
from llama_magic.errors import LlamaMagicError
from llama_magic.microscope.drawing import Draws, alike
from llama_magic.microscope.exploring import move, outcome
from llama_magic.microscope.tracing import SamplerTrace
from llama_magic.request.stages import MAX_SEED, STAGES, is_off

_DRAWS = 100
_FIRST = ("temperature", "top_k", "top_p", "min_p", "typical_p", "repeat_penalty")


class LiveTrace(Board):
    """Sliders, order of the stages and seed over a trace's table; `trace` is what it shows now.

    `draws` are the hundred draws from it, None until they are asked for, and again after a move to a chain
    that takes long to draw from: one in which every seed has to run every stage.
    Nothing is decoded, except where a step of an answer is chosen whose logits are no longer kept.
    """

    name = "The live view of a trace"

    def __init__(self, trace: SamplerTrace) -> None:
        self._start = trace
        self._busy = False
        self.draws: Draws | None = None
        self.move = outcome(trace)
        self._build(trace)
        super().__init__(self._boxes(trace))
        for control in (*self.sliders.values(), self.order, self.seed):
            control.observe(self._moved, "value")
        self.stages.observe(self._ordered, "names")
        if self.step is not None:
            self.step.observe(self._stepped, "value")
        self._draw()

    def _build(self, trace: SamplerTrace) -> None:
        wide = ipywidgets.Layout(width="99%")
        self.sliders = controls.sliders(controls.SLIDERS, trace.sampling)
        self.order = ipywidgets.Text(
            ";".join(trace.sampling.samplers), description="order", continuous_update=False, layout=wide,
            placeholder="stages, separated by ;", style={"description_width": controls.LABEL},
        )  # fmt: skip
        self.stages = StageOrder()
        self.seed = controls.seed_field(trace.seed)
        self.step = _steps(trace) if trace.steps > 1 else None
        self.next_seed = controls.button("Next seed", "Draw again with the seed after this one", self.draw)
        self.draw_button = controls.button(
            f"Draw {_DRAWS} times",
            "What other seeds would have drawn",
            self.draw_often,
        )
        self.reset_button = controls.button("Reset", "Back to the chain that the trace came with", self.reset)
        self.keep_button = controls.button(
            "Keep as output", "End the live view; its table stays in the notebook", self.keep
        )
        self.output = ipywidgets.HTML()

    def _boxes(self, trace: SamplerTrace) -> tuple[Any, ...]:
        on = (STAGES[name] for name in trace.sampling.samplers if not is_off(trace.sampling, name))
        in_use = {parameter.name for stage in on for parameter in stage.parameters}
        first = [name for name in self.sliders if name in _FIRST or name in in_use]
        rest = [self.sliders[name] for name in self.sliders if name not in first]
        steps = () if self.step is None else (self.step,)
        more = controls.folded("more samplers, the order as text", controls.side_by_side(rest), self.order)
        wrapped = ipywidgets.Layout(flex_flow="row wrap")
        buttons = ipywidgets.HBox(
            (self.next_seed, self.draw_button, self.reset_button, self.keep_button), layout=wrapped
        )
        shown = controls.side_by_side((*(self.sliders[name] for name in first), self.seed))
        return (*steps, shown, self.stages, more, buttons, self.output)

    @property
    def trace(self) -> SamplerTrace:
        """The trace that is shown now."""
        return self.move.trace

    def changes(self) -> dict[str, Any]:
        """Return the fields of `Sampling`, and the seed, as the controls have them."""
        values = {name: slider.value for name, slider in self.sliders.items()}
        return values | {"samplers": self.order.value, "seed": controls.read_seed(self.seed.value)}

    def view(self) -> list[Node]:
        """Return the trace, its outcome in words, what does nothing, and the draws that were asked for."""
        table = sampler_trace(self.trace, self.move.warnings)
        often = [] if self.draws is None else draws_view(self.draws)
        return [table[0], Line(self.move.sentence), *table[1:], *often]

    def recipe(self) -> list[Node]:
        """Return the options that make the same chain and draw."""
        return [Line("The same chain and seed, as options of %%llama:", dim=True), Code(self.move.options)]

    def draw(self) -> None:
        """Draw with the next seed."""
        self.seed.value = str(self.trace.seed + 1 if self.trace.seed < MAX_SEED else 0)

    def draw_often(self) -> None:
        """Draw a hundred times, and show how often each token came; they follow the moves from now on."""
        try:
            self.draws = self.trace.draws(_DRAWS)
        except LlamaMagicError as error:  # a forced token
            self._refuse(error)
            return
        self._draw(spoken=another(self.draws))

    def reset(self) -> None:
        """Put every control back to what the trace came with."""
        self._busy, self.draws = True, None
        for name, slider in self.sliders.items():
            slider.value = getattr(self._start.sampling, name)
        self.order.value = ";".join(self._start.sampling.samplers)
        self.seed.value = str(self._start.seed)
        self._busy = False
        self._moved()

    def _ordered(self, change: Any) -> None:
        self.order.value = ";".join(change["new"])

    def _stepped(self, change: Any) -> None:
        try:
            self._start = self._start.at(change["new"] - 1)
        except LlamaMagicError as error:
            self._refuse(error)
            return
        self.move = outcome(self._start)  # what stands where nothing can be run again: a forced token
        self._moved()

    def _moved(self, change: Any = None) -> None:
        """Run the chain as the controls say, and draw it; what no chain takes is said above the last one."""
        if self._busy:
            return
        try:
            self.move = move(self._start, **self.changes())
            if self.draws is not None:
                quick = alike([stage.name for stage in self.trace.stages])
                self.draws = self.trace.draws(_DRAWS) if quick else None
        except LlamaMagicError as error:
            self._refuse(error)
        else:
            self._draw()

    def _draw(self, spoken: str = "") -> None:
        self.stages.show(self.trace)
        nodes = [*self.view(), *self.recipe()]
        self.output.value = html = render_html.page(nodes)
        self.voice.text = spoken or " ".join((self.move.sentence, *self.move.warnings))
        self._stand_in(nodes, html)

    def _refuse(self, error: LlamaMagicError) -> None:
        self.output.value = render_html.page(error_view(error)) + render_html.page(self.view())
        self.voice.text = error.message


def _steps(trace: SamplerTrace) -> Any:
    return ipywidgets.IntSlider(
        trace.step + 1, min=1, max=trace.steps, description="token", continuous_update=False,
        tooltip="which token of the answer, from 1", style={"description_width": controls.LABEL},
        layout=ipywidgets.Layout(width="99%"),
    )  # fmt: skip
