"""How a sampler chain looks."""

from __future__ import annotations

from llama_magic.display.static.doc import Code, Grid, Head, Line, Node
from llama_magic.display.views.view import view
from llama_magic.microscope.advice import advise
from llama_magic.request.sampling import Sampling
from llama_magic.request.stages import STAGES, is_off
from llama_magic.words.tables import Table


@view.register(Sampling)
def sampling(chain: Sampling) -> list[Node]:
    """Show a sampler chain in the order in which it runs, with the stages that are switched off."""
    rows = tuple(
        (number, name, "off" if is_off(chain, name) else "", _stage_parameters(chain, name))
        for number, name in enumerate(chain.samplers, 1)
    )
    order = Code(f'--samplers "{";".join(chain.samplers)}"')  # a line may end behind each stage
    notes = [Line(note, tone="warn") for note in advise(chain)]
    table = Grid(Table(("#", "stage", "", "parameters"), rows))
    return [Head("sampler", "in the order it runs"), table, order, *notes]


def _stage_parameters(chain: Sampling, name: str) -> str:
    data = chain.to_dict()
    return ", ".join(f"{row.name}\u00a0{data[row.name]}" for row in STAGES[name].parameters)
