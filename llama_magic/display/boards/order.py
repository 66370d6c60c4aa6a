"""The stages of a sampler chain in a row that is put in order by dragging, by keys, or by two buttons."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import anywidget
import traitlets

from llama_magic.display.views.microscope.tracing import chained
from llama_magic.request.stages import is_off

if TYPE_CHECKING:
    from llama_magic.microscope.tracing import SamplerTrace


class StageOrder(anywidget.AnyWidget):
    """The stages by their `names`, in order; `words` says the parameters of each, or that it is off.

    `end` is what takes the token. The page changes `names` alone.
    """

    _esm = Path(__file__).with_name("order.js").read_text("utf-8")
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    words = traitlets.Dict().tag(sync=True)
    end = traitlets.Unicode("draw").tag(sync=True)

    def show(self, trace: SamplerTrace) -> None:
        """Show the order of a trace's chain, and what each stage did there."""
        ran = chained(trace)
        *_, self.end = ran
        sampling = trace.sampling
        self.words = {
            name: ran.get(name, "off" if is_off(sampling, name) else "not used") for name in sampling.samplers
        }
        self.names = list(sampling.samplers)
